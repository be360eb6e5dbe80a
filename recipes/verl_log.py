"""The error in a log of verl, in which every process of Ray prints and wraps what others raised."""

import re
from pathlib import Path

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_PROCESS = re.compile(r"^\([\w.:]+ pid=\d+(, ip=[\d.]+)?\) ")
_ERROR = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit))\b:? ?(.*)")
# What Ray and Hydra say when something else has failed.
_WRAPPERS = ("RayTaskError", "ActorDiedError", "RaySystemError", "WorkerCrashedError")
_KILLED = re.compile(r"out of memory|OutOfMemory|Killed|No space left on device", re.IGNORECASE)


def last_errors(path: Path, start: int = 0, most: int = 3) -> str:
    """The last `most` different errors after byte `start`, oldest first, or the log's last lines."""
    with open(path, "rb") as log:
        log.seek(start)
        text = log.read().decode("utf-8", "replace")
    lines = [_PROCESS.sub("", _ANSI.sub("", line)).rstrip() for line in text.splitlines()]
    found: list[str] = []
    for line in reversed(lines):
        match = _ERROR.match(line)
        raised = match is not None and not any(wrapper in match[1] for wrapper in _WRAPPERS)
        if (raised or _KILLED.search(line)) and line not in found:
            found.append(line)
        if len(found) == most:
            break
    return "\n".join(reversed(found)) if found else "\n".join([line for line in lines if line][-5:])
