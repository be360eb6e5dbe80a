"""Compose the configuration of a command, and say in one sentence what is wrong with an override.

Hydra composes; the checks before it are ours, because a newcomer who misspells a key is helped by
the nearest name and not by a stack of frames.
"""

import functools
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from configs import TREE
from data_prep.errors import UserError

PRIMARY = "config"
GRIDS = "grid"


def compose(overrides: Sequence[str], config_dir: Path | None = None) -> DictConfig:
    """The configuration of `overrides` ("key=value"), in struct mode.

    `config_dir` is a tree of the user's own, searched beside ours (`--config-dir`).

    Raises:
        UserError: an override is not understood; the message names the nearest key or choice.
    """
    choices = group_choices(config_dir)
    parsed = _parse(overrides, choices)
    groups = [o for o in parsed if o.key_or_group in choices]
    _check_groups(groups, choices)
    values = [o for o in parsed if o.key_or_group not in choices]
    if "recipe" not in [o.key_or_group for o in groups]:
        _miss_recipe([o.key_or_group for o in values], choices)
    search = [f"hydra.searchpath=[file://{config_dir.resolve()}]"] if config_dir else []
    try:
        with hydra.initialize_config_dir(str(TREE.resolve()), version_base="1.3", job_name="launch"):
            base = _chosen((*search, *for_recipe([_line(o) for o in groups])))
            for override in values:
                _check_value(override, base, choices)
            return hydra.compose(PRIMARY, [*search, *for_recipe([_line(o) for o in parsed])])
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(f"the configuration does not compose: {' '.join(str(error).split())}") from error


@functools.lru_cache(maxsize=16)
def _chosen(groups: tuple[str, ...]) -> DictConfig:
    """The configuration of the chosen files alone, to check values against. The cells of a grid share it."""
    return hydra.compose(PRIMARY, list(groups))


def group_choices(config_dir: Path | None = None) -> dict[str, list[str]]:
    """Configuration group -> the names that can be chosen, read from the folders of the tree."""
    choices: dict[str, list[str]] = {}
    for root in [TREE, *([config_dir] if config_dir else [])]:
        for path in sorted(root.glob("*/*.yaml")):
            if path.parent.name != GRIDS:  # read by `launch grid`, no part of a configuration
                choices.setdefault(path.parent.name, []).append(path.stem)
    return choices


def for_recipe(words: Sequence[str]) -> list[str]:
    """The words with `scale=tiny` as the file that the recipe's family has of that scale, where it has one.

    For recipe=monosr_grpo that is scale/tiny/monosr_grpo.yaml or else scale/tiny/monosr.yaml.
    """
    chosen = dict(word.split("=", 1) for word in words if "=" in word)
    scale, recipe = chosen.get("scale", ""), chosen.get("recipe", "")
    parts = recipe.split("_")
    for length in range(len(parts), 0, -1):
        family = "_".join(parts[:length])
        if (TREE / "scale" / scale / f"{family}.yaml").is_file():
            return [f"scale={scale}/{family}" if word == f"scale={scale}" else word for word in words]
    return list(words)


def leaf_keys(config: DictConfig, prefix: str = "") -> Iterator[str]:
    """The dotted name of every value of `config`; a list is one value."""
    for key in config:
        node = config._get_node(key)
        if isinstance(node, DictConfig) and node._content is not None:
            yield from leaf_keys(node, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def is_unset(config: DictConfig, key: str) -> bool:
    """Whether the dotted `key` still waits for the user's value (`???` in the tree) and is there."""
    section, _, leaf = key.rpartition(".")
    parent = OmegaConf.select(config, section) if section else config
    return isinstance(parent, DictConfig) and OmegaConf.is_missing(parent, leaf)


def nearest(name: str, known: Sequence[str]) -> str:
    """`did you mean ...?`, or the known names (without the dotted ones) where none is near."""
    close = get_close_matches(name, known, n=1)
    return (
        f"did you mean {close[0]}?"
        if close
        else f"choose one of {', '.join(k for k in known if '.' not in k)}."
    )


def _parse(overrides: Sequence[str], choices: dict[str, list[str]]) -> list[Override]:
    for text in overrides:
        if "=" not in text and not text.startswith("~"):
            groups = [group for group in ("recipe", *choices) if text in choices[group]]
            hint = f"did you mean {groups[0]}={text}?" if groups else "an option is written key=value."
            raise UserError(f"cannot read {text!r}: {hint}")
    parsed = []
    for text in overrides:
        try:
            parsed += OverridesParser.create().parse_overrides([text])
        except HydraException as error:
            raise UserError(
                f"cannot read {text!r}: quote a value that holds spaces, brackets or commas, "
                f"as in 'key=\"value\"' ({str(error).splitlines()[0]})."
            ) from error
    return parsed


def _line(override: Override) -> str:
    assert override.input_line is not None
    return override.input_line


def _check_groups(groups: list[Override], choices: dict[str, list[str]]) -> None:
    for override in groups:
        group, chosen = override.key_or_group, override.value()
        if override.is_add() or override.is_delete():
            raise UserError(f"write {group}=NAME without {_line(override)[0]!r}.")
        if override.is_sweep_override():
            raise UserError(f"{_line(override)}: one {group} at a time.")
        if chosen not in choices[group]:
            raise UserError(f"there is no {group} {chosen!r}: {nearest(str(chosen), choices[group])}")


def _miss_recipe(keys: list[str], choices: dict[str, list[str]]) -> None:
    misspelt = get_close_matches("recipe", keys, n=1)
    if misspelt:
        raise UserError(f"there is no key {misspelt[0]}: did you mean recipe?")
    names = " or ".join(f"recipe={name}" for name in choices["recipe"])
    raise UserError(f"no recipe is named: add {names} (`launch list` shows them).")


def _check_value(override: Override, base: DictConfig, choices: dict[str, list[str]]) -> None:
    key = override.key_or_group
    if key.split(".")[0] == "hydra":
        return
    if override.is_delete():
        raise UserError(f"{_line(override)}: a key cannot be taken away; set {key}=null.")
    if override.is_sweep_override():
        raise UserError(f"{_line(override)}: one value a key; a list is written {key}=[a,b].")
    if key == "cluster.name":
        raise UserError(f"{_line(override)}: the file of the group says it; take cluster=NAME.")
    if not _exists(base, key):
        raise UserError(f"there is no key {key}: {_hint(key, base, choices)}")
    if override.is_add() and not override.is_force_add():
        raise UserError(f"{key} exists already: write {_line(override)[1:]} without the '+'.")
    wanted = _wanted_type(key, override.value(), base)
    if wanted:
        raise UserError(f"{_line(override)} is not possible: {key} takes {wanted}.")


def _exists(base: DictConfig, key: str) -> bool:
    node: Any = base
    for part in key.split("."):
        if not isinstance(node, DictConfig) or node._content is None or part not in node._content:
            return False
        node = node._get_node(part)
    return True


def _hint(key: str, base: DictConfig, choices: dict[str, list[str]]) -> str:
    keys = list(leaf_keys(base))
    parents = [k for k in keys if key.startswith(f"{k}.")]
    if parents:
        return f"{parents[0]} has no keys of its own in this configuration."
    if elsewhere := _choice_with(key, choices):
        return f"{elsewhere} has it."
    section, _, leaf = key.replace("-", "_").rpartition(".")
    initials = "".join(word[:1] for word in leaf.split("_"))
    siblings = {k.removeprefix(f"{section}."): k for k in keys if section and k.startswith(f"{section}.")}
    same_leaf = [k for k in keys if k.split(".")[-1] == leaf]
    if initials in siblings:
        return f"did you mean {siblings[initials]}?"
    if same_leaf:
        return f"did you mean {' or '.join(same_leaf)}?"
    if siblings:
        close = get_close_matches(leaf, siblings, n=1)
        return (
            f"did you mean {siblings[close[0]]}?"
            if close
            else f"choose one of {', '.join(siblings.values())}."
        )
    return nearest(key, [*choices, *(k for k in base if k not in choices), *(k for k in keys if "." in k)])


def _choice_with(key: str, choices: dict[str, list[str]]) -> str | None:
    """The choice of a group, "cluster=slurm", whose file holds a key that the chosen one lacks."""
    group, _, rest = key.partition(".")
    for name in choices.get(group, []):
        path = TREE / group / f"{name}.yaml"
        if path.exists() and _exists(OmegaConf.load(path), rest):
            return f"{group}={name}"
    return None


def _wanted_type(key: str, value: Any, base: DictConfig) -> str | None:
    """What `key` takes, when `value` differs in type from the default: it would else surface hours later."""
    if is_unset(base, key):
        return None
    default = OmegaConf.select(base, key)
    if value is None:
        primary = OmegaConf.load(TREE / f"{PRIMARY}.yaml")
        nullable = default is None or OmegaConf.select(primary, key) is None
        return None if nullable else "a value, not null"
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "true or false"
    if isinstance(default, int):
        return None if isinstance(value, int) and not isinstance(value, bool) else "a whole number"
    if isinstance(default, float):
        return None if isinstance(value, int | float) and not isinstance(value, bool) else "a number"
    if isinstance(default, ListConfig):
        return None if isinstance(value, list) else f"a list: {key}=[{value}]"
    if isinstance(default, DictConfig):
        example = next(leaf_keys(default, f"{key}."))
        return None if isinstance(value, dict) else f"keys of its own, such as {example}"
    return "one value" if isinstance(value, list | dict) and isinstance(default, str) else None
