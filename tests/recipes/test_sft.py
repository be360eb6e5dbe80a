"""SFT: the loss covers the completion alone, a killed run goes on, what is saved is what was trained."""

import json
import math
import shutil

import pytest

from data_prep.atomic import read_jsonl
from data_prep.errors import UserError
from data_prep.prompts import build_messages, load_prompt
from data_prep.rows import Row
from recipes.model_folder import ModelFolder
from recipes.stages import plan

STEPS = ("sft.batch_size=8", "sft.save_every=2", "model.sft_micro_batch_size=8")


def rows_of(run):
    return [Row.from_json(r) for r in read_jsonl(run.inputs["prep"].path / "rows" / "sft.jsonl")]


@pytest.fixture(scope="module")
def trained(tiny):
    from recipes import sft

    run = plan(tiny("sft.max_steps=4", *STEPS), "sft").open()
    sft.run(run)
    return run


def test_only_the_completion_carries_loss(tiny, tmp_path):
    from trl import SFTTrainer

    from recipes import sft
    from recipes.backbone import load_model, load_processor
    from recipes.sft_trainer import training_set
    from recipes.stages import checkpoint_path

    run = plan(tiny("sft.max_steps=1", *STEPS), "sft").open()
    config, prompt = run.config, load_prompt(run.inputs["prep"].config.prompt)
    base = checkpoint_path(run, "base")
    processor = load_processor(base, config.model)
    rows = rows_of(run)[:8]
    trainer = SFTTrainer(
        model=load_model(base, config.model),
        args=sft.training_arguments(config, tmp_path, 40),
        train_dataset=training_set(
            [sft.example(r, prompt, run.inputs["prep"].path / "images") for r in rows]
        ),
        processing_class=processor,
    )
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(8)])
    decode = processor.tokenizer.decode
    for row, ids, labels in zip(rows, batch["input_ids"], batch["labels"], strict=True):
        assert decode(labels[labels != -100]) == f"{row.reasoning}<|im_end|>\n"
        text = processor.apply_chat_template(
            build_messages(row, prompt), tokenize=False, add_generation_prompt=True
        )
        seen = decode(ids[(labels == -100) & (ids != processor.tokenizer.pad_token_id)])
        pad = processor.image_token
        assert seen.replace(pad, "") == text.replace(pad, "")
        assert seen.count(pad) > 1


def test_every_step_is_logged_once_with_the_configured_rate(trained):
    records = trained.metrics()
    assert [r["step"] for r in records] == [1, 2, 3, 4]
    assert all(r["loss"] > 0 for r in records)
    config = trained.config
    assert max(r["lr"] for r in records) <= config.sft.lr * config.model.lr_scale.sft
    assert trained.manifest["steps"] == 4
    assert trained.manifest["chat_template"] == ModelFolder(trained.path / "checkpoint").template_hash


def test_the_checkpoint_reloads_identically_and_differs_from_the_base(trained):
    import torch
    from safetensors.torch import load_file

    from recipes.backbone import load_model
    from recipes.sft_trainer import latest
    from recipes.stages import checkpoint_path

    saved = load_file(trained.path / "checkpoint" / "model.safetensors")
    last = load_file(f"{latest(trained.path / 'checkpoints')}/model.safetensors")
    assert all(torch.equal(saved[key], last[key]) for key in saved)
    model = load_model(str(trained.path / "checkpoint"), trained.config.model).state_dict()
    assert all(torch.equal(model[key], value) for key, value in saved.items())
    base = load_file(f"{checkpoint_path(trained, 'base')}/model.safetensors")
    assert any(not torch.equal(base[key], value) for key, value in saved.items())


def test_an_interrupted_run_ends_where_an_undisturbed_one_does(trained, tiny):
    """Two steps, then the rest: the weights equal those of four steps in a row."""
    import torch
    from safetensors.torch import load_file

    from recipes import sft

    run = plan(tiny("sft.max_steps=4", "sft.warmup_steps=9", *STEPS), "sft").open()
    sft.run(run)
    whole = load_file(run.path / "checkpoint" / "model.safetensors")
    shutil.rmtree(run.path / "checkpoint")
    shutil.rmtree(run.path / "checkpoints" / "checkpoint-4")
    (run.path / "manifest.json").unlink()
    sft.run(run)
    again = load_file(run.path / "checkpoint" / "model.safetensors")
    assert all(torch.allclose(whole[key], again[key], atol=1e-6) for key in whole)
    lines = [json.loads(line)["step"] for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [1, 2, 3, 4, 3, 4]
    assert [r["step"] for r in run.metrics()] == [1, 2, 3, 4]


def test_a_run_goes_on_with_other_micro_batches(trained, tiny):
    """Whose rows lie by length: each update has the rows, so the loss, that it has in one micro-batch."""
    from recipes import sft

    options = ("sft.max_steps=4", "sft.warmup_steps=8", *STEPS)
    run = plan(tiny(*options), "sft").open()
    sft.run(run)
    whole = [record["loss"] for record in run.metrics()]
    shutil.rmtree(run.path / "checkpoint")
    shutil.rmtree(run.path / "checkpoints" / "checkpoint-4")
    (run.path / "manifest.json").unlink()
    again = plan(tiny(*options, "model.sft_micro_batch_size=2"), "sft").open()
    assert again.path == run.path
    assert again.config.model.sft_micro_batch_size == 2
    sft.run(again)
    assert [record["step"] for record in again.metrics()] == [1, 2, 3, 4]
    assert [record["loss"] for record in again.metrics()] == pytest.approx(whole, rel=1e-4)


def test_a_run_that_stops_early_has_the_rate_that_the_whole_run_has_then(tiny):
    from recipes import sft

    run = plan(tiny("sft.max_steps=2", "sft.warmup_steps=0", *STEPS), "sft").open()
    sft.run(run)
    whole = math.ceil(len(rows_of(run)) / 8) * run.config.sft.epochs
    assert whole > 2
    peak = run.config.sft.lr * run.config.model.lr_scale.sft
    rate = peak * (1 + math.cos(math.pi * 1 / whole)) / 2  # of the second step: one behind it
    assert [r["step"] for r in run.metrics()] == [1, 2]
    assert run.metrics()[-1]["lr"] == pytest.approx(rate)


def test_a_batch_that_does_not_divide_is_refused(tiny, tmp_path):
    from recipes import sft

    config = tiny("sft.batch_size=10", "model.sft_micro_batch_size=4", "sft.max_steps=1")
    with pytest.raises(UserError, match=r"sft\.batch_size=10"):
        sft.training_arguments(config, tmp_path, 40)
