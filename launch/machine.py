"""What this machine has: cores, memory, GPUs, disk, versions; found without importing anything heavy."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

GIB = 1024**3
PACKAGES = (
    "torch", "torchvision", "transformers", "trl", "accelerate", "peft", "verl", "vllm", "ray", "deepspeed",
    "flash-attn", "datasets", "hydra-core", "wandb",
)  # fmt: skip


@dataclass(frozen=True)
class Gpu:
    name: str
    memory: float  # GiB


def memory() -> float:
    """Memory in GiB: the machine's, or the container's limit where that is less."""
    import psutil

    total = psutil.virtual_memory().total
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limit = Path(path).read_text().strip() if Path(path).exists() else "max"
        total = min(total, int(limit)) if limit.isdigit() else total
    return total / GIB


@cache
def gpus() -> list[Gpu]:
    """The NVIDIA GPUs that a program started here would see (CUDA_VISIBLE_DEVICES counts)."""
    if shutil.which("nvidia-smi") is None:
        return []
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False, timeout=60)
    if answer.returncode != 0:
        return []
    lines = [line.rpartition(",") for line in answer.stdout.splitlines() if "," in line]
    found = [Gpu(name.strip(), float(mib) / 1024) for name, _, mib in lines if mib.strip().isdigit()]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (
        found
        if visible is None
        else found[: len([v for v in visible.split(",") if v.strip() not in ("", "-1")])]
    )


def existing_parent(path: Path) -> Path:
    """`path` itself, or the nearest folder above it that exists."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def free_disk(path: Path) -> float:
    """Free space in GiB where `path` stands or would stand."""
    return shutil.disk_usage(existing_parent(path)).free / GIB


def version(package: str) -> str | None:
    """The installed version, or None; the package is not imported."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def git_commit() -> str | None:
    """The commit of the source tree this package runs from, with `+changes` when files differ from it."""
    root = Path(__file__).resolve().parent.parent
    if shutil.which("git") is None or _git(root, "rev-parse", "--show-toplevel") != str(root):
        return None
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return _git(root, "rev-parse", "HEAD") + ("+changes" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
