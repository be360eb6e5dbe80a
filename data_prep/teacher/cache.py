"""Every paid reply on disk, under the hash of its request: an append-only log of JSON lines.

A reply is handed out only once it is on disk, so whatever a killed run went on with is there when it resumes.
Replies that arrive together are written together: one flush to the disk serves many requests.
"""

import asyncio
import fcntl
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from data_prep.atomic import JsonlLog, read_jsonl
from data_prep.errors import UserError
from data_prep.teacher.messages import Reply

FILE = "replies.jsonl"


class ReplyCache:
    """The replies in `folder`. Asynchronous context manager, for one process at a time.

    Raises:
        UserError: another process holds the folder, or its log is no longer what was written.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._replies: dict[str, Reply] = {}
        self._waiting: list[tuple[dict[str, Any], asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "ReplyCache":
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = open(self._path.with_name(".lock"), "w")  # noqa: SIM115  held until `__aexit__`
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise UserError(
                f"{self._path.parent} is in use by another run. Wait until it ends, or give this one a "
                "teacher.cache= of its own."
            ) from None
        self._log = JsonlLog(self._path)
        self._replies = read_replies(self._path)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._writer:
            await asyncio.wait([self._writer])
        self._log.close()
        self._lock.close()

    def get(self, key: str) -> Reply | None:
        return self._replies.get(key)

    def __len__(self) -> int:
        return len(self._replies)

    async def put(self, key: str, reply: Reply) -> None:
        """Return once the reply is on disk; OSError where it cannot be written."""
        record = {
            "key": key,
            "text": reply.text,
            "fault": reply.fault,
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,
        }
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((record, written))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        await written
        self._replies[key] = reply

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(self._log.append, *(record for record, _ in batch))
            except OSError as error:
                _settle((written for _, written in batch), error)
            else:
                _settle(written for _, written in batch)


def _settle(futures: Iterable["asyncio.Future[None]"], error: OSError | None = None) -> None:
    for future in futures:
        if future.done():
            continue  # its request was cancelled
        if error:
            future.set_exception(error)
        else:
            future.set_result(None)


def read_replies(path: Path) -> dict[str, Reply]:
    """The replies of a log by their keys.

    Raises:
        UserError: a line is not one of ours.
    """
    replies: dict[str, Reply] = {}
    records = read_jsonl(path)
    while True:
        try:
            record = next(records, None)
            if record is None:
                return replies
            tokens = (record["prompt_tokens"], record["completion_tokens"])
            replies[record["key"]] = Reply(record["text"], record["fault"], *tokens, cached=True)
        except (ValueError, LookupError, TypeError) as error:
            raise UserError(
                f"{path} holds a line that is no reply ({error!r:.60}), after {len(replies)} that are. "
                "Take that line out and give the same command again."
            ) from error
