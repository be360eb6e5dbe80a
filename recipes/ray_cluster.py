"""One Ray over the nodes of a Slurm job: a step of it starts it, its script waits for it.

    python -m recipes.ray_cluster node RUN_DIR      on every node, in the foreground
    python -m recipes.ray_cluster wait SECONDS      in the job's script, until every node has joined

Both read what the script exports, RAY_ADDRESS (the first node, a port of the job's own) and RAY_AUTH_TOKEN,
and Slurm's numbers of job and node. `ray symmetric-run` is not used: it hides a node that failed to start,
and ends with a `ray stop` of everything on the machine.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from data_prep.errors import UserError
from recipes import verl_overrides
from recipes.run_dir import RunDir
from recipes.verl_process import die_with_parent

# slurmstepd sets them beside CUDA's in every task, and torch and Ray then look for AMD's GPUs.
FOREIGN = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
ENDING = (signal.SIGTERM, signal.SIGUSR2)  # srun itself kills on the first, and hands on the second
HEAD_WAIT = 120.0  # seconds that a node waits for the first one to listen
PATIENCE = 15.0  # seconds that Ray has to end after a signal
POLL = 0.5


def address() -> str:
    """Where the job's Ray listens.

    Raises:
        UserError: this is no job with a Ray of its own.
    """
    found = os.environ.get("RAY_ADDRESS")
    if not found or "SLURM_JOB_ID" not in os.environ:
        raise UserError(
            "this run was prepared for Slurm, whose jobs start Ray for it: submit it with cluster=slurm, "
            "or give `launch grpo` with cluster=local."
        )
    return found


def folder(job: str) -> Path:
    """Where a job's Ray keeps its files on a node: short, as the paths of sockets may not be long."""
    return Path("/tmp") / f"ray-{job}"


def node_command(config: Mapping, environment: Mapping[str, str]) -> list[str]:
    """`ray start` for this node of the job, as Slurm's variables in `environment` number it."""
    place, port = environment["RAY_ADDRESS"].rsplit(":", 1)
    cpu = config["model"]["device"] == "cpu"
    slots = verl_overrides.CPU_SLOTS if cpu else int(environment["SLURM_CPUS_ON_NODE"])
    command = [
        sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats",
        f"--num-cpus={slots}", f"--num-gpus={1 if cpu else config['cluster']['gpus']}",
        f"--dashboard-agent-listen-port={int(port) + 1}",
    ]  # fmt: skip
    if cpu:
        command.append(f"--object-store-memory={verl_overrides.CPU_STORE}")
    if environment["SLURM_NODEID"] != "0":
        return [*command, f"--address={place}:{port}"]
    return [
        *command, "--head", f"--node-ip-address={place}", f"--port={port}",
        f"--ray-client-server-port={int(port) + 2}", "--include-dashboard=false",
        f"--temp-dir={folder(environment['SLURM_JOB_ID'])}",
    ]  # fmt: skip


def node(run: RunDir) -> int:
    """Carry this node's part of the job's Ray until it ends or this process is told to."""
    config = run.config
    files = folder(os.environ["SLURM_JOB_ID"])
    settings = {**os.environ, **verl_overrides.environment(config, run.path / "verl")}
    settings |= {"HF_DATASETS_CACHE": str(files / "datasets"), "TMPDIR": str(files)}
    for name in ("RAY_ADDRESS", *FOREIGN):  # `ray start` would join what RAY_ADDRESS names
        settings.pop(name, None)
    if os.environ["SLURM_NODEID"] != "0":
        _wait_for_head(os.environ["RAY_ADDRESS"], HEAD_WAIT)
    shutil.rmtree(files, ignore_errors=True)  # of an attempt whose node failed
    files.mkdir(mode=0o700)
    for number in ENDING:
        signal.signal(number, _leave)
    command = node_command(config, os.environ)
    process = subprocess.Popen(command, env=settings, preexec_fn=die_with_parent)
    try:
        return process.wait()
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        shutil.rmtree(files, ignore_errors=True)


def _wait_for_head(head: str, limit: float) -> None:
    host, port = head.rsplit(":", 1)
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=5):
            return
        time.sleep(POLL)
    raise UserError(f"{socket.gethostname()} cannot reach the first node at {head} in {limit:.0f} s.")


def wait(limit: float) -> None:
    """Return once every node of the job has joined.

    Raises:
        UserError: not all have within `limit` seconds; the message says how many, and which.
    """
    wanted, deadline = int(os.environ["SLURM_JOB_NUM_NODES"]), time.monotonic() + limit
    head = address()
    started = time.monotonic()
    with contextlib.suppress(UserError):
        _wait_for_head(head, limit)
    import ray

    there: dict[str, str] = {}
    while len(there) < wanted:
        if time.monotonic() > deadline:
            raise UserError(
                f"{len(there)} of {wanted} nodes joined the job's Ray within {limit:.0f} s"
                f"{': ' + ', '.join(sorted(there.values())) if there else ''}. "
                "ray-node*.txt beside this file say why; cluster.start_timeout= waits longer."
            )
        with contextlib.suppress(ConnectionError, RuntimeError, TimeoutError):
            if not ray.is_initialized():
                ray.init(address=head, logging_level="ERROR", log_to_driver=False)
            there = {n["NodeID"]: n["NodeManagerHostname"] for n in ray.nodes() if n["Alive"]}
        time.sleep(POLL)
    ray.shutdown()
    hosts = ", ".join(sorted(there.values()))
    print(f"Ray: {wanted} nodes after {time.monotonic() - started:.0f} s: {hosts}", flush=True)


def _leave(number: int, frame: FrameType | None) -> None:
    for other in ENDING:  # a second one would cut the cleaning up short
        signal.signal(other, signal.SIG_IGN)
    sys.exit(0 if number == signal.SIGUSR2 else 128 + number)


if __name__ == "__main__":
    task, argument = sys.argv[1:]
    try:
        status = node(RunDir(Path(argument).absolute())) if task == "node" else wait(float(argument))
    except UserError as error:
        print(f"Ray: {error}", file=sys.stderr)
        status = 1
    sys.exit(status)
