"""A log that many tasks append to at once: records that arrive together go to the disk together."""

import asyncio
from pathlib import Path
from typing import Any

from data_prep.atomic import JsonlLog


class GroupLog:
    """JSON lines in `path`; one flush to the disk serves every record that waits. Call `close` at the end."""

    def __init__(self, path: Path) -> None:
        self._log = JsonlLog(path)
        self._waiting: list[tuple[dict[str, Any], asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def append(self, record: dict[str, Any]) -> None:
        """Return once the record is on disk; OSError where it cannot be written."""
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((record, written))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        await written

    async def close(self) -> None:
        """Write what waits, and close the file."""
        if self._writer:
            await asyncio.wait([self._writer])
        self._log.close()

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(self._log.append, *(record for record, _ in batch))
            except OSError as error:
                _settle(batch, error)
            else:
                _settle(batch, None)


def _settle(batch: list[tuple[dict[str, Any], "asyncio.Future[None]"]], error: OSError | None) -> None:
    for _, written in batch:
        if written.done():
            continue  # its task was cancelled
        if error:
            written.set_exception(error)
        else:
            written.set_result(None)
