"""Keys and tokens in the environment: known by the names of their variables, and kept out of every text.

A stage is given its keys by the environment alone. What a server or a library says may repeat them, so a text
that is kept or shown goes through `mask` first. Imports nothing beside the standard library.
"""

import os
import re
import sys
import traceback
from collections.abc import Sequence
from types import TracebackType
from urllib.parse import quote, urlsplit

from data_prep.errors import UserError

SHORTEST = 8  # letters; anything shorter would be found in innocent words
# A part of a variable's name that says that its value is a secret.
_NAMED = re.compile(
    r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)", re.IGNORECASE
)
# Forms that providers give their keys: OpenAI and its like, Hugging Face, Google.
_FORMS = re.compile(r"\b(?:sk-(?=[\w-]*\d)(?=[\w-]*[A-Z])[\w-]{16,}|hf_[A-Za-z0-9]{20,}|AIza[\w-]{30,})")
_also: set[str] = set()


def remember(variable: str) -> None:
    """Take the value of an environment variable for a secret, whatever the variable's name says."""
    _also.add(variable)


def held() -> dict[str, str]:
    """Secret -> name of the variable that holds it, the longest first. A path is none: it names a file."""
    found = {
        value.strip(): name
        for name, value in os.environ.items()
        if (name in _also or _NAMED.search(name))
        and len(value.strip()) >= SHORTEST
        and not value.strip().startswith(("/", "~", "."))
    }
    return dict(sorted(found.items(), key=lambda pair: -len(pair[0])))


def mask(text: str) -> str:
    """`text` with every secret replaced by the name of its variable, as in <OPENAI_API_KEY>."""
    for secret, name in held().items():
        for form in (secret, quote(secret, safe="")):
            text = text.replace(form, f"<{name}>")
    return _FORMS.sub("<a key>", text)


def refuse_typed(words: Sequence[str]) -> None:
    """Return when no word of a command line holds a secret: command.txt and config.yaml would keep it.

    Raises:
        UserError: one does; the message says which word without its value.
    """
    for word in words:
        shown = mask(word)
        if shown != word:
            key = word.partition("=")[0] if "=" in word else "a word"
            raise UserError(
                f"{key} on the command line holds a key, which would be kept in command.txt and config.yaml. "
                "Set an environment variable, and give its name (..._env=NAME) where a key asks for one."
            )


def has_password(url: str) -> bool:
    """Whether an address holds a user's password, as in https://user:password@host."""
    return urlsplit(url).password is not None


def hide_in_tracebacks() -> None:
    """Let an error that nothing catches be printed without secrets: messages of libraries may repeat them."""

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        print(mask("".join(traceback.format_exception(kind, error, trace))), end="", file=sys.stderr)

    sys.excepthook = show
