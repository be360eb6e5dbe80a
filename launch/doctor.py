"""`launch doctor`: what this machine has, what is missing, and what it can run."""

import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from configs import TREE
from data_prep.processes import cores
from launch.catalogue import recipes
from launch.machine import PACKAGES, free_disk, git_commit, gpus, memory, version
from recipes import VERL

TINY_MEMORY, TINY_DISK = 7.0, 3.0  # GiB that scale=tiny wants
PAPER_GPUS, PAPER_GPU_MEMORY = 8, 75.0  # the paper's machine; GiB as nvidia-smi counts an 80 GB card


def report() -> int:
    """Print the machine, the versions, what to install and what fits; the status is 0 whatever is found."""
    for line in _lines():
        print(line)
    return 0


def _lines() -> Iterator[str]:
    yield "This machine"
    yield f"  CPU      {cores()} cores"
    yield f"  memory   {memory():.0f} GiB"
    yield f"  GPUs     {', '.join(f'{gpu.name} {gpu.memory:.0f} GiB' for gpu in gpus()) or 'none'}"
    yield f"  disk     {free_disk(Path()):.0f} GiB free here"
    yield f"  code     {git_commit() or 'not a checkout'}"
    yield "\nVersions"
    yield from (f"  {package:<13} {version(package) or '-'}" for package in PACKAGES)
    missing = list(missing_parts())
    yield "\nTo install" if missing else "\nEvery required package is there."
    yield from (f"  {line}" for line in missing)
    yield "\nWhat it can run"
    lacks = list(lacks_for_tiny())
    refusal = "; ".join([*lacks, *(["parts are missing, see above"] if missing else [])])
    yield f"  scale=tiny   {f'no: {refusal}' if refusal else 'yes'}"
    for name, head in recipes().items():
        yield f"  scale=paper  recipe={name}: {paper_verdict(head.hardware)}"


def missing_parts() -> Iterator[str]:
    """What to install, each with its command: declared requirements that are absent or of a wrong version."""
    from packaging.requirements import Requirement

    for text in _requirements():
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        found = version(requirement.name)
        if found is None or not requirement.specifier.contains(found, prereleases=True):
            have = "missing" if found is None else f"{found} is installed"
            yield f"{requirement.name}: {have}; pip install '{requirement.name}{requirement.specifier}'"
    if gpus():
        for package in ("vllm", "deepspeed"):
            if version(package) is None:
                yield f"{package}: missing, for training on GPUs; pip install 'spatial-recipes[gpu]'"


def _requirements() -> list[str]:
    try:
        return metadata.requires("spatial-recipes") or []
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        project = tomllib.loads((TREE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return project["dependencies"]


def lacks_for_tiny() -> Iterator[str]:
    if memory() < TINY_MEMORY:
        yield f"{memory():.1f} GiB of memory, and it wants {TINY_MEMORY:.0f}"
    if free_disk(Path()) < TINY_DISK:
        yield f"{free_disk(Path()):.1f} GiB of disk here, and it wants {TINY_DISK:.0f}"
    if version("verl") != VERL:
        yield f"verl {VERL} is not installed"


def paper_verdict(hardware: str) -> str:
    """Whether the paper's size fits, in words; `hardware` is what the paper used."""
    found = gpus()
    if not found:
        return f"no, there is no NVIDIA GPU (the paper: {hardware})"
    smallest = min(gpu.memory for gpu in found)
    if len(found) >= PAPER_GPUS and smallest >= PAPER_GPU_MEMORY:
        return f"yes, as the paper's machine ({hardware})"
    return (
        f"perhaps, with cluster.gpus={len(found)}: {len(found)} GPUs of {smallest:.0f} GiB are less than the "
        f"paper's {hardware}; more hours, and sft.lora.rank=64 grpo.lora.rank=64 where memory is short"
    )
