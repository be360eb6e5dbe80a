"""InternVL of the real classes at a tiny size goes through SFT and evaluation like any other checkpoint."""

import dataclasses
import json

import pytest
from evaluation_runs import make_eval, make_prep, tiny_config

from data_prep.atomic import read_jsonl
from data_prep.prompts import load_prompt, prompt_text
from data_prep.rows import Row

TILE = 64
WORDS = (
    "model.family=internvl",
    "model.build=null",
    "model.max_image_tokens=1024",
    "model.max_prompt_tokens=8000",
)
TEMPLATE = (
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' }}"
    "{%- if m.content is string %}{{- m.content }}{%- else %}{%- for part in m.content %}"
    "{%- if part.type == 'image' %}{{- '<IMG_CONTEXT>' }}{%- else %}{{- part.text }}{%- endif %}"
    "{%- endfor %}{%- endif %}{{- '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)
"""InternVL's turn markers; a picture becomes its placeholder."""


def make_internvl(folder, texts):
    """A checkpoint of some ten thousand parameters, with a tokenizer trained on `texts`."""
    import recipes.torch_setup  # noqa: F401  isort: skip  before transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import (
        GotOcr2ImageProcessor,
        InternVLConfig,
        InternVLForConditionalGeneration,
        InternVLProcessor,
        InternVLVideoProcessor,
        PreTrainedTokenizerFast,
        set_seed,
    )

    set_seed(0)
    names = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *names.values()]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>", extra_special_tokens=names
    )
    size = {"height": TILE, "width": TILE}
    processor = InternVLProcessor(
        GotOcr2ImageProcessor(size=size, crop_to_patches=True, max_patches=12),
        tokenizer,
        InternVLVideoProcessor(size=size),
        image_seq_length=(TILE // 32) ** 2,
        chat_template=TEMPLATE,
    )
    layers = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = InternVLForConditionalGeneration(
        InternVLConfig(
            vision_config={**layers, "image_size": (TILE, TILE), "patch_size": (16, 16)},
            text_config={
                **layers,
                "model_type": "qwen3",
                "vocab_size": len(tokenizer),
                "num_key_value_heads": 1,
                "head_dim": 8,
                "eos_token_id": tokenizer.eos_token_id,
                "pad_token_id": tokenizer.pad_token_id,
                "bos_token_id": None,
            },
            image_token_id=tokenizer.context_image_token_id,
            image_seq_length=processor.image_seq_length,
        )
    )
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def rows_of(prep):
    return [Row.from_json(record) for record in read_jsonl(prep.path / "rows" / "test.jsonl")]


@pytest.fixture(scope="module")
def prep(tmp_path_factory):
    return make_prep(tmp_path_factory.mktemp("internvl") / "prep", groups=4)


@pytest.fixture(scope="module")
def checkpoint(prep, tmp_path_factory):
    texts = [prompt_text(row, load_prompt(prep.config.prompt)) for row in rows_of(prep)]
    return make_internvl(tmp_path_factory.mktemp("model") / "internvl", texts)


def test_lengths_by_arithmetic_are_the_processors(prep, checkpoint):
    from recipes.backbone import load_processor
    from recipes.decoding import Decoder, Pictures
    from recipes.length_budget import lengths

    model = tiny_config(*WORDS).model
    spec, pictures = load_prompt(prep.config.prompt), Pictures(prep.path / "images", blank=False)
    processor = load_processor(str(checkpoint), model)
    assert processor.image_processor.max_patches == 3  # three tiles and the whole picture are 1,024 tokens
    decoder = Decoder(str(checkpoint), model, 0.0, 4, 0)
    counted = list(lengths(rows_of(prep), spec, processor))
    assert len({length for _, length in counted}) > 2
    for row, length in counted:
        inputs = decoder.inputs([row], [pictures.of(row)], spec)
        assert inputs["input_ids"].shape == (1, length)
        context = (inputs["input_ids"] == processor.image_token_id).sum()
        assert context == len(inputs["pixel_values"]) * processor.image_seq_length


def test_sft_trains_it_on_the_completion_alone(prep, checkpoint, tmp_path):
    from trl import SFTTrainer

    from recipes import sft
    from recipes.backbone import load_model, load_processor
    from recipes.sft_trainer import training_set

    config = tiny_config(*WORDS, "sft.batch_size=4", "model.sft_micro_batch_size=2", "sft.max_steps=2")
    spec, processor = load_prompt(prep.config.prompt), load_processor(str(checkpoint), config.model)
    rows = [dataclasses.replace(row, reasoning=f"<answer> {row.answer} </answer>") for row in rows_of(prep)]
    model = load_model(str(checkpoint), config.model)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    trainer = SFTTrainer(
        model=model,
        args=sft.training_arguments(config, tmp_path / "out", len(rows)),
        train_dataset=training_set([sft.example(row, spec, prep.path / "images") for row in rows]),
        processing_class=processor,
    )
    batch = trainer.data_collator([trainer.train_dataset[i] for i in range(4)])
    for row, labels in zip(rows, batch["labels"], strict=False):
        assert processor.tokenizer.decode(labels[labels != -100]).startswith(row.reasoning)
    trainer.train()
    moved = {
        name.split(".")[1] for name, weight in model.named_parameters() if (weight != before[name]).any()
    }
    assert moved == {"vision_tower", "multi_modal_projector", "language_model"}


def test_it_is_evaluated(prep, checkpoint, tmp_path):
    from recipes import evaluate

    run = make_eval(tmp_path / "eval", prep, checkpoint, *WORDS, "eval.max_new_tokens=3")
    evaluate.run(run)
    predictions = list(read_jsonl(run.path / "predictions.jsonl"))
    assert len(predictions) == len(rows_of(prep))
    scores = json.loads((run.path / "scores.json").read_text(encoding="utf-8"))
    assert scores["overall"]["n"] == len(predictions)
