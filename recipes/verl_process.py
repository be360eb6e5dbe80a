"""verl as a child process: with a Ray of its own, and with nothing left when it or we end.

Ray's processes put themselves into process groups of their own but stay in the session of the process that
started them. So verl gets a new session, and what ends is the session.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import IO

import psutil

from data_prep.atomic import write_json

PATIENCE = 20.0  # seconds that verl has to end after a signal
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


@contextlib.contextmanager
def ray_folder(note: Path) -> Iterator[str]:
    """A folder for one Ray's files, below the system's temporary folder, as socket paths must be short.

    `note` keeps its name, verl's session and this machine's name while it is in use. What a killed attempt
    left on this machine is found there and cleared away first.
    """
    if note.exists():
        left = json.loads(note.read_text())
        if left.get("host", socket.gethostname()) == socket.gethostname():
            end_session(left["session"])
            shutil.rmtree(left["folder"], ignore_errors=True)
    folder = tempfile.mkdtemp(prefix="ray-")
    write_json(note, {"folder": folder, "session": None, "host": socket.gethostname()})
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        note.unlink(missing_ok=True)


@contextlib.contextmanager
def verl_process(
    command: list[str],
    environment: dict[str, str],
    folder: str,
    note: Path,
    log: IO[str],
    cluster: str | None = None,
) -> Iterator[subprocess.Popen]:
    """Run `command` with Ray's files in `folder`. It ends with this block, and whenever this process does.

    `cluster` is the address of the Ray that a job has started for it; without one it starts a Ray of its own.
    """
    ray = ["+ray_kwargs.ray_init.address=local", f"+ray_kwargs.ray_init._temp_dir={folder}"]
    settings = {**os.environ, **environment, "TMPDIR": folder, "HF_DATASETS_CACHE": f"{folder}/datasets"}
    settings.pop("RAY_ADDRESS", None)  # a cluster of somebody else
    if cluster is not None:
        ray, settings["RAY_ADDRESS"] = [], cluster
    before = signal.signal(signal.SIGTERM, _terminate)
    process = subprocess.Popen(
        [*command, *ray], env=settings, cwd=folder, stdin=subprocess.DEVNULL, stdout=log,
        stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=die_with_parent,
    )  # fmt: skip
    try:
        write_json(note, {"folder": folder, "session": process.pid, "host": socket.gethostname()})
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            if process.poll() is None:
                process.kill()
                process.wait()
        end_session(process.pid)
        signal.signal(signal.SIGTERM, before)


def end_session(session: int | None) -> None:
    """Kill what verl and Ray left in a session; its number may have passed on since, so names count too."""
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or [])
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if ("ray" in words or "verl" in words) and os.getsid(process.pid) == session:
                process.kill()


def _terminate(signum: int, frame: FrameType | None) -> None:
    sys.exit(128 + signum)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel end this process by a signal with the one that started it (Linux)."""
    if hasattr(_LIBC, "prctl"):
        _LIBC.prctl(PR_SET_PDEATHSIG, number)
