"""Run one stage on this machine: its command, its lock, its signals, and the record of every attempt."""

import contextlib
import ctypes
import datetime
import fcntl
import math
import os
import platform
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from data_prep.atomic import write_text
from data_prep.errors import UserError
from data_prep.processes import cores
from data_prep.secrets import mask
from launch.family import Family
from launch.follow import FOLLOW, Follower
from launch.machine import PACKAGES, git_commit, gpus, memory, version
from recipes import attempt_logs, devices, stop
from recipes.stages import Stage

PATIENCE = 30.0  # seconds that a stage may take to save and end after Ctrl-C or SIGTERM
LOCK_WAIT = 10.0  # seconds that an ended run's processes may take to let go of the directory
PR_SET_PDEATHSIG = 1


class InUse(UserError):
    """Another launch runs this stage at this moment."""


def stage_command(stage: Stage) -> list[str]:
    """The command of a stage. SFT on several GPUs runs under accelerate; every other one is one process."""
    module = ["recipes", stage.name, str(stage.path)]
    count = devices.gpus(stage.config)
    if stage.name != "sft" or count < 2:
        return [sys.executable, "-m", *module]
    return [
        sys.executable, "-m", "accelerate.commands.launch",
        "--num_processes", str(count), "--num_machines", "1", "--main_process_port", "0",
        "--dynamo_backend", "no", *sharding(stage.config), "--module", *module,
    ]  # fmt: skip


def sharding(config: dict[str, Any]) -> list[str]:
    sft, model = config["sft"], config["model"]
    precision = {"bfloat16": "bf16", "float16": "fp16"}.get(model["dtype"], "no")
    flags = ["--mixed_precision", precision]
    if sft["shard"] in ("zero2", "zero3"):
        share = sft["batch_size"] // devices.count(config)
        accumulation = share // min(model["sft_micro_batch_size"], share)
        return [
            *flags, "--use_deepspeed", "--zero_stage", sft["shard"][-1],
            "--gradient_accumulation_steps", str(accumulation),
            "--gradient_clipping", str(sft["max_grad_norm"]),
            "--zero3_init_flag", "false", "--zero3_save_16bit_model", "true",
        ]  # fmt: skip
    if sft["shard"] == "fsdp":
        return [
            *flags, "--use_fsdp", "--fsdp_version", "2", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP",
            "--fsdp_reshard_after_forward", "true", "--fsdp_state_dict_type", "FULL_STATE_DICT",
            "--fsdp_cpu_ram_efficient_loading", "true",
        ]  # fmt: skip
    return [*flags, "--multi_gpu"]


# Threads that wait sleep: spinning ones slow a stage to a quarter as soon as anything else runs on the
# machine. glibc keeps freed memory: handing every activation back to the kernel and taking it again, page by
# page, costs up to a fifth of a training step.
CPU_ENVIRONMENT = {
    "OMP_WAIT_POLICY": "passive",
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(8 * 2**30),
}


def stage_environment(stage: Stage) -> dict[str, str]:
    """What is set for a stage, beside the user's own environment.

    No more GPUs in sight than asked for, or one process would spread over all. On the CPU `CPU_ENVIRONMENT`,
    where the user has not set those variables.
    """
    if stage.config.get("model", {}).get("device") == "cpu":
        return {name: value for name, value in CPU_ENVIRONMENT.items() if name not in os.environ}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    seen = visible.split(",") if visible else [str(number) for number in range(len(gpus()))]
    count = devices.gpus(stage.config)
    return {"CUDA_VISIBLE_DEVICES": ",".join(seen[:count])} if 0 < count < len(seen) else {}


def run_stage(stage: Stage, asked: str, quiet: bool = False) -> int:
    """Run `stage` in its directory and return its exit status; 0 at once when it is finished already.

    `asked` is the user's command line, kept in command.txt. What the stage prints goes to the logs of a new
    attempt (`recipes.attempt_logs`) and, but for stderr where `quiet`, to the terminal. A status of 128 + n
    means that signal n ended it.

    Raises:
        InUse: another launch holds the directory.
        UserError: another configuration made it.
    """
    with _locked(stage.path) as lock:
        if stage.finished:
            return 0
        run = stage.open()
        (run.path / stop.NAME).unlink(missing_ok=True)  # a wish of a job that has ended
        command = stage_command(stage)
        note_command(run.path, asked, command)
        write_text(run.path / "environment.txt", environment_text())
        attempt = attempt_logs.begin(run.path)
        with (
            Family(),
            open(attempt.stdout, "ab") as stdout,
            open(attempt.stderr, "ab") as stderr,
            contextlib.ExitStack() as streams,
        ):
            start = partial(
                subprocess.Popen,
                command,
                # Into a file, Python would keep what it prints for itself until there is much of it.
                env={**os.environ, **stage_environment(stage), "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
                pass_fds=[lock],
                preexec_fn=_end_with_parent,
                stdout=stdout,
                stderr=stderr,
            )
            shown = [(attempt.stdout, sys.stdout), *([] if quiet else [(attempt.stderr, sys.stderr)])]
            status = _carry(start, [streams.enter_context(Follower(*pair)) for pair in shown])
        attempt.end(status)
        return status


def note_command(folder: Path, asked: str, *commands: Sequence[str]) -> None:
    """Add to command.txt: when and where, what the user typed, and the commands that it led to."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    lines = [f"# {now} in {Path.cwd()}", asked, *map(shlex.join, commands)]
    with open(folder / "command.txt", "a", encoding="utf-8") as out:
        out.write(mask("".join(f"{line}\n" for line in lines)))


def environment_text() -> str:
    """Versions, commit and machine. Environment variables are left out: they may hold secrets."""
    lines = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "commit": git_commit() or "not a checkout",
        "cores": cores(),
        "memory": f"{memory():.0f} GiB",
        "gpus": ", ".join(f"{gpu.name} {gpu.memory:.0f} GiB" for gpu in gpus()) or "none",
        **{package: found for package in PACKAGES if (found := version(package))},
    }
    return "".join(f"{name}: {value}\n" for name, value in lines.items())


def in_use(folder: Path) -> str | None:
    """Who runs the stage of this directory at this moment; None where nobody does."""
    with contextlib.suppress(FileNotFoundError), open(folder / ".lock", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return lock.read().strip() or "another launch"
    return None


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Hold `folder`'s lock. The stage inherits it, so the lock lives as long as launch or stage does, and
    dies with them: a file left behind by a dead process holds nobody up."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "a+", encoding="utf-8") as lock:
        deadline = time.monotonic() + LOCK_WAIT
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    lock.seek(0)
                    raise InUse(
                        f"{folder} is in use by {lock.read().strip() or 'another launch'}. "
                        "Wait until it ends, or stop it."
                    ) from None
                time.sleep(0.2)
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        lock.flush()
        yield lock.fileno()


def _end_with_parent() -> None:
    # Without this a stage would train on, unseen, after `kill -9` of launch.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _carry(start: "Callable[[], subprocess.Popen[bytes]]", output: Sequence[Follower]) -> int:
    """Start the stage, wait for it and pass on what it prints. Ctrl-C and SIGTERM go on to its whole process
    group; a second one kills it, and so do `PATIENCE` seconds without an end."""
    received: list[int] = []
    process, deadline = None, math.inf

    def forward(number: int, _: FrameType | None) -> None:
        nonlocal deadline
        received.append(number)
        deadline = min(deadline, time.monotonic() + PATIENCE)
        if process is not None:
            _signal_group(process.pid, number if len(received) == 1 else signal.SIGKILL)

    previous = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        process, status = start(), None
        if received:  # while it was started
            _signal_group(process.pid, received[0])
        while status is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(FOLLOW)
            for stream in output:
                stream.pass_on()
            if status is None and time.monotonic() > deadline:
                _signal_group(process.pid, signal.SIGKILL)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if received or status:
        _signal_group(process.pid, signal.SIGKILL)  # whatever a stage that failed left behind
    if received:
        return 128 + received[0]
    return status if status >= 0 else 128 - status


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def asked_command(arguments: Sequence[str]) -> str:
    return shlex.join(["launch", *arguments])
