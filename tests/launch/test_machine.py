"""What is found out about a machine, with a stand-in for nvidia-smi."""

import pytest

from launch import doctor, machine
from launch.machine import Gpu

TWO = "NVIDIA A100-SXM4-80GB, 81920\nNVIDIA A100-SXM4-80GB, 81920\n"


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """Put an `nvidia-smi` that prints `text` and ends with `status` first on the path."""

    def install(text: str, status: int = 0) -> None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\nexit {status}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    machine.gpus.cache_clear()
    yield install
    machine.gpus.cache_clear()


@pytest.mark.parametrize(
    ("text", "status", "visible", "count"),
    [
        (TWO, 0, None, 2),
        (TWO, 0, "1", 1),
        (TWO, 0, "", 0),
        (TWO, 0, "-1", 0),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", 9, None, 0),
        ("No devices were found\n", 0, None, 0),
    ],
)
def test_gpus_are_counted_as_a_program_would_see_them(text, status, visible, count, nvidia_smi, monkeypatch):
    nvidia_smi(text, status)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert machine.gpus() == [Gpu("NVIDIA A100-SXM4-80GB", 80.0)] * count


def test_the_disk_of_a_folder_that_is_still_to_be_made(tmp_path):
    assert machine.existing_parent(tmp_path / "runs" / "family") == tmp_path
    assert machine.free_disk(tmp_path / "runs" / "family") == pytest.approx(
        machine.free_disk(tmp_path), abs=1
    )


@pytest.mark.parametrize(
    ("gpus", "verdict"),
    [
        ([], "no, there is no NVIDIA GPU (the paper: 8 x A100 80 GB)"),
        ([Gpu("A100", 80.0)] * 8, "yes, as the paper's machine"),
        ([Gpu("A100", 80.0)] * 4, "perhaps, with cluster.gpus=4"),
        ([Gpu("A100", 40.0)] * 8, "8 GPUs of 40 GiB are less"),
    ],
)
def test_doctor_says_whether_the_papers_size_fits(gpus, verdict, monkeypatch):
    monkeypatch.setattr(doctor, "gpus", lambda: gpus)
    assert verdict in doctor.paper_verdict("8 x A100 80 GB")


def test_doctor_names_what_is_to_be_installed(monkeypatch):
    real = machine.version
    changed = {"verl": "0.8.0", "trl": None, "vllm": None, "deepspeed": "0.18.0"}
    monkeypatch.setattr(doctor, "version", lambda name: changed[name] if name in changed else real(name))
    monkeypatch.setattr(doctor, "gpus", lambda: [Gpu("A100", 80.0)])
    missing = list(doctor.missing_parts())
    assert "verl: 0.8.0 is installed; pip install 'verl==0.9.1'" in missing
    assert any(line.startswith("trl: missing; pip install 'trl") for line in missing)
    assert "vllm: missing, for training on GPUs; pip install 'spatial-recipes[gpu]'" in missing
    assert len(missing) == 3


@pytest.mark.parametrize(("memory", "disk", "lacks"), [(8.0, 50.0, 0), (4.0, 50.0, 1), (4.0, 1.0, 2)])
def test_doctor_says_whether_the_tiny_scale_fits(memory, disk, lacks, monkeypatch):
    monkeypatch.setattr(doctor, "memory", lambda: memory)
    monkeypatch.setattr(doctor, "free_disk", lambda _: disk)
    assert len(list(doctor.lacks_for_tiny())) == lacks
