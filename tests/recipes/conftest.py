"""A prepared set and an untrained base model that the tests of the training stages share."""

from pathlib import Path

import pytest
from tiny_words import TINY

from launch.compose import compose


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """`tiny(*overrides)` composes the configuration; prep and base stand finished in its runs_dir."""
    from recipes import base_model, prep
    from recipes.stages import plan

    runs: Path = tmp_path_factory.mktemp("runs")

    def composed(*overrides: str):
        return compose([*TINY, f"runs_dir={runs}", *overrides])

    prep.run(plan(composed(), "prep").open())
    base_model.run(plan(composed(), "base").open())
    return composed
