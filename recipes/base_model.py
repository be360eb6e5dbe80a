"""The base model of the tiny scale: a small Qwen3-VL of the real classes, made here, with its tokenizer.

No model hub is needed. The tokenizer is byte-level BPE trained on the prompts and reasoning of the
training set, with one token for every line that prompts repeat, so that a prompt of two hundred words
costs a CPU about as much as one of thirty. The model is then pre-trained as a stand-in for what a
downloaded base model can do. For CVSBench it learns captions (`data_prep.synthetic.captions`): it sees and
it keeps to a format, but it carries nothing from one view to the other. For MonoSR it also learns to read
boxes, from scenes of its own (`data_prep.monosr.synthetic.pretraining`), which give the tokenizer its
prompts too. Everything after this stage treats the folder like any other checkpoint.
"""

# ruff: noqa: I001  transformers must find torchvision's operators declared
import recipes.torch_setup  # noqa: F401

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
    set_seed,
)
from trl import SFTConfig

from data_prep.atomic import read_jsonl
from data_prep.monosr.synthetic.pretraining import Pretraining
from data_prep.prompts import fixed_sentences, load_prompt, prompt_text
from data_prep.rows import Example, Row
from data_prep.synthetic.captions import caption_examples
from recipes import stop
from recipes.backbone import load_model, load_processor
from recipes.checkpoints import save_model
from recipes.run_dir import RunDir
from recipes.sft import FIXED_ARGUMENTS
from recipes.sft_trainer import checkpoint_of, stopped, train

END, PAD = "<|im_end|>", "<|endoftext|>"
IMAGE, VIDEO, VISION_START, VISION_END = (
    "<|image_pad|>",
    "<|video_pad|>",
    "<|vision_start|>",
    "<|vision_end|>",
)
SPECIAL = [PAD, "<|im_start|>", END, VISION_START, VISION_END, IMAGE, VIDEO]
ANSWER_TAGS = ("<answer>", "</answer>")
# Qwen's turn markers; pictures become their placeholder, text parts are kept as they are.
CHAT_TEMPLATE = (
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}"
    "{%- if m.content is string %}{{- m.content }}{%- else %}{%- for part in m.content %}"
    "{%- if part.type == 'image' %}{{- '" + VISION_START + IMAGE + VISION_END + "' }}"
    "{%- elif part.type == 'text' %}{{- part.text }}{%- endif %}{%- endfor %}{%- endif %}"
    "{{- '" + END + "\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
PATCH, MERGE = 16, 2
TEXTS = 2000  # prompts that the tokenizer learns from
OFTEN = 0.01  # share of the prompts from which a line of theirs gets a token of its own

Material = tuple[list[Example], list[str], list[str]]


def run(run: RunDir) -> int:
    """Build the model and pre-train it into `checkpoint`; a killed pre-training goes on where it was.

    Returns 0, or `stop.STOPPED` when its job asked it to end before the last step.
    """
    config = run.config
    pretraining = config.model.build.pretraining
    initial = run.path / "initial"
    examples, prompts, answers = WORLDS[pretraining.world](run)
    if not initial.exists():
        build(initial, config.model.build, prompts, answers, config.seed)
    processor = load_processor(str(initial), config.model)
    model = load_model(str(initial), config.model)
    if pretraining.steps:
        trainer = train(
            run,
            "pre-training",
            model,
            processor,
            examples,
            _pretraining_arguments(config, run.path / "checkpoints"),
        )
        if stopped(trainer):
            return stop.STOPPED
        model = load_model(str(checkpoint_of(trainer)), config.model)
    save_model(run.path / "checkpoint", model, processor)
    run.finish({"parameters": model.num_parameters(), "examples": len(examples), "steps": pretraining.steps})
    return 0


def _cvsbench(run: RunDir) -> Material:
    """Captions, and the prompts and reasoning of the prepared set."""
    config, prep = run.config, run.inputs["prep"]
    prompt = load_prompt(prep.config.prompt)
    pictures, count = config.model.build.pretraining.pictures, _count(config)
    captions = list(caption_examples(run.path / "pictures", config.seed, count, pictures, prompt))
    rows = [Row.from_json(record) for record in read_jsonl(prep.path / "rows" / "sft.jsonl")]
    rows = rows[:: max(1, len(rows) // TEXTS)]  # of every subset and category
    answers = [*(row.reasoning or "" for row in rows), *(c.completion for c in captions[:500])]
    return captions, [prompt_text(row, prompt) for row in rows], answers


def _monosr(run: RunDir) -> Material:
    """Reading and seeing, and prompts from scenes of its own: one model for every kind of information."""
    config = run.config
    made = config.model.build.pretraining
    prompt = load_prompt(OmegaConf.create({"format": "answer_only", "file": None}), aux="none")
    source = Pretraining(run.path / "pictures", config.seed, made.pictures, made.side, prompt)
    examples = source.examples(_count(config))
    return examples, source.texts(TEXTS), [example.completion for example in examples[:500]]


WORLDS: dict[str, Callable[[RunDir], Material]] = {"cvsbench": _cvsbench, "monosr": _monosr}
"""`model.build.pretraining.world` -> examples in the order of learning, prompts and answers for tokens."""


def _count(config: DictConfig) -> int:
    pretraining = config.model.build.pretraining
    return max(pretraining.steps * pretraining.batch_size, pretraining.pictures)


def _pretraining_arguments(config: DictConfig, output: Path) -> SFTConfig:
    pretraining = config.model.build.pretraining
    return SFTConfig(
        output_dir=str(output),
        per_device_train_batch_size=pretraining.batch_size,
        max_steps=pretraining.steps,
        learning_rate=pretraining.lr,
        lr_scheduler_type="linear",
        warmup_steps=min(20, pretraining.steps // 10),
        weight_decay=0.01,
        adam_beta2=0.99,
        train_sampling_strategy="sequential",
        seed=config.seed,
        bf16=False,
        use_cpu=config.model.device == "cpu",
        gradient_checkpointing=False,
        save_steps=100,
        dataloader_num_workers=1,
        **FIXED_ARGUMENTS,
    )


def build(folder: Path, size: DictConfig, prompts: Sequence[str], answers: Sequence[str], seed: int) -> int:
    """Write a randomly initialised model, its processor and tokenizer to `folder`; return its parameters.

    `size` is the configuration's `model.build`; the tokenizer is trained on `prompts` and `answers`. The same
    texts, size and seed give the same weights.
    """
    set_seed(seed)
    processor = _processor(_tokenizer(prompts, answers, size.vocabulary, size.single_digits))
    model = _model(processor.tokenizer, size)
    save_model(folder, model, processor)
    return model.num_parameters()


def _tokenizer(
    prompts: Sequence[str], answers: Sequence[str], vocabulary: int, single_digits: bool
) -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE())
    bytewise = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = [pre_tokenizers.Digits(individual_digits=True)] if single_digits else []
    bpe.pre_tokenizer = pre_tokenizers.Sequence([*digits, bytewise]) if digits else bytewise
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator([*prompts, *answers], trainer)
    lines = Counter(line for text in prompts for line in text.split("\n") if line)
    often = (line for line, count in lines.items() if count > max(1, OFTEN * len(prompts)))
    repeated = sorted({*fixed_sentences(), *ANSWER_TAGS, *often})
    bpe.add_tokens([AddedToken(text, normalized=False) for text in repeated])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=END, pad_token=PAD, additional_special_tokens=SPECIAL,
        chat_template=CHAT_TEMPLATE, model_max_length=4096,
    )  # fmt: skip
    for name, token in _vision_tokens().items():
        setattr(tokenizer, name, token)
    return tokenizer


def _vision_tokens() -> dict[str, str]:
    return {
        "image_token": IMAGE,
        "video_token": VIDEO,
        "vision_start_token": VISION_START,
        "vision_end_token": VISION_END,
    }


def _processor(tokenizer: PreTrainedTokenizerFast) -> Qwen3VLProcessor:
    patches: dict[str, Any] = {"patch_size": PATCH, "merge_size": MERGE, "temporal_patch_size": 2}
    half = [0.5] * 3
    image = Qwen2VLImageProcessor(
        **patches,
        size={"shortest_edge": 32 * 32, "longest_edge": 1024 * 32 * 32},
        image_mean=half,
        image_std=half,
    )
    video = Qwen3VLVideoProcessor(**patches)
    return Qwen3VLProcessor(
        image_processor=image, tokenizer=tokenizer, video_processor=video, chat_template=CHAT_TEMPLATE
    )


def _model(tokenizer: PreTrainedTokenizerFast, size: DictConfig) -> Qwen3VLForConditionalGeneration:
    """Half a million parameters. The wide position embedding makes "where" visible from the first step:
    a picture's content alone does not tell its place, and a tiny model takes long to find that out."""
    head = size.hidden_size // size.heads
    third = head // 6
    ids = {f"{name}_id": tokenizer.convert_tokens_to_ids(token) for name, token in _vision_tokens().items()}
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": size.hidden_size,
            "intermediate_size": 3 * size.hidden_size,
            "num_hidden_layers": size.layers,
            "num_attention_heads": size.heads,
            "num_key_value_heads": max(1, size.heads // 2),
            "head_dim": head,
            "max_position_embeddings": 4096,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": size.rope_theta,
                "mrope_section": [head // 2 - 2 * third, third, third],
                "mrope_interleaved": True,
            },
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "bos_token_id": None,
            "initializer_range": size.init_std,
            "tie_word_embeddings": True,
        },
        vision_config={
            "depth": size.vision_layers,
            "hidden_size": size.hidden_size,
            "intermediate_size": 2 * size.hidden_size,
            "num_heads": 4,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": 2,
            "out_hidden_size": size.hidden_size,
            "num_position_embeddings": 256,
            "deepstack_visual_indexes": [size.vision_layers - 1],
            "initializer_range": size.init_std,
        },
        tie_word_embeddings=True,
        **ids,
    )
    model = Qwen3VLForConditionalGeneration(config)
    torch.nn.init.normal_(model.model.visual.pos_embed.weight, std=size.position_std)
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.bos_token_id = None
    return model
