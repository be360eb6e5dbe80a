"""How far a long step is: a bar with the time left on a terminal, a line now and then in a log."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class StepProgress:
    """Context manager; call `update(done, note)` with the absolute number of steps done.

    `already` steps were done by an earlier, interrupted run and do not count for the speed.
    """

    def __init__(self, title: str, total: int, already: int = 0, every: float = 15.0) -> None:
        self.title, self.total, self.already, self.every = title, total, already, every
        self._started = self._printed = time.monotonic()
        self._bar: Progress | None = None
        if sys.stdout.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
                console=Console(),
            )  # fmt: skip
            self._task = self._bar.add_task(title, total=total, completed=already, note="")

    def update(self, done: int, note: str = "") -> None:
        if self._bar:
            self._bar.update(self._task, completed=done, note=note)
            return
        now = time.monotonic()
        if done < self.total and now - self._printed < self.every:
            return
        self._printed = now
        new = done - self.already
        left = (now - self._started) / new * (self.total - done) if new > 0 else 0.0
        print(f"{self.title}: {done}/{self.total}, {left:.0f} s left {note}".rstrip(), flush=True)

    def __enter__(self) -> "StepProgress":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()
