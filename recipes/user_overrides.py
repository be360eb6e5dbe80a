"""Reads "key=value" words that a user gives for a library's own options, and refuses what a table refuses."""

from collections.abc import Iterable, Mapping

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from data_prep.errors import UserError


def parse(where: str, text: str) -> Override:
    """One override of the list `where` (`grpo.overrides` or `sft.overrides`).

    Raises:
        UserError: it is not of the form key=value.
    """
    try:
        override = OverridesParser.create().parse_override(text)
    except HydraException as error:
        raise UserError(f"{where}: {text!r} is not of the form key=value ({error}).") from error
    if override.is_delete() or override.is_sweep_override():
        raise UserError(f"{where}: {text!r} is not of the form key=value; a list is written key=[a,b].")
    return override


def refuse(where: str, text: str, key: str, tables: Iterable[tuple[Mapping[str, str], str]]) -> None:
    """Raise a UserError when a table holds `key` or the head of it.

    Args:
        text: the override as it was given.
        tables: a table of keys, or heads of several, and the sentence that its values are put in at `{}`.
    """
    for heads, message in tables:
        head = next((head for head in heads if key == head or key.startswith(f"{head}.")), None)
        if head is not None:
            raise UserError(f"{where}: {text!r} cannot be taken; {message.format(heads[head])}.")
