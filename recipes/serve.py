"""Serve a checkpoint with vLLM: `python -m recipes serve RUN_DIR`; an evaluation may do so for itself.

The flags are those of vLLM's own reference of `vllm serve` (https://docs.vllm.ai/en/stable/cli/serve/).
The server listens on this machine alone, and ends with this process.

    vllm.log  what vLLM says, in the run directory
"""

import contextlib
import functools
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType
from typing import Any

from omegaconf import DictConfig, OmegaConf

from data_prep.errors import UserError
from data_prep.tokens import TILED, most_tiles, token_side
from recipes.engines.server import lists
from recipes.run_dir import RunDir
from recipes.stages import checkpoint_path
from recipes.trust import trusts_code
from recipes.verl_process import die_with_parent

HOST = "127.0.0.1"
LEAST_VLLM = (0, 11)  # the first with Qwen3-VL
LEAST_PIXELS = {"qwen3_vl": 256 * 256, "qwen2_5_vl": 56 * 56}  # of the models' own processors
PATIENCE = 30.0  # seconds that vLLM has to end after a signal
EVERY = 0.3  # seconds between looks at a server that starts
TAIL = 25  # lines of its log that are shown when it dies
INSTALL = "pip install 'spatial-recipes[gpu]'"


def run(run: RunDir) -> int:
    """Serve the checkpoint of `eval.checkpoint` until a signal, or until vLLM ends.

    Raises:
        UserError: as `serving` does.
    """
    config = run.config
    words = command(config, checkpoint_path(run, config.eval.checkpoint))
    print(shlex.join(words), flush=True)
    try:
        with serving(config, words, run.path / "vllm.log") as process:
            print(f"base_url: {base_url(config)}\nmodel: {served_name(config)}\nCtrl-C stops it.", flush=True)
            status = process.wait()
    except KeyboardInterrupt:
        print("vLLM is stopped", flush=True)
        return 0
    print(f"vLLM ended by itself with status {status}; {run.path / 'vllm.log'} says why.", file=sys.stderr)
    return 1


def command(config: DictConfig, checkpoint: str) -> list[str]:
    """The `vllm serve` command for a checkpoint (folder or hub id); `config` has model, eval and vllm.

    Pictures get the same pixels as in this process. The checkpoint's own sampling defaults are left out
    (`--generation-config vllm`). The type of the weights is the checkpoint's: left to itself, vLLM would
    take float16 for a checkpoint in float32.
    """
    model, vllm = config.model, config.vllm
    pixels = (
        {"max_patches": most_tiles(model.max_image_tokens)}
        if model.family == TILED
        else {
            "min_pixels": least_pixels(checkpoint, model.family),
            "max_pixels": model.max_image_tokens * token_side(model.family) ** 2,
        }
    )
    return [
        executable() or "vllm", "serve", checkpoint,
        "--host", HOST,
        "--port", str(vllm.port),
        "--served-model-name", served_name(config),
        "--dtype", dtype(checkpoint) or model.dtype,
        "--max-model-len", str(_length(config, checkpoint)),
        "--limit-mm-per-prompt", json.dumps({"image": vllm.max_images, "video": 0}),
        "--mm-processor-kwargs", json.dumps(pixels),
        "--generation-config", "vllm",
        "--tensor-parallel-size", str(vllm.tensor_parallel),
        "--gpu-memory-utilization", str(vllm.memory),
        *(["--trust-remote-code"] if trusts_code(model) else []),
    ]  # fmt: skip


def served_name(config: DictConfig) -> str:
    """The name that requests give: of the recipe and of the checkpoint."""
    return f"{config.recipe_name}-{Path(config.eval.checkpoint).name}"


def base_url(config: DictConfig) -> str:
    return f"http://{HOST}:{config.vllm.port}/v1"


@contextlib.contextmanager
def serving(config: DictConfig, words: list[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """The server's process, once it answers; it ends with this block, and whenever this process does.

    Raises:
        UserError: vLLM is not installed or too old, the port is taken, vLLM ends before it answers (the end
            of its log is in the message), or it does not answer within `vllm.start_timeout` seconds.
    """
    if missing := lacks():
        raise UserError(missing)
    if _taken(config.vllm.port):
        raise UserError(f"port {config.vllm.port} is in use: give another vllm.port=, or stop that server.")
    before = signal.signal(signal.SIGTERM, _terminate)
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=functools.partial(die_with_parent, signal.SIGTERM),
        )  # fmt: skip
    try:
        _wait(config, process, log)
        yield process
    finally:
        _stop(process)
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def reachable(config: DictConfig, checkpoint: str, log: Path) -> Iterator[DictConfig]:
    """The configuration with an endpoint that answers: its own, or with `eval.serve` one started for it."""
    if not config.eval.serve:
        yield config
        return
    words = command(config, checkpoint)
    print(f"vLLM starts; {log} has what it says", flush=True)
    with serving(config, words, log):
        own = {"base_url": base_url(config), "model": served_name(config), "api_key_env": None}
        yield OmegaConf.merge(config, {"eval": {"endpoint": own}})  # type: ignore[misc]


def executable() -> str | None:
    """The `vllm` beside this Python, or on the path."""
    beside = Path(sys.executable).with_name("vllm")
    return str(beside) if beside.exists() else shutil.which("vllm")


def lacks() -> str | None:
    """What is missing for a server, with the way out; None where nothing is."""
    if executable() is None:
        return f"vllm is not installed, and a checkpoint is served with it: {INSTALL}."
    try:
        found = version("vllm")
    except PackageNotFoundError:  # an executable of another environment
        return None
    least = ".".join(map(str, LEAST_VLLM))
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    if numbers >= LEAST_VLLM:
        return None
    return f"vllm {found} is too old, {least} and later know the model: {INSTALL}."


def dtype(checkpoint: str) -> str | None:
    """The type in which a checkpoint's folder holds its weights; None of a hub id, or where it says none."""
    config = _stored(checkpoint, "config.json")
    text = config.get("text_config", {})
    return next((c[key] for c in (config, text) for key in ("dtype", "torch_dtype") if c.get(key)), None)


def _length(config: DictConfig, checkpoint: str) -> int:
    """Tokens of the longest prompt with all its pictures and of the answer, as far as the model goes."""
    model = config.model
    pictures = (config.vllm.max_images - 1) * model.max_image_tokens  # the prompt's budget holds one
    wanted = model.max_prompt_tokens + pictures + config.eval.max_new_tokens
    stored = _stored(checkpoint, "config.json")
    most = stored.get("text_config", stored).get("max_position_embeddings")
    return min(wanted, most) if most else wanted


def least_pixels(checkpoint: str, family: str) -> int:
    """The area in pixels up to which the checkpoint's processor enlarges a picture."""
    own = _stored(checkpoint, "preprocessor_config.json") or _stored(checkpoint, "processor_config.json").get(
        "image_processor", {}
    )
    found = own.get("min_pixels") or (own.get("size") or {}).get("shortest_edge")
    return found or LEAST_PIXELS[family]


def _stored(checkpoint: str, name: str) -> dict[str, Any]:
    path = Path(checkpoint) / name
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _wait(config: DictConfig, process: "subprocess.Popen[bytes]", log: Path) -> None:
    limit = config.vllm.start_timeout
    started = time.monotonic()
    while not lists(base_url(config), served_name(config)):
        if process.poll() is not None:
            raise UserError(f"vLLM ended with status {process.returncode} before it answered:\n{_tail(log)}")
        if time.monotonic() - started > limit:
            raise UserError(
                f"vLLM has not answered within vllm.start_timeout={limit:g} seconds; give it longer, or see "
                f"{log}, which ends with:\n{_tail(log)}"
            )
        time.sleep(EVERY)
    print(f"vLLM answers after {time.monotonic() - started:.0f} s", flush=True)


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-TAIL:]) or "(its log is empty)"


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End the server and what it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0


def _terminate(signum: int, frame: FrameType | None) -> None:
    sys.exit(128 + signum)
