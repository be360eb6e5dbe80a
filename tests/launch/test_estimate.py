"""The estimate of a dry run: counts, shards, times, ways out, and what it says of published runs."""

import json

import pytest

from bench.estimate import agrees, from_publications
from launch.compose import compose
from launch.estimate import WIDTH, table
from launch.estimate.advice import largest, ways_out
from launch.estimate.geometry import PUBLISHED, find, from_config, published
from launch.estimate.memory import GIB, grpo, sft_states
from launch.estimate.setups import geometry_of, setups
from launch.estimate.speed import grpo_step, peaks, sft, speeds, step_fit, work_of
from launch.pipeline import stages_of
from launch.values import faults

PAPER = ("recipe=imagination_cot", "data.root=release", "teacher.path=reasoning.jsonl")
# Published peaks that lie outside of the error bar; docs/estimate.md says what is known about them.
DISAGREEING: set[str] = set()


def of(command, *words):
    config = compose([*PAPER, *words])
    return config, stages_of(command, config)


def setup(command, *words):
    config, stages = of(command, *words)
    return next(one for one in setups(config, stages, geometry_of(config, stages)) if one.stage == command)


def test_published_models_have_the_parameters_that_their_publishers_state():
    models = json.loads(PUBLISHED.read_text())["models"]
    stated = {name: entry["parameters"] for name, entry in models.items() if entry["parameters"]}
    assert len(stated) == 6
    assert {name: published()[name].parameters for name in stated} == stated


@pytest.mark.parametrize("command", ["sft", "grpo", "eval", "pipeline"])
def test_a_dry_run_shows_every_phase_in_short_lines(command):
    lines = table(*of(command))
    assert max(map(len, lines)) <= WIDTH
    rows = {"sft": ["sft "], "eval": ["eval "], "grpo": ["grpo, rollout", "grpo, update"]}
    for begins in rows.get(command, ["sft ", "eval ", "grpo, update"]):
        assert any(line.startswith(begins) and line.endswith(("fits", "tight", "too much")) for line in lines)


def test_what_uses_no_model_has_no_estimate():
    assert table(*of("prep")) == []


def test_the_papers_hours_lie_in_the_range():
    lines = table(*of("pipeline"))
    for stage, hours in (("sft", 0.5), ("grpo", 4.5)):
        (line,) = (line for line in lines if line.startswith(f"{stage}: "))
        low, high = line.partition("(")[2].partition(")")[0].split(" to ")
        assert float(low) <= hours <= float(high)


def test_a_price_gives_a_cost():
    with_price = table(*of("sft", "cluster.gpu_price=2"))
    (line,) = (line for line in with_price if line.startswith("sft: "))
    assert "$8 ($3 to $20)" in line
    assert not any("$" in line for line in table(*of("sft")))


def test_a_model_that_nobody_knows_has_no_estimate_of_memory():
    lines = table(*of("sft", "model.path=somebody/Other-VL-9B"))
    assert any("somebody/Other-VL-9B" in line for line in lines)
    assert not any(line.startswith("sft") for line in lines)


def test_a_folders_own_config_is_read(tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps(json.loads(PUBLISHED.read_text())["models"]["Qwen3-VL-2B"]["config"])
    )
    found = find(str(tmp_path))
    assert found is not None
    assert found.parameters == published()["Qwen3-VL-2B"].parameters
    (tmp_path / "config.json").write_text('{"model_type": "llava"}')
    (line,) = table(*of("sft", f"model.path={tmp_path}"))
    assert "model_type=llava" in line


def test_hub_names_are_found_whatever_follows_the_size():
    assert (
        find("Qwen/Qwen3-VL-4B-Instruct") is find("Qwen/Qwen3-VL-4B-Thinking") is published()["Qwen3-VL-4B"]
    )
    assert find("Qwen/Qwen3-VL-30B-A3B-Instruct") is None


def test_a_pruned_vocabulary_and_a_bias_count():
    config = json.loads(PUBLISHED.read_text())["models"]["Qwen3-VL-2B"]["config"]
    whole = from_config(config).parameters
    less = {**config, "text_config": {**config["text_config"], "vocab_size": 151936 - 1000}}
    assert whole - from_config(less).parameters == 1000 * 2048
    biased = {**config, "text_config": {**config["text_config"], "attention_bias": True}}
    assert from_config(biased).parameters - whole == 28 * (2048 + 2 * 1024 + 2048)


def test_shards_hold_the_whole_together():
    model = published()["Qwen3-VL-4B"]
    for shard, a_parameter in (("zero2", 12), ("zero3", 12), ("fsdp", 8)):
        states = sft_states(model, shard, 8, 2)
        counters = 4 * model.tensors if shard == "fsdp" else 0
        assert 8 * (states.optimizer - counters) == a_parameter * model.parameters
    resident = [
        sft_states(model, shard, 8, 2).weights + sft_states(model, shard, 8, 2).optimizer
        for shard in ("zero3", "zero2", "none")
    ]
    assert resident == sorted(resident)


def test_one_gpu_shards_nothing():
    model = published()["Qwen3-VL-4B"]
    assert sft_states(model, "zero3", 1, 2) == sft_states(model, "none", 1, 2)


def test_verls_actor_is_float32_over_all_gpus():
    one = setup("grpo")
    phases = {phase.name: phase for phase in grpo(one.grpo())}
    parameters = one.geometry.parameters
    assert phases["rollout"].weights * 8 == 4 * parameters
    assert phases["rollout"].optimizer * 8 == 8 * parameters
    assert phases["update"].gradients * 8 == 4 * parameters
    assert phases["rollout"].rollout == one.config.grpo.rollout_memory * 80 * GIB


def test_nodes_share_the_states():
    one, two = setup("grpo"), setup("grpo", "cluster.gpus=16")
    assert two.grpo().gpus == 2 * one.grpo().gpus
    assert largest(two) < largest(one)


def test_a_small_gpu_gets_a_warning_with_ways_out():
    words = ("cluster.gpus=1", "sft.shard=none", "cluster.gpu_memory=24")
    lines = table(*of("sft", *words))
    (line,) = (line for line in lines if line.startswith("warning: sft wants"))
    assert "of a GPU's 24" in line
    ways = [line for line in lines if line.startswith("  ")]
    assert any(line.strip().startswith("sft.lora.rank=") and line.endswith("which fits") for line in ways)


@pytest.mark.parametrize("command", ["sft", "grpo"])
def test_a_way_out_gives_what_it_promises(command):
    words = (
        "cluster.gpus=2",
        "sft.shard=zero2",
        "cluster.gpu_memory=24",
        "model.gradient_checkpointing=false",
    )
    promised = dict(ways_out(setup(command, *words)))
    assert len(promised) >= 3
    for way, need in promised.items():
        if "=" in way:
            taken = [word for word in words if not word.startswith(f"{way.partition('=')[0]}=")]
            assert largest(setup(command, *taken, way)) / GIB == pytest.approx(need)


def test_nothing_is_refused_for_its_size():
    config, stages = of("grpo", "cluster.gpu_memory=1")
    assert not any("GiB of a GPU" in line for line in faults(config, {"cluster", "grpo", "model"}))
    assert any(line.startswith("warning: ") for line in table(config, stages))


def test_a_rollout_without_a_cache_is_told():
    lines = table(*of("grpo", "grpo.rollout_memory=0.1"))
    assert any("leaves the rollout no cache" in line for line in lines)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("cluster.gpu_type=A10O", "A100"),
        ("cluster.gpu_memory=0", "above 0"),
        ("cluster.gpu_price=-1", "at least 0"),
    ],
)
def test_keys_of_the_estimate_are_checked(word, told):
    config, _ = of("sft", word)
    assert any(told in line for line in faults(config, {"cluster"}))


def test_keys_of_the_estimate_move_no_run_directory():
    def folders(*words):
        return [stage.path for stage in of("grpo", *words)[1]]

    assert folders() == folders("cluster.gpu_type=H100", "cluster.gpu_memory=40", "cluster.gpu_price=3")


def test_published_memory_agrees_within_the_error_bar():
    found = list(from_publications())
    assert len(found) >= 15
    assert {run["name"] for run, phase in found if not agrees(run, phase)} == DISAGREEING


def test_published_steps_are_within_the_stated_factor():
    fixed, slope, worst = step_fit()
    assert fixed > 0 < slope
    assert worst < 2
    for run in speeds()["grpo"]:
        reckoned = fixed + slope * work_of(run, run["answers"])
        assert reckoned / worst * 0.999 <= run["seconds"] <= reckoned * worst * 1.001
        assert run["source"]


def test_time_goes_down_with_gpus_and_up_with_tokens():
    parameters = published()["Qwen3-VL-4B"].parameters
    assert sft(parameters, 1e7, "A100", 16).value == pytest.approx(sft(parameters, 1e7, "A100", 8).value / 2)
    assert sft(parameters, 2e7, "A100", 8).value == pytest.approx(2 * sft(parameters, 1e7, "A100", 8).value)
    step = grpo_step(parameters, 1e6, "A100", 8)
    assert step.low < step.value < step.high
    assert grpo_step(parameters, 1e6, "H100", 8).value < step.value
    assert {run["gpu"] for runs in (speeds()["grpo"], speeds()["sft"]) for run in runs} <= {*peaks()}


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (("pipeline", "scale=tiny"), "README.md, two slow cores"),
        (("sft", "recipe=monosr", "scale=tiny"), "docs/monosr_auxiliary.md, two slow cores"),
    ],
)
def test_tiny_says_what_was_measured_and_where(words, place):
    lines = table(*of(*words))
    assert place in " ".join(line.strip() for line in lines)
    assert not any("GPU hours" in line for line in lines)
