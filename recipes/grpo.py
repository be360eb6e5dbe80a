"""GRPO by verl's own trainer: start, follow and resume it, and keep what it trained in transformers format.

    verl/checkpoints/   verl's checkpoints, the last few
    verl.log            everything verl printed, of every attempt
    rollouts.jsonl      every answer of every step with its reward and the reward's parts
    checkpoint/         the trained model

Killed at any moment and started again, the stage goes on from the last whole checkpoint.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType
from typing import IO, Any

import psutil
import pyarrow
import pyarrow.parquet

from data_prep.atomic import write_text
from data_prep.errors import UserError
from recipes import verl_overrides
from recipes.progress import StepProgress
from recipes.rollouts import StepLogs, drop_after
from recipes.run_dir import RunDir
from recipes.stages import checkpoint_path
from recipes.tracking import metrics_log
from recipes.verl_checkpoints import merge, resume_point
from recipes.verl_log import last_errors

VERL = "0.9.1"
POLL = 0.5  # seconds
PATIENCE = 20.0  # seconds that verl has to end after a signal
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def run(run: RunDir) -> None:
    """Train on the prepared RL set from the SFT checkpoint.

    Raises:
        UserError: verl is missing or another version, the RL set or the start checkpoint is missing or unfit,
            or verl ended with an error.
    """
    config, prep = run.config, run.inputs["prep"].path
    _check_verl()
    rows = _count_rows(prep / "rl.parquet")
    start = checkpoint_path(run, "sft")
    out, log_path = run.path / "verl", run.path / "verl.log"
    overrides = verl_overrides.overrides(config, prep, start, out, rows)
    total = verl_overrides.total_steps(config, rows)

    done, newest = resume_point(out / "checkpoints", config.grpo.keep_checkpoints)
    if done < total:
        drop_after(run.path, done)
        with metrics_log(run) as metrics, StepLogs(run.path, out, _answers_a_step(config), metrics) as logs:
            logs.start_attempt(done)
            _train(run, [*overrides, *_resuming(newest)], logs, done, total)
        done, newest = resume_point(out / "checkpoints", config.grpo.keep_checkpoints)
    if newest is None or done < total:
        raise RuntimeError(f"verl ended at step {done} of {total} without an error; see {log_path}.")
    print(f"GRPO: keeping step {done} as {run.path / 'checkpoint'}", flush=True)
    with open(log_path, "a", encoding="utf-8") as log, contextlib.redirect_stdout(log):
        merge(newest, run.path / "checkpoint", config.model)
    run.finish(
        {
            "steps": done,
            "rows": rows,
            "answers": done * _answers_a_step(config),
            "start": start,
            "verl": VERL,
            "overrides": overrides,
        }
    )


def _check_verl() -> None:
    try:
        found = version("verl")
    except PackageNotFoundError:
        raise UserError(f"GRPO needs verl; pip install verl=={VERL}.") from None
    if found != VERL:
        raise UserError(f"this recipe is written for verl {VERL}, not {found}; pip install verl=={VERL}.")


def _count_rows(path: Path) -> int:
    if not path.exists():
        raise UserError(f"there is no RL set at {path}; run launch prep first.")
    try:
        return pyarrow.parquet.read_metadata(path).num_rows
    except pyarrow.ArrowInvalid as error:
        raise UserError(f"{path} is no parquet file ({error}); run launch prep again.") from error


def _answers_a_step(config: Any) -> int:
    return config.grpo.batch_size * config.grpo.group_size


def _resuming(checkpoint: Path | None) -> list[str]:
    if checkpoint is None:
        return ["trainer.resume_mode=disable"]
    path = verl_overrides.render(str(checkpoint.resolve()))
    return ["trainer.resume_mode=resume_path", f"trainer.resume_from_path={path}"]


def _train(run: RunDir, overrides: list[str], logs: StepLogs, done: int, total: int) -> None:
    """Run verl to its end, logging every step as it is finished."""
    note = f"from step {done}" if done else ""
    with (
        _ray_folder(run.path / "verl") as ray_folder,
        open(run.path / "verl.log", "a", encoding="utf-8") as log,
        StepProgress("GRPO", total, already=done) as progress,
    ):
        begun = log.tell()
        ray = ["+ray_kwargs.ray_init.address=local", f"+ray_kwargs.ray_init._temp_dir={ray_folder}"]
        command = verl_overrides.command([*overrides, *ray])
        environment = {**os.environ, **verl_overrides.environment(run.config, run.path / "verl")}
        environment.pop("RAY_ADDRESS", None)  # a cluster of somebody else
        environment |= {"TMPDIR": ray_folder, "HF_DATASETS_CACHE": f"{ray_folder}/datasets"}
        print(f"GRPO: starting verl {note}".rstrip(), flush=True)
        with _process(command, environment, run.path, log) as process:
            while True:
                ended = process.poll() is not None
                for record in logs.poll():
                    progress.update(
                        record["step"], f"reward {record['reward']:.3f} accuracy {record['accuracy']:.3f}"
                    )
                if ended:
                    break
                time.sleep(POLL)
    if process.returncode:
        path = run.path / "verl.log"
        raise UserError(
            f"verl ended with status {process.returncode}; {path} has the whole story:\n"
            f"{last_errors(path, begun)}"
        )


@contextlib.contextmanager
def _ray_folder(out: Path) -> Iterator[str]:
    """A folder for Ray's own files, away from any other Ray; one that a killed attempt left goes first.

    It stands in the system's temporary folder, as the paths of Ray's sockets may not be long.
    """
    out.mkdir(parents=True, exist_ok=True)
    noted = out / "ray_folder.txt"
    if noted.exists():
        shutil.rmtree(noted.read_text(), ignore_errors=True)
    folder = tempfile.mkdtemp(prefix="ray-")
    write_text(noted, folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        noted.unlink(missing_ok=True)


@contextlib.contextmanager
def _process(
    command: list[str], environment: dict[str, str], folder: Path, log: IO[str]
) -> Iterator[subprocess.Popen]:
    """Run `command` in a process group of its own, which ends with this block and with this process."""
    before = signal.signal(signal.SIGTERM, _terminate)
    process = subprocess.Popen(
        command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        start_new_session=True, preexec_fn=_die_with_parent,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            if process.poll() is None:
                process.kill()
                process.wait()
        _end_session(process.pid)
        signal.signal(signal.SIGTERM, before)


def _end_session(session: int) -> None:
    """End what verl left running: Ray's processes have groups of their own but stay in verl's session."""
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == session:
                process.kill()


def _terminate(signum: int, frame: FrameType | None) -> None:
    sys.exit(128 + signum)


def _die_with_parent() -> None:
    """Have the kernel end this process with the one that started it, however that ends (Linux)."""
    if hasattr(_LIBC, "prctl"):
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
