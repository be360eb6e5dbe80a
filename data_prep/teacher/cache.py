"""Every paid reply on disk, under the hash of its request: an append-only log of JSON lines.

A reply is handed out only once it is on disk, so whatever a killed run went on with is there when it resumes.
Replies that arrive together are written together: one flush to the disk serves many requests.
"""

import fcntl
from pathlib import Path

from data_prep.atomic import read_jsonl
from data_prep.endpoint.group_log import GroupLog
from data_prep.errors import UserError
from data_prep.teacher.messages import Reply

FILE = "replies.jsonl"


class ReplyCache:
    """The replies in `folder`. Asynchronous context manager, for one process at a time.

    Raises:
        UserError: another process holds the folder, or its log is no longer what was written.
    """

    def __init__(self, folder: Path, section: str = "teacher") -> None:
        self._path, self._section = folder / FILE, section
        self._replies: dict[str, Reply] = {}

    async def __aenter__(self) -> "ReplyCache":
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = open(self._path.with_name(".lock"), "w")  # noqa: SIM115  held until `__aexit__`
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise UserError(
                f"{self._path.parent} is in use by another run. Wait until it ends, or give this one a "
                f"{self._section}.cache= of its own."
            ) from None
        self._log = GroupLog(self._path)
        self._replies = read_replies(self._path)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._log.close()
        self._lock.close()

    def get(self, key: str) -> Reply | None:
        return self._replies.get(key)

    def forget(self, key: str) -> None:
        """Count a reply as not paid for; what is asked for anew takes its place in the log too."""
        self._replies.pop(key, None)

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
        await self._log.append(record)
        self._replies[key] = reply


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
