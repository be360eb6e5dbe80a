"""The tests' own Slurm: what the other tests of this folder take for granted."""

import time
from pathlib import Path


def submit(slurm, folder: Path, script: str, *options: str) -> str:
    path = folder / "job.sh"
    path.write_text(f"#!/bin/bash\n{script}\n")
    return slurm.run(
        "sbatch", "--parsable", f"--chdir={folder}", f"--output={folder}/out", "--open-mode=append",
        *options, str(path),
    )  # fmt: skip


def test_nodes_are_separate_and_share_the_folder(slurm, tmp_path):
    script = (
        "srun bash -c 'echo $(hostname) $(hostname -I) $(ls /tmp | grep -c only-) gpus $SLURM_GPUS_ON_NODE; "
        "touch /tmp/only-here'"
    )
    job = submit(slurm, tmp_path, script, "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=8")
    assert slurm.wait(job) == "COMPLETED", (tmp_path / "out").read_text()
    assert sorted((tmp_path / "out").read_text().splitlines()) == [
        "node1 10.99.0.1 0 gpus 8",
        "node2 10.99.0.2 0 gpus 8",
    ]


def test_more_gpus_than_a_node_has_are_refused(slurm, tmp_path):
    said = slurm.run("sbatch", "--gpus-per-node=9", "--wrap=true", check=False)
    assert said == ""
    assert slurm.run("squeue", "-h") == ""


def test_an_urgent_job_has_the_other_requeued(slurm, tmp_path):
    script = 'echo start ${SLURM_RESTART_COUNT:-0}; [ -n "$SLURM_RESTART_COUNT" ] || sleep 60'
    job = submit(slurm, tmp_path, script, "--nodes=2", "--exclusive", "--requeue")
    slurm.wait(job, ("RUNNING",))
    urgent = slurm.run(
        "sbatch",
        "--parsable",
        "--partition=urgent",
        "--nodes=2",
        "--exclusive",
        "--output=/dev/null",
        "--wrap=true",
    )
    assert slurm.wait(urgent) == "COMPLETED"
    assert slurm.wait(job) == "COMPLETED"
    assert (tmp_path / "out").read_text().splitlines()[-1] == "start 1"


def test_a_killed_node_is_missed_and_comes_back(slurm, tmp_path):
    job = submit(slurm, tmp_path, "sleep 300", "--nodelist=node2", "--requeue")
    slurm.wait(job, ("RUNNING",))
    slurm.kill_node("node2")
    slurm.wait(job, ("PENDING",))
    slurm.start_node("node2")
    slurm.run("scancel", job)
    deadline = time.monotonic() + 20
    while slurm.processes("node2"):
        assert time.monotonic() < deadline, slurm.processes("node2")
        time.sleep(0.2)
