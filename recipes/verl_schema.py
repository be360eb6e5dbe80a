"""Checks verl keys that a user gives against the configuration tree of the installed verl.

The tree is composed from the package's own files by Hydra, without importing verl.
"""

import difflib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from data_prep.errors import UserError
from recipes import VERL
from recipes.user_overrides import parse, refuse
from recipes.verl_ignored import RENAMED, ignored

WHERE = "grpo.overrides"


def compose_verl(overrides: list[str]) -> DictConfig:
    """verl's PPO configuration with `overrides`, values unresolved.

    Raises:
        UserError: verl is not installed.
        hydra.errors.HydraException: an override does not fit the tree.
    """
    spec = find_spec("verl")
    if spec is None or spec.origin is None:
        raise UserError(f"verl is not installed; pip install verl=={VERL}.")
    folder = Path(spec.origin).parent / "trainer" / "config"
    with initialize_config_dir(str(folder), version_base=None):
        return compose("ppo_trainer", overrides=overrides)


def check_user_overrides(
    given: list[str], ours: dict[str, str], relied_on: dict[str, str], generated: list[str]
) -> None:
    """See that every override in `given` may be set by a user, and that the whole composes.

    `ours` maps a verl key to the key of ours that holds its value; `relied_on` maps a key, or the head of
    several, to the reason why it stays as it is; `generated` are the overrides that come before.

    Raises:
        UserError: the first override that cannot be taken, with the reason and what to set instead.
    """
    parsed = {text: parse(WHERE, text) for text in given}
    keys = {override.key_or_group for override in parsed.values()}
    for text, override in parsed.items():
        key = override.key_or_group
        if (instead := ignored(key, keys)) is not None:
            raise UserError(f"{WHERE}: {text!r} cannot be taken; verl {VERL} ignores it: {instead}.")
        refuse(
            WHERE,
            text,
            key,
            (
                (RENAMED, f"verl {VERL} no longer goes by that name: write {{}}"),
                (ours, "its value is held by {}; set that"),
                (relied_on, "{}"),
            ),
        )
        if not _known(key, adding=override.is_add() or override.is_force_add()):
            nearest = difflib.get_close_matches(key, _leaves(_tree()), n=1, cutoff=0.0)[0]
            raise UserError(f"{WHERE}: verl {VERL} has no key {key}; did you mean {nearest}?")
    if given:
        try:
            compose_verl([*generated, *given])
        except HydraException as error:
            raise UserError(f"grpo.overrides does not fit verl's configuration: {error}") from error


@cache
def _tree() -> dict[str, Any]:
    tree = OmegaConf.to_container(compose_verl([]), resolve=False)
    assert isinstance(tree, dict)
    return tree


def _known(key: str, adding: bool) -> bool:
    """Whether `key` is in verl's tree, or may be added to it: below an open mapping, or to a node that verl
    makes a dataclass of, which refuses a field that it does not have when the run starts."""
    *path, last = key.split(".")
    node: Any = _tree()
    for name in path:
        node = node.get(name) if isinstance(node, dict) else None
    if not isinstance(node, dict):
        return False
    return last in node or (adding and bool(path) and (not node or "_target_" in node))


def _leaves(tree: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Every dotted key that holds a value."""
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        elif name != "_target_":
            yield f"{prefix}{name}"
