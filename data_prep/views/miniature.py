"""Miniatures of places by an image generator (CVSBench 0.A.4), asked for once a picture and kept.

replies.jsonl     every reply that was paid for, with the name of its picture
pictures/         the pictures, named by content
failures.jsonl    every miniature that is not there, with the reason
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from data_prep.atomic import write_jsonl
from data_prep.errors import UserError
from data_prep.generation.session import work_through
from data_prep.teacher.estimate import prompt_tokens
from data_prep.teacher.messages import Request
from data_prep.views.image_client import SECTION, ImageClient, image_client
from data_prep.views.prompts import load_prompts

Key = tuple[str, ...]
"""A miniature's name: the kind of input (satellite, street, streets), then its pictures' content hashes."""


@dataclass(frozen=True)
class Made:
    """The file of a miniature, or why there is none. `unanswered`: the endpoint never answered."""

    path: Path | None
    fault: str = ""
    unanswered: bool = False


def make_miniatures(
    config: DictConfig,
    wanted: Mapping[Key, Sequence[Path]],
    folder: Path,
    progress: Callable[[str, int, int], AbstractContextManager[Any]],
) -> tuple[dict[Key, Made], dict[str, Any]]:
    """Have every miniature of `wanted` (key to its input's files, clean) made that is not kept from before.

    Args:
        config: the section `data.views_miniature`.
        folder: where the files above go; replies and pictures into `config.cache` where that is set.
        progress: makes the display of a title, a number of steps and how many an earlier attempt did.

    Returns:
        what became of each, and what was used: requests, tokens, dollars.

    Raises:
        Stopped: `max_requests` or `max_cost` is reached.
        UserError: the endpoint refuses or is down, or left some unanswered and `allow_unanswered` is not set.
    """
    prompts = load_prompts(config.prompts)
    requests = {key: Request("", prompts[key[0]], images=tuple(files)) for key, files in wanted.items()}
    made, used = asyncio.run(_ask_all(config, requests, folder, progress))
    failures = {key: one for key, one in made.items() if one.path is None}
    write_jsonl(
        folder / "failures.jsonl",
        (
            {"input": key[0], "pictures": [str(p) for p in wanted[key]], "reason": one.fault}
            for key, one in failures.items()
        ),
    )
    unanswered = [one for one in failures.values() if one.unanswered]
    if unanswered and not config.allow_unanswered:
        raise UserError(
            f"The endpoint left {len(unanswered)} of {len(made)} miniatures without an answer (the first: "
            f"{unanswered[0].fault}). What is paid for is kept: give the same command again to ask for these "
            f"alone, or go on without them with {SECTION}.allow_unanswered=true."
        )
    return made, used


def estimate(config: DictConfig, client: ImageClient, requests: Iterable[Request]) -> tuple[str, int]:
    """What is ahead in one sentence, from no reply sent back to every one; and how many are made before."""
    requests = list(requests)
    ahead = [request for request in requests if not client.is_paid(request)]
    most = config.retries + 1
    prompt = sum(prompt_tokens(request) for request in ahead)
    pictures = len(ahead) * config.image_tokens
    cost = client.usage.price_of(prompt, pictures)
    dollars = (
        f"{cost:,.2f} to {cost * most:,.2f} dollars"
        if cost is not None
        else f"cost unknown ({SECTION}.price_in and price_out are not set)"
    )
    return (
        f"miniatures: {len(requests):,} wanted, {len(requests) - len(ahead):,} of them made before. "
        f"{len(ahead):,} to {len(ahead) * most:,} requests to {config.model}, about {prompt / 1e6:,.2f} "
        f"million prompt and {pictures / 1e6:,.2f} million picture tokens a round, {dollars}.",
        len(requests) - len(ahead),
    )


async def _ask_all(
    config: DictConfig,
    requests: Mapping[Key, Request],
    folder: Path,
    progress: Callable[[str, int, int], AbstractContextManager[Any]],
) -> tuple[dict[Key, Made], dict[str, Any]]:
    async with image_client(config, folder) as client:
        sentence, before = estimate(config, client, requests.values())
        print(sentence, flush=True)
        if not requests:
            return {}, {}
        with progress("miniatures", len(requests), before) as bar:
            done = 0

            def count() -> None:
                nonlocal done
                done += 1
                bar.update(done, f"{client.usage.sent} requests")

            work = [partial(_ask, client, request, config.retries) for request in requests.values()]
            outcomes: list[Any] = await work_through(work, config.concurrency, count)  # type: ignore[arg-type]
        usage = client.usage
        used = {
            "sent": usage.sent,
            "made_before": usage.cached,
            "prompt_tokens": usage.prompt_tokens,
            "picture_tokens": usage.completion_tokens,
            "dollars": usage.cost,
            "faults": dict(sorted(usage.faults.items())),
        }
        print(f"miniatures: {used}", flush=True)
        return dict(zip(requests, outcomes, strict=True)), used


async def _ask(client: ImageClient, request: Request, retries: int) -> Made:
    """The picture of a request, asked for again where the reply has none that can be used."""
    faults = []
    for attempt in range(retries + 1):
        reply = await client.ask(replace(request, attempt=attempt))
        if reply.given_up:
            return Made(None, reply.fault or "", unanswered=True)
        if reply.text is not None:
            return Made(client.folder / reply.text)
        faults.append(reply.fault or "")
    return Made(None, f"the generator gave no usable picture ({'; '.join(dict.fromkeys(faults))})")
