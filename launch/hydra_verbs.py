"""Hydra's own verbs (`--cfg`, `--help`, `--info`, completion), handed to Hydra."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import hydra
from omegaconf import DictConfig

from configs import TREE
from launch.compose import PRIMARY, compose, for_recipe, group_choices


def hand_over(command: str, what: str, words: Sequence[str], config_dir: Path | None) -> int:
    """Let Hydra answer `launch COMMAND WORDS` with our tree. Overrides are checked by us first.

    Raises:
        UserError: as `compose` does.
    """
    overrides = [word for word in words if "=" in word and not word.startswith("-")]
    example = []
    if not any(word.startswith("recipe=") for word in overrides):
        if not {"-h", "--help"} & set(words):
            compose(overrides, config_dir)  # says which recipes there are
        example = [f"recipe={group_choices(config_dir)['recipe'][0]}"]
    compose([*overrides, *example], config_dir)
    extra = [f"--config-dir={config_dir}"] if config_dir else []
    header = f"hydra.help.header='launch {command}: {what}.'"
    return _hydra([*for_recipe([*words, *example]), header, *extra])


def complete(words: Sequence[str], commands: Sequence[str]) -> int:
    """Answer the shell's completion (`launch -sc query=bash`), or print what installs it."""
    if not any(word.startswith("query=") for word in words):
        return _hydra(["-sc", *words])
    line = os.environ.get("COMP_LINE", "")
    typed = [*line.split(), *([""] if line.endswith(" ") else [])]
    if len(typed) <= 2:
        print(" ".join(name for name in commands if name.startswith(typed[-1] if len(typed) == 2 else "")))
        return 0
    os.environ["COMP_LINE"] = " ".join([typed[0], *typed[2:]])
    return _hydra(["-sc", *words])


def _hydra(words: Sequence[str]) -> int:
    @hydra.main(config_path=str(TREE.resolve()), config_name=PRIMARY, version_base="1.3")
    def nothing(_: DictConfig) -> None:
        """Only verbs come here, and none of them runs the task."""

    before = sys.argv
    sys.argv = ["launch", *words]
    try:
        nothing()
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    finally:
        sys.argv = before
    return 0
