"""How the tests are spread over processes: `make test` runs two (`JOBS=`), pytest by itself one."""

import os

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # Before torch is loaded: a process of several takes a core, not all of them.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a file's tests in one process, for they share fixtures, and all real trainers in one, for memory.

    The trainers come first, so that nobody waits for them in the end.
    """
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    for item in items:
        group = "trainers" if item.get_closest_marker("slow") else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
