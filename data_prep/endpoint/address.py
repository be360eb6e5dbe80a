"""Where an endpoint is, and the key that it wants. Imports nothing beside the standard library."""

import os
from dataclasses import dataclass

from data_prep.errors import UserError
from data_prep.secrets import remember


@dataclass(frozen=True)
class Endpoint:
    """Where requests go. `section` is that part of the configuration, for messages to the user."""

    base_url: str
    model: str
    key_name: str | None
    section: str = "teacher"


def api_key(endpoint: Endpoint) -> str:
    """The key in the endpoint's environment variable; a stand-in where it wants none.

    Raises:
        UserError: the variable is not set.
    """
    name = endpoint.key_name
    if name is None:
        return "none"
    remember(name)
    key = os.environ.get(name, "").strip()
    if not key:
        raise UserError(
            f"The environment variable {name} holds no key for {endpoint.base_url}. Set it, name another "
            f"with {endpoint.section}.api_key_env=, or set that to null for an endpoint that wants none."
        )
    return key
