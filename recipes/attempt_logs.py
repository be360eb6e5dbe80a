"""What every start of a stage printed, and how it ended.

    attempts/attempt_N/stdout.txt, stderr.txt   N from 1
    attempts/attempt_N/attempt.json             when and where it started; when it ended, with which status
    attempts/latest                             a link to the newest

The script of a Slurm job opens the same folders by itself, without attempt.json: what became of a job, Slurm
knows.
"""

import datetime
import json
import os
import socket
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from data_prep.atomic import write_json
from recipes.stop import STOPPED

FOLDER = "attempts"
INTERRUPTED = (STOPPED, 130, 143)  # by the job that carries it, by Ctrl-C, by SIGTERM
# torchrun's own account of a failed process stands behind the error itself, and says less.
ELASTIC = ("torch.distributed.elastic", "torch/distributed/elastic", "distributed/launcher/api.py")


@dataclass(frozen=True)
class Attempt:
    """One start of the stage whose run directory holds `folder`."""

    folder: Path

    @property
    def number(self) -> int:
        return int(self.folder.name.rpartition("_")[2])

    @property
    def stdout(self) -> Path:
        return self.folder / "stdout.txt"

    @property
    def stderr(self) -> Path:
        return self.folder / "stderr.txt"

    @property
    def facts(self) -> dict[str, Any]:
        """`started` and `ended` (ISO times), `host`, `process` and `status`; null where it is not known."""
        path = self.folder / "attempt.json"
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return {**dict.fromkeys(("started", "ended", "host", "process", "status")), **known}

    @property
    def failed(self) -> bool:
        """Whether it is known to have ended without success, and not because it was told to stop."""
        return self.facts["status"] not in (None, 0, *INTERRUPTED)

    def end(self, status: int) -> None:
        """Keep how it ended; 128 + n where signal n ended it."""
        write_json(self.folder / "attempt.json", {**self.facts, "ended": _now(), "status": status})

    def error(self) -> str:
        """The last line that the stage wrote to stderr, or how it ended."""
        status = self.facts["status"]
        if status is not None and status > 128:
            return f"ended by signal {status - 128}"
        text = self.stderr.read_text(encoding="utf-8", errors="replace") if self.stderr.exists() else ""
        lines = [line.strip() for line in text.splitlines() if line.strip(" =-\t\r")]
        own = list(takewhile(lambda line: not any(word in line for word in ELASTIC), lines))
        said = own or lines
        return said[-1] if said else f"status {status}" if status is not None else "it said nothing"


def begin(run: Path) -> Attempt:
    """Open the next attempt's folder in the run directory and point `latest` to it."""
    numbers = count(1 + max((attempt.number for attempt in attempts(run)), default=0))
    for number in numbers:
        folder = run / FOLDER / f"attempt_{number}"
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            continue  # another process was faster
    facts = {
        "started": _now(),
        "host": socket.gethostname(),
        "process": os.getpid(),
        "ended": None,
        "status": None,
    }
    write_json(folder / "attempt.json", facts)
    attempt = Attempt(folder)
    attempt.stdout.touch()
    attempt.stderr.touch()
    link = run / FOLDER / f".latest-{os.getpid()}"
    link.unlink(missing_ok=True)
    link.symlink_to(folder.name)
    link.replace(run / FOLDER / "latest")
    return attempt


def attempts(run: Path) -> list[Attempt]:
    """Every attempt of the run directory, the first one first."""
    return sorted(map(Attempt, (run / FOLDER).glob("attempt_*")), key=lambda attempt: attempt.number)


def latest(run: Path) -> Attempt | None:
    return next(reversed(attempts(run)), None)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
