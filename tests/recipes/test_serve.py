"""Serving a checkpoint: the command, and a server that starts late, dies, never answers, or is stopped."""

import json
import shlex
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import fake_vllm
import pytest
from evaluation_runs import make_eval, make_prep, tiny_config

from data_prep.atomic import read_jsonl, write_json
from data_prep.errors import UserError
from launch.cli import main
from recipes import evaluate, serve
from recipes.engines.server import lists

ROOT = Path(__file__).parents[2]
TINY = ("recipe=imagination_cot", "scale=tiny")
# Options of `vllm serve` in vLLM's own reference, https://docs.vllm.ai/en/stable/cli/serve/
DOCUMENTED = {
    "--host", "--port", "--served-model-name", "--dtype", "--max-model-len", "--limit-mm-per-prompt",
    "--mm-processor-kwargs", "--generation-config", "--tensor-parallel-size", "--gpu-memory-utilization",
}  # fmt: skip


@pytest.fixture
def checkpoint(tmp_path):
    """As much of a checkpoint as the command is made from."""
    folder = tmp_path / "sft-checkpoint"
    text = {"dtype": "bfloat16", "max_position_embeddings": 4096}
    write_json(folder / "config.json", {"architectures": ["X"], "text_config": text})
    write_json(folder / "preprocessor_config.json", {"size": {"shortest_edge": 1024, "longest_edge": 2**20}})
    return folder


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def flags_of(config, checkpoint):
    words = serve.command(config, str(checkpoint))
    assert words[1:3] == ["serve", str(checkpoint)]
    return dict(zip(words[3::2], words[4::2], strict=True))


def test_the_command_follows_the_checkpoint_and_the_budget(checkpoint):
    config = tiny_config(
        f"eval.checkpoint={checkpoint}", "vllm.max_images=3", "vllm.tensor_parallel=2", "vllm.memory=0.5"
    )
    flags = flags_of(config, checkpoint)
    assert flags.keys() <= DOCUMENTED
    assert flags["--dtype"] == "bfloat16"
    assert json.loads(flags["--limit-mm-per-prompt"]) == {"image": 3, "video": 0}
    pixels = {"min_pixels": 1024, "max_pixels": config.model.max_image_tokens * 32 * 32}
    assert json.loads(flags["--mm-processor-kwargs"]) == pixels
    model = config.model
    wanted = model.max_prompt_tokens + 2 * model.max_image_tokens + config.eval.max_new_tokens
    assert flags["--max-model-len"] == str(wanted)
    assert flags["--served-model-name"] == "imagination_cot-sft-checkpoint"
    assert flags["--generation-config"] == "vllm"
    assert (flags["--tensor-parallel-size"], flags["--gpu-memory-utilization"]) == ("2", "0.5")
    assert flags["--host"] == "127.0.0.1"


def test_the_length_stays_within_the_model_and_a_hub_id_takes_the_configurations_type(checkpoint):
    config = tiny_config("vllm.max_images=100")
    assert flags_of(config, checkpoint)["--max-model-len"] == "4096"
    hub = flags_of(config, "Qwen/Qwen3-VL-4B-Instruct")
    assert hub["--dtype"] == config.model.dtype
    assert json.loads(hub["--mm-processor-kwargs"])["min_pixels"] == serve.LEAST_PIXELS["qwen3_vl"]
    assert int(hub["--max-model-len"]) > 4096


def test_a_real_checkpoints_folder_is_understood(tmp_path):
    """The files are those that training writes."""
    from recipes.base_model import build

    config = tiny_config()
    build(tmp_path / "checkpoint", config.model.build, ["A road."], [], seed=0)
    assert serve.dtype(str(tmp_path / "checkpoint")) == "float32"
    flags = flags_of(config, tmp_path / "checkpoint")
    assert json.loads(flags["--mm-processor-kwargs"])["min_pixels"] == 32 * 32


def test_a_server_that_is_ready_late_is_waited_for_and_ended(tmp_path, checkpoint, port, monkeypatch, capsys):
    said = fake_vllm.install(tmp_path, monkeypatch, "late")
    config = tiny_config(f"eval.checkpoint={checkpoint}", f"vllm.port={port}")
    words = serve.command(config, str(checkpoint))
    with serve.serving(config, words, tmp_path / "vllm.log") as process:
        assert process.poll() is None
        assert lists(serve.base_url(config), serve.served_name(config))
        with pytest.raises(UserError, match=rf"port {port} is in use.*vllm\.port="):
            serve.serving(config, words, tmp_path / "other.log").__enter__()
    assert process.poll() is not None
    first, *rest = said.read_text().splitlines()
    assert json.loads(first) == words[1:]
    assert rest == ["ended"]
    assert "vLLM answers after" in capsys.readouterr().out


def test_a_server_that_dies_shows_the_end_of_its_log(tmp_path, checkpoint, port, monkeypatch):
    fake_vllm.install(tmp_path, monkeypatch, "dies")
    config = tiny_config(f"eval.checkpoint={checkpoint}", f"vllm.port={port}")
    words = serve.command(config, str(checkpoint))
    with pytest.raises(UserError, match=r"(?s)ended with status 1 .*loading.*No available memory"):
        serve.serving(config, words, tmp_path / "vllm.log").__enter__()


def test_a_server_that_never_answers_is_given_up_and_ended(tmp_path, checkpoint, port, monkeypatch):
    said = fake_vllm.install(tmp_path, monkeypatch, "never")
    config = tiny_config(f"eval.checkpoint={checkpoint}", f"vllm.port={port}", "vllm.start_timeout=1")
    words = serve.command(config, str(checkpoint))
    with pytest.raises(UserError, match=r"(?s)within vllm\.start_timeout=1 seconds.*loading"):
        serve.serving(config, words, tmp_path / "vllm.log").__enter__()
    assert said.read_text().splitlines()[1:] == ["ended"]


def test_an_evaluation_starts_its_server_and_stops_it(tmp_path, checkpoint, port, monkeypatch):
    said = fake_vllm.install(tmp_path, monkeypatch, "late")
    prep = make_prep(tmp_path / "prep")
    run = make_eval(
        tmp_path / "eval", prep, checkpoint, "eval.engine=openai", "eval.serve=true", f"vllm.port={port}"
    )
    evaluate.run(run)
    assert len(list(read_jsonl(run.path / "predictions.jsonl"))) == 18
    provenance = json.loads((run.path / "scores.json").read_text())["provenance"]
    assert provenance["served_model"] == "imagination_cot-sft-checkpoint"
    assert (provenance["checkpoint"], provenance["engine"]) == (str(checkpoint), "openai: vllm 0.0.stub")
    assert said.read_text().splitlines()[1:] == ["ended"]
    assert "loading" in (run.path / "vllm.log").read_text()
    (run.path / "manifest.json").unlink()
    said.unlink()
    evaluate.run(run)  # nothing is left to answer
    assert not said.exists()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_launch_serve_runs_until_it_is_stopped(ending, tmp_path, checkpoint, port, monkeypatch):
    said = fake_vllm.install(tmp_path, monkeypatch, "late")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    words = (
        "serve",
        *TINY,
        f"eval.checkpoint={checkpoint}",
        f"vllm.port={port}",
        f"runs_dir={tmp_path}/runs",
    )
    out = tmp_path / "out"
    with open(out, "w") as written:
        # A background job of a shell starts with SIGINT ignored, and would hand that on.
        heeded = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        process = subprocess.Popen(
            [sys.executable, "-m", "launch", *words], stdout=written, cwd=tmp_path, preexec_fn=heeded
        )
    _until(lambda: "base_url: " in out.read_text(), process)
    assert f"base_url: http://127.0.0.1:{port}/v1\nmodel: imagination_cot-sft-checkpoint" in out.read_text()
    process.send_signal(ending)
    assert process.wait(30) in (128 + ending, -ending)
    _until(lambda: said.read_text().endswith("ended\n"))
    assert (ending != signal.SIGINT) or "vLLM is stopped" in out.read_text()


def _until(holds, process=None):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None
        time.sleep(0.05)


def test_a_dry_run_shows_the_exact_command(tmp_path, checkpoint, monkeypatch, capsys):
    said = fake_vllm.install(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    options = (f"eval.checkpoint={checkpoint}", "vllm.port=8123")
    assert main(["serve", *TINY, *options, "dry_run=true"]) == 0
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if line.startswith("  vllm "))
    config = tiny_config(*options)
    assert shlex.split(line)[1:] == serve.command(config, str(checkpoint))
    assert "Nothing stands in the way." in out
    assert not said.exists()
    assert not (tmp_path / "runs").exists()


def test_vllm_that_is_missing_or_old_is_told(checkpoint, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("recipes.serve.executable", lambda: None)
    monkeypatch.chdir(tmp_path)
    for words in (("serve",), ("eval", "eval.engine=openai", "eval.serve=true")):
        assert main([*words[:1], *TINY, *words[1:], f"eval.checkpoint={checkpoint}"]) == 2
        assert "vllm is not installed" in capsys.readouterr().err
    monkeypatch.setattr("recipes.serve.executable", lambda: "/bin/vllm")
    for found, old in (("0.9.2", True), ("0.11.0", False), ("0.24.0", False), ("1.0", False)):
        monkeypatch.setattr("recipes.serve.version", lambda _, found=found: found)
        assert bool(serve.lacks()) == old
