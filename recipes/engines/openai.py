"""Answers from any OpenAI-compatible server, many rows at once, in memory that does not grow with the rows.

Rows are streamed: at most `eval.endpoint.concurrency` are under way. An answer is on disk before its row's
place is taken, so a killed run asks only for what it had not written.
"""

import asyncio
import functools
import io
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from PIL import Image

from data_prep.atomic import digest
from data_prep.endpoint.address import Endpoint
from data_prep.endpoint.faults import Fault
from data_prep.endpoint.group_log import GroupLog
from data_prep.endpoint.limits import Counts
from data_prep.endpoint.sender import Sender
from data_prep.endpoint.wire import Answer, data_url, encoded, estimated, image_part, read_answer
from data_prep.prompts import PromptSpec, build_messages
from data_prep.rows import ImageRef, Row
from recipes.engines import Job
from recipes.engines.answers import GREEDY_BELOW, MID_GREY, Completion, row_seed
from recipes.engines.server import identify

SECTION = "eval.endpoint"
SEEDS = 2**31  # what every server takes


def answer(job: Job) -> dict[str, str]:
    """Ask for every row; what the server never answered comes back with the reason.

    Raises:
        UserError: the server refuses, is down, or does not say which model is meant.
        OSError: an answer cannot be written.
    """
    endpoint = endpoint_of(job.config.eval.endpoint)
    served = identify(endpoint)
    job.on_engine({"engine": f"openai: {served.server}", "served_model": served.model})
    counts = Counts()
    failures = asyncio.run(_answer_all(job, Endpoint(**{**vars(endpoint), "model": served.model}), counts))
    if counts.faults:
        met = ", ".join(f"{count} {name}" for name, count in sorted(counts.faults.items()))
        print(f"evaluation: {counts.sent:,} requests sent; waited out or given up: {met}", flush=True)
    return failures


def endpoint_of(config: DictConfig) -> Endpoint:
    """The endpoint of the section `eval.endpoint`; no model where none is named."""
    return Endpoint(config.base_url.rstrip("/"), config.model or "", config.api_key_env, SECTION)


class Chat:
    """Turns rows into requests for the model that `sender` reaches.

    `temperature` at or below 0.01 is sent as 0, which takes the likeliest token, as in this process.
    """

    def __init__(
        self,
        sender: Sender,
        prompt: PromptSpec,
        images: Path,
        blank: bool,
        temperature: float,
        max_new_tokens: int,
        seed: int,
    ) -> None:
        self._sender, self._prompt, self._images, self._blank = sender, prompt, images, blank
        self._options = {
            "temperature": 0.0 if temperature <= GREEDY_BELOW else temperature,
            "top_p": 1.0,
            "max_tokens": max_new_tokens,
        }
        self._seed = seed

    def messages(self, row: Row) -> list[dict[str, Any]]:
        """The messages of the prompt builder, each picture's place taken by its file as a data URL."""
        urls = iter([self._url(image) for image in row.images])
        return [
            {
                **message,
                "content": [
                    image_part(next(urls)) if part["type"] == "image" else part for part in message["content"]
                ],
            }
            for message in build_messages(row, self._prompt)
        ]

    async def ask(self, row: Row) -> Answer | Fault:
        """The server's answer to a row, or why there is none.

        Raises:
            UserError: no row would get one.
        """
        options = {**self._options, "seed": row_seed(self._seed, row.id) % SEEDS}
        pictures = [[image.path, image.sha256, self._blank] for image in row.images]
        prompt = build_messages(row, self._prompt)
        key = digest([self._sender.endpoint.model, row.id, prompt, pictures, options])

        def body() -> dict[str, Any]:
            return {**options, "messages": self.messages(row)}

        return await self._sender.ask(body, read_answer, key)

    def _url(self, image: ImageRef) -> str:
        if self._blank:
            return _blank_url(image.width, image.height)
        return data_url(self._images / image.path)


def completion_of(answer: Answer) -> Completion:
    """A refusal is an answer, and a wrong one. Tokens are estimated where the server does not count them."""
    tokens = estimated(answer.text) if answer.completion_tokens is None else answer.completion_tokens
    return Completion(answer.text, tokens, answer.cut_off)


async def _answer_all(job: Job, endpoint: Endpoint, counts: Counts) -> dict[str, str]:
    config = job.config.eval
    limits = config.endpoint
    sender = Sender(endpoint, limits.concurrency, limits.timeout, limits.tries, counts)
    decoding = (config.temperature, config.max_new_tokens, job.seed)
    chat = Chat(sender, job.prompt, job.images, config.blank, *decoding)
    log = GroupLog(job.log)
    waiting = iter(job.rows)
    failures: dict[str, str] = {}
    ended: list[BaseException] = []

    async def work() -> None:
        # What is under way when one worker fails is waited for and written; nothing more is begun.
        try:
            while not ended and (row := next(waiting, None)) is not None:
                outcome = await chat.ask(row)
                if isinstance(outcome, Fault):
                    failures[row.id] = str(outcome)
                    continue
                record = job.record(row, completion_of(outcome))
                await log.append(record)
                job.on_records([record], f"({sender.concurrency} at once)")
        except BaseException as error:
            ended.append(error)
            raise

    try:
        await asyncio.gather(*(work() for _ in range(limits.concurrency)), return_exceptions=True)
    finally:
        await log.close()
        await sender.close()
    if ended:
        raise ended[0]
    return failures


@functools.lru_cache(maxsize=64)
def _blank_url(width: int, height: int) -> str:
    """A grey PNG of this size in pixels."""
    content = io.BytesIO()
    Image.new("RGB", (width, height), MID_GREY).save(content, format="PNG")
    return encoded(content.getvalue(), "image/png")
