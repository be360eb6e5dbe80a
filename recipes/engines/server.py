"""What a server says of itself: the models that it lists, what it is, and how it tokenizes a prompt."""

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from data_prep.endpoint.address import Endpoint, api_key
from data_prep.errors import UserError

WAIT = 30.0  # seconds for an answer that needs no model
_NO_ANSWER = (OSError, http.client.HTTPException, ValueError)


@dataclass(frozen=True)
class Served:
    """A model behind an endpoint: its name there, and what serves it ("vllm 0.24.0")."""

    model: str
    server: str


def identify(endpoint: Endpoint) -> Served:
    """Look at the endpoint's list of models; an empty `endpoint.model` takes the only one that is listed.

    Raises:
        UserError: nothing answers, the key is refused, or it is open which model is meant.
    """
    try:
        listed = _get(f"{endpoint.base_url}/models", endpoint)["data"]
        names = {entry["id"]: str(entry.get("owned_by") or "") for entry in listed}
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise UserError(
                f"{endpoint.base_url} refuses the key (status {error.code}). "
                f"Name the environment variable that holds it with {endpoint.section}.api_key_env=."
            ) from error
        names = {}  # a server that lists nothing may still answer
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError):
        names = {}
    except _NO_ANSWER as error:
        raise UserError(
            f"No server answers at {endpoint.base_url} ({error}). Start one with `launch serve`, or give its "
            f"address with {endpoint.section}.base_url=, or let eval.serve=true start it."
        ) from error
    model = endpoint.model
    if not model:
        if len(names) != 1:
            some = f"lists {', '.join(sorted(names)[:8])}" if names else "lists no model"
            raise UserError(f"{endpoint.base_url} {some}: name one with {endpoint.section}.model=.")
        [model] = names
    owner = names.get(model, "")
    return Served(model, f"vllm {_version(endpoint)}" if owner == "vllm" else owner or "unnamed server")


def token_ids(endpoint: Endpoint, model: str, messages: list[dict[str, Any]]) -> list[int] | None:
    """The ids of a prompt as the server's /tokenize gives them; None where it offers none."""
    body = {"model": model, "messages": messages, "add_generation_prompt": True}
    try:
        tokens = _get(f"{_root(endpoint)}/tokenize", endpoint, body)["tokens"]
    except (*_NO_ANSWER, KeyError, TypeError):
        return None
    return tokens if isinstance(tokens, list) else None


def lists(base_url: str, model: str) -> bool:
    """Whether a server at `base_url` answers and lists `model`; it needs no key."""
    endpoint = Endpoint(base_url, model, None)
    try:
        return model in [entry["id"] for entry in _get(f"{base_url}/models", endpoint)["data"]]
    except (*_NO_ANSWER, KeyError, TypeError):
        return False


def _version(endpoint: Endpoint) -> str:
    try:
        return str(_get(f"{_root(endpoint)}/version", endpoint)["version"])
    except (*_NO_ANSWER, KeyError, TypeError):
        return "of unknown version"


def _root(endpoint: Endpoint) -> str:
    """The address without its version: vLLM's own routes stand beside /v1."""
    return endpoint.base_url.rstrip("/").removesuffix("/v1")


def _get(url: str, endpoint: Endpoint, body: dict[str, Any] | None = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {api_key(endpoint)}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, content, headers)
    with urllib.request.urlopen(request, timeout=WAIT) as answer:
        return json.load(answer)
