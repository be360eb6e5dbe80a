"""How a stage is started, watched, stopped and recorded. The stages here are small scripts in their place."""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from data_prep.errors import UserError
from launch import local
from launch.compose import compose
from launch.machine import Gpu
from launch.pipeline import execute
from recipes import attempt_logs
from recipes.run_dir import RunDir
from recipes.stages import Stage, plan

ROOT = Path(__file__).parents[2]
FINISH = "from pathlib import Path; import sys; Path(sys.argv[1], 'manifest.json').write_text('{}')"
# Tells that it runs, then waits; on SIGINT it notes so and ends with status 3, as a stage that saves first.
WAIT = """
import signal, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
def stop(number, _):
    (folder / "stopped").write_text(str(number))
    sys.exit(3)
signal.signal(signal.SIGINT, stop)
signal.signal(signal.SIGTERM, stop)
(folder / "running").touch()
time.sleep(60)
"""
DEAF = """
import signal, sys, time
from pathlib import Path
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
Path(sys.argv[1], "running").touch()
time.sleep(60)
"""


def tiny_config(folder: Path, *options: str):
    return compose(["recipe=imagination_cot", "scale=tiny", f"runs_dir={folder}", *options])


def prep(folder: Path) -> Stage:
    return plan(tiny_config(folder), "prep")


def plays(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let every stage be `script`, which is given the run directory."""
    monkeypatch.setattr(local, "stage_command", lambda stage: [sys.executable, "-c", script, str(stage.path)])


def appears(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (FINISH, 0),
        ("raise SystemExit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
    ],
)
def test_the_status_of_the_stage_is_kept(script, status, tmp_path, monkeypatch):
    plays(monkeypatch, script)
    assert local.run_stage(prep(tmp_path), "launch prep") == status


def test_every_attempt_is_recorded_and_no_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "not-for-the-disk")
    stage = prep(tmp_path)
    plays(monkeypatch, "raise SystemExit(7)")
    local.run_stage(stage, "launch prep recipe=imagination_cot")
    plays(monkeypatch, FINISH)
    local.run_stage(stage, "launch prep recipe=imagination_cot seed=0")
    commands = (stage.path / "command.txt").read_text()
    assert commands.count("launch prep recipe=imagination_cot") == 2
    assert "raise SystemExit(7)" in commands
    environment = (stage.path / "environment.txt").read_text()
    for name in ("python: 3.", "commit: ", "gpus: ", "torch: ", "verl: 0.9.1"):
        assert name in environment
    assert "not-for-the-disk" not in "".join(p.read_text() for p in stage.path.iterdir() if p.is_file())


SAYS = "import sys; print('to all'); print('trouble', file=sys.stderr); sys.exit(len(sys.argv) + 1)"


@pytest.mark.parametrize("quiet", [False, True])
def test_what_a_stage_prints_reaches_the_terminal_and_its_attempts_logs(quiet, tmp_path, monkeypatch, capsys):
    plays(monkeypatch, SAYS)
    stage = prep(tmp_path)
    for number in (1, 2):
        assert local.run_stage(stage, "launch prep", quiet) == 3
        said = capsys.readouterr()
        assert (said.out, said.err) == ("to all\n", "" if quiet else "trouble\n")
        attempt = attempt_logs.latest(stage.path)
        assert (attempt.stdout.read_text(), attempt.stderr.read_text()) == ("to all\n", "trouble\n")
        assert (attempt.number, attempt.facts["status"]) == (number, 3)


def test_output_is_passed_on_while_the_stage_runs(tmp_path, monkeypatch):
    plays(
        monkeypatch,
        "import sys, time; from pathlib import Path\n"
        "print('halfway')\n"
        "while not Path(sys.argv[1], 'heard').exists(): time.sleep(0.02)",
    )
    stage = prep(tmp_path)

    class Terminal(io.StringIO):
        def write(self, text: str) -> int:
            if "halfway" in text:
                (stage.path / "heard").touch()
            return super().write(text)

    monkeypatch.setattr(sys, "stdout", Terminal())
    assert local.run_stage(stage, "launch prep") == 0


def test_a_reader_that_has_gone_ends_the_copy_and_not_the_stage(tmp_path, monkeypatch):
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    plays(monkeypatch, f"print('one'); {FINISH}; print('two')")
    stage = prep(tmp_path)
    assert local.run_stage(stage, "launch prep") == 0
    assert stage.finished
    assert attempt_logs.latest(stage.path).stdout.read_text() == "one\ntwo\n"


def test_a_finished_stage_is_not_run_again(tmp_path, monkeypatch):
    stage = prep(tmp_path)
    plays(monkeypatch, FINISH)
    assert local.run_stage(stage, "launch prep") == 0
    plays(monkeypatch, "raise SystemExit(7)")
    assert local.run_stage(stage, "launch prep") == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_goes_on_to_the_stage(number, tmp_path, monkeypatch):
    stage = prep(tmp_path)
    plays(monkeypatch, WAIT)

    def interrupt() -> None:
        appears(stage.path / "running")
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    before = signal.getsignal(number)
    assert local.run_stage(stage, "launch prep") == 128 + number
    thread.join()
    assert (stage.path / "stopped").read_text() == str(int(number))
    assert signal.getsignal(number) == before


def test_a_second_signal_ends_a_stage_that_does_not_listen(tmp_path, monkeypatch):
    stage = prep(tmp_path)
    plays(monkeypatch, DEAF)

    def interrupt() -> None:
        appears(stage.path / "running")
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    started = time.monotonic()
    assert local.run_stage(stage, "launch prep") == 128 + signal.SIGINT
    thread.join()
    assert time.monotonic() - started < 20


def test_two_launches_do_not_share_a_directory(tmp_path, monkeypatch):
    stage = prep(tmp_path)
    monkeypatch.setattr(local, "LOCK_WAIT", 0.3)
    plays(monkeypatch, FINISH)
    with local._locked(stage.path), pytest.raises(UserError, match=f"in use by process {os.getpid()} on "):
        local.run_stage(stage, "launch prep")
    # What a dead process left behind holds nobody up.
    assert (stage.path / ".lock").exists()
    assert local.run_stage(stage, "launch prep") == 0


def test_kill_9_of_launch_ends_the_stage_and_frees_the_directory(tmp_path, monkeypatch):
    script = (
        "import sys\nfrom launch import local\nfrom tests_local import prep\n"
        f"local.stage_command = lambda stage: [sys.executable, '-c', {WAIT!r}, str(stage.path)]\n"
        f"local.run_stage(prep({str(tmp_path)!r}), 'launch prep')"
    )
    (tmp_path / "tests_local.py").write_text(
        "from pathlib import Path\nfrom launch.compose import compose\nfrom recipes.stages import plan\n"
        "def prep(folder):\n"
        "    options = ['recipe=imagination_cot', 'scale=tiny', f'runs_dir={folder}']\n"
        "    return plan(compose(options), 'prep')\n"
    )
    stage = prep(tmp_path)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    launch = subprocess.Popen([sys.executable, "-c", script], env=environment)
    appears(stage.path / "running")
    launch.kill()
    launch.wait()
    appears(stage.path / "stopped")
    plays(monkeypatch, FINISH)
    assert local.run_stage(stage, "launch prep") == 0


def test_what_a_failed_stage_leaves_running_is_ended(tmp_path, monkeypatch):
    plays(
        monkeypatch,
        "import subprocess, sys; from pathlib import Path\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "Path(sys.argv[1], 'child').write_text(str(child.pid)); sys.exit(1)",
    )
    stage = prep(tmp_path)
    assert local.run_stage(stage, "launch prep") == 1
    child = int((stage.path / "child").read_text())
    assert not psutil.pid_exists(child)


def test_the_missing_stages_run_first_and_finished_ones_are_kept(tmp_path, monkeypatch, capsys):
    plays(monkeypatch, FINISH)
    assert execute("sft", tiny_config(tmp_path), ["sft"]) == 0
    said = capsys.readouterr().out
    assert [f"[{n}/3] {name}: starts in" in said for n, name in ((1, "prep"), (2, "base"), (3, "sft"))] == [
        True
    ] * 3
    assert execute("grpo", tiny_config(tmp_path), ["grpo"]) == 0
    said = capsys.readouterr().out
    assert "[3/4] sft: finished before, kept in" in said
    assert "[4/4] grpo: starts in" in said


def test_a_failed_stage_stops_the_rest_and_goes_on_later(tmp_path, monkeypatch, capsys):
    config = tiny_config(tmp_path)
    plays(monkeypatch, "raise SystemExit(4)")
    assert execute("sft", config, ["sft"]) == 4
    said = capsys.readouterr().out
    assert "prep: failed with status 4. The same command goes on" in said
    assert "base" not in said
    plays(monkeypatch, FINISH)
    assert execute("sft", config, ["sft"]) == 0
    assert "[1/3] prep: goes on in" in capsys.readouterr().out


def test_a_stage_without_a_manifest_is_not_taken_for_done(tmp_path, monkeypatch, capsys):
    plays(monkeypatch, "pass")
    assert execute("prep", tiny_config(tmp_path), ["prep"]) == 1
    assert "ended without a manifest.json" in capsys.readouterr().out


def test_run_dir_names_the_directory_of_the_asked_stage_alone(tmp_path, monkeypatch):
    plays(monkeypatch, FINISH)
    config = tiny_config(tmp_path / "runs", f"run_dir={tmp_path / 'mine'}")
    assert execute("sft", config, ["sft"]) == 0
    assert RunDir(tmp_path / "mine").finished
    family = tmp_path / "runs" / "imagination_cot-tiny"
    assert sorted(path.name.split("-")[0] for path in family.iterdir()) == ["base", "prep"]
    assert RunDir(tmp_path / "mine").inputs["prep"].finished


def test_a_finished_run_dir_is_not_taken_for_another_run(tmp_path, monkeypatch):
    plays(monkeypatch, FINISH)
    mine = f"run_dir={tmp_path / 'mine'}"
    runs = tmp_path / "runs"
    assert execute("sft", tiny_config(runs, mine), ["sft"]) == 0
    for command, options, told in (
        ("prep", (), "data is set in one of them alone"),
        ("sft", ("sft.epochs=3",), "sft.epochs was 2, now 3"),
        ("sft", ("data.synthetic.seed=8",), "prep was 'prep-"),
    ):
        with pytest.raises(UserError, match="was made by another configuration") as caught:
            execute(command, tiny_config(runs, mine, *options), [command])
        assert told in str(caught.value)
    runs.rename(tmp_path / "moved")
    assert execute("sft", tiny_config(tmp_path / "moved", mine), ["sft"]) == 0


def test_a_changed_micro_batch_continues_the_same_run(tmp_path, monkeypatch):
    plays(monkeypatch, "raise SystemExit(4)")
    first = plan(tiny_config(tmp_path), "sft")
    local.run_stage(first, "launch sft")
    plays(monkeypatch, FINISH)
    again = plan(tiny_config(tmp_path, "model.sft_micro_batch_size=8", "logger=wandb"), "sft")
    assert again.path == first.path
    assert local.run_stage(again, "launch sft") == 0
    assert RunDir(again.path).config.model.sft_micro_batch_size == 8


@pytest.mark.parametrize(
    ("shard", "flags"),
    [
        ("none", ["--multi_gpu"]),
        ("zero2", ["--use_deepspeed", "--zero_stage", "2"]),
        ("zero3", ["--use_deepspeed", "--zero_stage", "3"]),
        ("fsdp", ["--use_fsdp", "--fsdp_version", "2"]),
    ],
)
def test_sft_on_eight_gpus_runs_under_accelerate(shard, flags):
    from accelerate.commands.launch import launch_command_parser

    config = compose(["recipe=imagination_cot", f"sft.shard={shard}", "data.root=/data", "teacher.path=/t"])
    stage = plan(config, "sft")
    command = local.stage_command(stage)
    assert command[:3] == [sys.executable, "-m", "accelerate.commands.launch"]
    assert [word for word in command if word in flags] == flags
    parsed = launch_command_parser().parse_args(command[3:])
    assert (parsed.num_processes, parsed.mixed_precision, parsed.module) == (8, "bf16", True)
    assert [parsed.training_script, *parsed.training_script_args] == ["recipes", "sft", str(stage.path)]
    if shard.startswith("zero"):
        per_update = parsed.gradient_accumulation_steps * config.model.sft_micro_batch_size * 8
        assert per_update == config.sft.batch_size


def test_the_trainers_of_two_runs_take_ports_of_their_own(tmp_path):
    """Accelerate is told port 0, and takes a free one for it each time."""
    from accelerate.commands.launch import launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    config = compose(["recipe=imagination_cot", "sft.shard=none", "data.root=/data", "teacher.path=/t"])
    command = local.stage_command(plan(config, "sft"))
    ports = []
    for _ in range(2):
        parsed = launch_command_parser().parse_args(command[3:])
        assert parsed.main_process_port == 0
        prepare_multi_gpu_env(parsed)
        ports.append(parsed.master_port)
    assert "29500" not in map(str, ports)


@pytest.mark.parametrize(("options", "count"), [(["cluster.gpus=1"], 1), (["cluster.gpus=2"], 2), ([], 8)])
def test_a_stage_sees_the_gpus_it_asked_for(options, count, monkeypatch):
    monkeypatch.setattr(local, "gpus", lambda: [Gpu("A100", 80.0)] * 8)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    stage = plan(compose(["recipe=imagination_cot", "data.root=/data", "teacher.path=/t", *options]), "sft")
    seen = local.stage_environment(stage).get("CUDA_VISIBLE_DEVICES")
    assert seen == (None if count == 8 else ",".join(map(str, range(count))))
    assert ("accelerate.commands.launch" in local.stage_command(stage)) == (count > 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,6,7")
    assert local.stage_environment(stage).get("CUDA_VISIBLE_DEVICES") == {1: "5", 2: "5,6", 8: None}[count]


def test_a_stage_on_the_cpu_gets_its_settings_but_for_those_that_the_user_made(monkeypatch, tmp_path):
    for name in local.CPU_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    stage = plan(tiny_config(tmp_path), "sft")
    assert local.stage_environment(stage) == local.CPU_ENVIRONMENT
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert local.stage_environment(stage).keys() == local.CPU_ENVIRONMENT.keys() - {"OMP_WAIT_POLICY"}
