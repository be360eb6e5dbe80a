"""SFT's checkpoints in real trainers: damaged ones fall back, the best is taken, what is frozen stays."""

import shutil

import pytest

from data_prep.errors import UserError
from recipes.checkpoints import MARKER, fault
from recipes.stages import checkpoint_path, plan

STEPS = ("sft.batch_size=8", "sft.save_every=1", "model.sft_micro_batch_size=8", "sft.warmup_steps=0")


def opened(tiny, *options: str):
    """A new run of SFT, with nothing in it."""
    stage = plan(tiny(*STEPS, *options), "sft")
    shutil.rmtree(stage.path, ignore_errors=True)
    return stage.open()


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def gone(path):
    path.unlink()


@pytest.fixture(scope="module")
def trained(tiny):
    from recipes import sft

    run = opened(tiny, "sft.max_steps=3", "sft.weight_decay=0.02")
    sft.run(run)
    return run


@pytest.mark.parametrize(
    ("name", "harm", "reason"),
    [
        ("model.safetensors", cut, "model.safetensors has"),
        ("optimizer.pt", cut, "optimizer.pt has"),
        ("scheduler.pt", gone, "scheduler.pt is missing"),
        (MARKER, gone, "its writing was cut short"),
    ],
)
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(trained, capsys, name, harm, reason):
    """The run goes on from step 2 and ends where it did."""
    from recipes import sft

    before = weights(trained.path / "checkpoint")
    (trained.path / "manifest.json").unlink()
    harm(trained.path / "checkpoints/checkpoint-3" / name)
    capsys.readouterr()
    sft.run(trained)
    said = capsys.readouterr().out
    assert "checkpoint-3 is damaged" in said
    assert reason in said
    assert "falling back to checkpoint-2" in said
    after = weights(trained.path / "checkpoint")
    assert all((before[key] - after[key]).abs().max() < 1e-6 for key in before)
    assert sorted(path.name for path in (trained.path / "checkpoints").iterdir()) == [
        "checkpoint-2", "checkpoint-3",
    ]  # fmt: skip
    assert fault(trained.path / "checkpoints/checkpoint-3") is None


def test_a_run_killed_behind_its_last_step_takes_no_step_more(trained):
    from recipes import sft

    before = weights(trained.path / "checkpoint")
    steps = len((trained.path / "metrics.jsonl").read_text().splitlines())
    (trained.path / "manifest.json").unlink()
    shutil.rmtree(trained.path / "checkpoint")
    sft.run(trained)
    assert len((trained.path / "metrics.jsonl").read_text().splitlines()) == steps
    after = weights(trained.path / "checkpoint")
    assert all((before[key] == after[key]).all() for key in before)
    assert trained.manifest["steps"] == 3


def test_a_damaged_model_is_not_loaded(trained, tmp_path):
    from recipes.backbone import load_model

    folder = tmp_path / "checkpoint"
    shutil.copytree(trained.path / "checkpoint", folder)
    (folder / "README.md").write_text("whoever has it may edit this")
    load_model(str(folder), trained.config.model)
    cut(folder / "model.safetensors")
    with pytest.raises(UserError, match=r"is damaged \(model\.safetensors has "):
        load_model(str(folder), trained.config.model)


def test_the_model_is_whole_and_says_what_it_is(trained):
    folder = trained.path / "checkpoint"
    for name in ("config.json", "generation_config.json", "tokenizer_config.json", "processor_config.json"):
        assert (folder / name).is_file(), name
    card = (folder / "README.md").read_text()
    manifest = trained.inputs["prep"].manifest
    for words in (
        "imagination_cot, supervised fine-tuning", trained.path.name, manifest["sources"][0]["sha256"],
        "| `sft.lr` | 3e-05 |", "drawn by spatial-recipes", "AutoModelForImageTextToText.from_pretrained",
        "None of its evaluations was finished", "weights trained",
    ):  # fmt: skip
        assert words in card, words


def test_the_best_by_validation_is_kept_and_taken(tiny, capsys):
    """With a rate that does harm, the first checkpoint is the best, however many steps follow."""
    from recipes import sft

    options = ("sft.max_steps=4", "sft.validation_rows=6", "sft.lr=0.5", "sft.keep_checkpoints=1")
    run = opened(tiny, *options, "sft.take=best", "sft.scheduler=constant")
    sft.run(run)
    records = run.metrics()
    losses = {record["step"]: record["validation_loss"] for record in records}
    assert list(losses) == [1, 2, 3, 4]
    assert all("loss" in record for record in records)
    best = min(losses, key=losses.get)
    assert best != 4
    kept = {path.name for path in (run.path / "checkpoints").iterdir()}
    assert kept == {f"checkpoint-{best}", "checkpoint-4"}
    assert run.manifest["taken"] == f"checkpoint-{best}"
    assert run.manifest["validation_rows"] >= 6
    taken, of_best = weights(run.path / "checkpoint"), weights(run.path / f"checkpoints/checkpoint-{best}")
    assert all((taken[key] == of_best[key]).all() for key in of_best)


def test_a_frozen_vision_tower_stays_to_the_bit_and_is_counted_out(tiny):
    from recipes import sft
    from recipes.backbone import is_vision, load_model, parameter_counts

    run = opened(tiny, "sft.max_steps=2", "model.freeze_vision=true")
    sft.run(run)
    base = weights(run.inputs["base"].path / "checkpoint")
    after = weights(run.path / "checkpoint")
    moved = {key for key in base if not (base[key] == after[key]).all()}
    assert moved
    assert not any(is_vision(key) for key in moved)
    vision = sum(base[key].numel() for key in base if is_vision(key))
    model = load_model(checkpoint_path(run, "base"), run.config.model)
    whole = parameter_counts(model)["all"]
    assert run.manifest["parameters"] == {"trained": whole - vision, "all": whole}
    assert 0 < vision < whole


@pytest.fixture(scope="module")
def adapted(tiny):
    from recipes import sft

    run = opened(tiny, "sft.max_steps=2", "sft.lora.rank=4", "sft.lora.alpha=64")
    sft.run(run)
    return run


def test_lora_trains_the_language_model_alone_and_counts_so(adapted):
    base, merged = weights(adapted.inputs["base"].path / "checkpoint"), weights(adapted.path / "checkpoint")
    assert merged.keys() == base.keys()
    changed = {key for key in base if not (base[key] == merged[key]).all()}
    assert changed
    assert all("language_model" in key for key in changed)
    # Rank times inputs and outputs of each linear layer that is a target.
    targets = [key for key in base if "language_model" in key and key.split(".")[-2].endswith("_proj")]
    assert adapted.manifest["parameters"]["trained"] == sum(4 * sum(base[key].shape) for key in targets)


def test_merged_weights_answer_as_the_adapter_does(adapted):
    """Logits of a row with its picture, in float32."""
    import torch
    from peft import PeftModel

    from data_prep.atomic import read_jsonl
    from data_prep.prompts import build_messages, prompt_of_set
    from data_prep.rows import Row
    from recipes.backbone import load_model, load_processor

    prep, config = adapted.inputs["prep"], adapted.config.model
    row = Row.from_json(next(read_jsonl(prep.path / "rows/sft.jsonl")))
    processor = load_processor(str(adapted.path / "checkpoint"), config)
    messages = build_messages(row, prompt_of_set(prep.config))
    text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    from PIL import Image

    pictures = [Image.open(prep.path / "images" / image.path) for image in row.images]
    inputs = processor(text=[text], images=pictures, return_tensors="pt")
    base = load_model(checkpoint_path(adapted, "base"), config)
    unmerged = PeftModel.from_pretrained(
        load_model(checkpoint_path(adapted, "base"), config), str(adapted.path / "adapter")
    ).eval()
    merged = load_model(str(adapted.path / "checkpoint"), config)
    with torch.inference_mode():
        before, apart, together = (model(**inputs).logits for model in (base, unmerged, merged))
    assert (apart - before).abs().max() > 1e-2
    assert torch.allclose(apart, together, atol=1e-4)


def test_targets_and_what_is_excluded_are_configuration(tiny):
    from recipes import sft

    run = opened(tiny, "sft.max_steps=1", "sft.lora.rank=2", "model.lora_targets=[q_proj]")
    config = sft.lora(run.config)
    assert (config.target_modules, config.exclude_modules) == ({"q_proj"}, run.config.model.lora_exclude)
    assert plan(tiny("model.lora_targets=[q_proj]"), "sft").hash != plan(tiny(), "sft").hash
    assert plan(tiny("model.lora_targets=[q_proj]"), "base").hash == plan(tiny(), "base").hash
