"""A release that the tests of auxiliary views share."""

from pathlib import Path

import pytest
from view_releases import put_release


@pytest.fixture(scope="session")
def view_release(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("view_release")
    put_release(folder)
    return folder
