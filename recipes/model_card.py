"""The README.md of a trained model: what it is, from what data, by which recipe, how well, how to load it.

Written when a stage ends, and again by `launch export`, which adds the evaluations that are finished by then.
Needs no torch.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recipes.run_dir import RunDir
from recipes.stages import checkpoint_path, recipe_hash

STAGES = {
    "sft": "supervised fine-tuning",
    "grpo": "supervised fine-tuning, then GRPO",
    "base": "the base model",
}
SET_OF = {"sft": "sft", "grpo": "rl", "base": "sft"}
# What the licences of CVSBench's sources say (its section 0.A.6).
SOURCES = {
    "cvsbench": "CVSBench's annotations are for academic research; its pictures are those of CVUSA and "
    "University-1652 and keep their licences, which also bind commercial use."
}
# Keys of each section that say how the model was trained.
HYPERPARAMETERS = {
    "model": (
        "dtype", "max_image_tokens", "max_prompt_tokens", "max_response_tokens", "freeze_vision", "lr_scale",
    ),
    "sft": (
        "lr", "epochs", "max_steps", "batch_size", "scheduler", "warmup_steps", "weight_decay", "adam_beta2",
        "max_grad_norm", "lora", "validation_rows", "take",
    ),
    "grpo": (
        "lr", "epochs", "max_steps", "group_size", "batch_size", "mini_batch_size", "kl_coef", "kl_type",
        "temperature", "warmup_steps", "max_grad_norm", "lora", "validation_rows", "take", "overrides",
    ),
    "reward": ("format_weight", "format_mode", "gate_format", "tolerance", "iou_threshold", "path"),
}  # fmt: skip


def card(run: RunDir, facts: dict[str, Any], evaluations: Sequence[RunDir] = ()) -> str:
    """The card of the model that stage directory `run` leaves.

    Args:
        facts: the stage's manifest, or what it will hold.
        evaluations: finished evaluations of this model.
    """
    config, stage = run.config, _stage(run)
    base = _base(run)
    lines = [
        "---",
        "library_name: transformers",
        "pipeline_tag: image-text-to-text",
        *([f"base_model: {base}"] if re.fullmatch(r"[\w.-]+/[\w.-]+", base) else []),
        f"tags: [spatial-reasoning, {stage}, {config.recipe_name}]",
        "---",
        "",
        f"# {config.model.name}: {config.recipe_name}, {STAGES[stage]}",
        "",
        f"Trained by the recipe `{config.recipe_name}` at scale `{config.scale_name}` of spatial-recipes. "
        f"The base model is {base}; its licence holds for these weights too.",
        "",
        "## Data",
        "",
        *_data(run, stage),
        "",
        "## Results",
        "",
        *_results(evaluations),
        "",
        "## Recipe",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in _recipe(run, facts).items()),
        "",
        "| key | value |",
        "|---|---|",
        *(f"| `{key}` | {value} |" for key, value in _hyperparameters(run, stage)),
        "",
        "## How to load it",
        "",
        "```python",
        "from transformers import AutoModelForImageTextToText, AutoProcessor",
        "",
        'path = "."  # this folder, or its name at the hub',
        f'model = AutoModelForImageTextToText.from_pretrained(path, dtype="{config.model.dtype}")',
        "processor = AutoProcessor.from_pretrained(path)",
        "```",
        "",
        "It answers in the format of its training when it is asked with the instruction of the data it was "
        "trained on, and with pictures of the size given above; the answer stands in `<answer> </answer>`.",
        "",
    ]
    return "\n".join(lines)


def _stage(run: RunDir) -> str:
    """Which stage a run directory is: GRPO's has a `grpo` section, SFT's an `sft` one, the base neither."""
    return next((name for name in ("grpo", "sft") if name in run.config), "base")


def _base(run: RunDir) -> str:
    stage = _stage(run)
    if stage == "base" or run.config.model.path is None:
        return f"{run.config.model.name}, built by this package"
    return checkpoint_path(run if stage == "sft" else run.inputs["sft"], "base")


def _data(run: RunDir, stage: str) -> list[str]:
    prep = run.inputs["prep"]
    if not prep.finished:
        return ["The prepared set has no manifest."]
    manifest, data = prep.manifest, prep.config.data
    part = manifest["sets"][SET_OF[stage]]
    lines = [
        f"- benchmark: {manifest['benchmark']}{' (a synthetic release)' if data.synthetic else ''}, "
        f"{_chosen(data)}",
        f"- set: {part['rows']:,} questions about {part['groups']:,} places; no place is in two sets",
        f"- reasoning: {manifest['teacher']['kind']}; prompt `{manifest['prompt']['format']}` "
        f"({manifest['prompt']['hash']})",
        f"- licence: {licence_note(manifest['benchmark'], Path(manifest['root']), bool(data.synthetic))}",
        "- files of the release, by SHA-256:",
    ]
    return lines + [f"    - `{source['path']}` {source['sha256']}" for source in manifest["sources"]]


def _chosen(data: Any) -> str:
    """Which part of the release was taken."""
    if data.get("benchmark") == "monosr":
        return f"sources {', '.join(data.sources)}, auxiliary information {data.aux}"
    return f"subsets {', '.join(data.subsets)}, tasks {', '.join(data.tasks)}"


def licence_note(benchmark: str, root: Path, synthetic: bool) -> str:
    """What is known of the licence of the data: as the release states it, and as its paper does."""
    if synthetic:
        return "drawn by spatial-recipes (Apache-2.0)"
    stated = "the release's folder states none"
    readme = root / "README.md"
    if readme.is_file():
        head = readme.read_text(encoding="utf-8", errors="replace")[:20_000]
        if found := re.search(r"^license:\s*(\S.*)$", head, re.MULTILINE | re.IGNORECASE):
            stated = f"the release states {found[1].strip()}"
    return f"{stated}. {SOURCES.get(benchmark, '')}".strip()


def _results(evaluations: Sequence[RunDir]) -> list[str]:
    if not evaluations:
        return ["None of its evaluations was finished when this was written."]
    lines = [
        "| test rows | accuracy | 95 % interval over places | prompt | decoding | evaluation |",
        "|---|---|---|---|---|---|",
    ]
    for run in evaluations:
        scores = json.loads((run.path / "scores.json").read_text(encoding="utf-8"))
        overall, about = scores["overall"], scores["provenance"]
        kind = " on blank pictures" if run.config.eval.blank else ""
        lines.append(
            f"| {overall['n']:,}{kind} | {overall['accuracy']:.1%} "
            f"| {overall['low']:.1%} to {overall['high']:.1%} "
            f"| {about['prompt']} | {about['decoding']} | `{run.path.name}` |"
        )
    return lines


def _recipe(run: RunDir, facts: dict[str, Any]) -> dict[str, Any]:
    known = {"recipe": f"`{run.config.recipe_name}`", "stage directory": f"`{run.path.name}`"}
    known |= {"configuration hash": f"`{recipe_hash(run)}`", "commit": commit(run)}
    known |= {f"made from `{name}`": f"`{before.path.name}`" for name, before in run.inputs.items()}
    parameters = facts.get("parameters")
    if isinstance(parameters, dict):
        known["weights trained"] = f"{parameters['trained']:,} of {parameters['all']:,}"
    for key in ("rows", "steps", "taken", "answers", "verl", "validation_rows"):
        if facts.get(key) is not None:
            known[key.replace("_", " ")] = facts[key]
    return known


def _hyperparameters(run: RunDir, stage: str) -> list[tuple[str, Any]]:
    sections = {"sft": ("model", "sft"), "grpo": ("model", "reward", "grpo")}.get(stage, ("model",))
    return [
        (f"{section}.{key}", run.config[section].get(key))
        for section in sections
        for key in HYPERPARAMETERS[section]
        if key in run.config[section]
    ]


def commit(run: RunDir) -> str:
    """The commit that made the stage, as its environment.txt has it."""
    path = run.path / "environment.txt"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found = re.search(r"^commit: (.*)$", text, re.MULTILINE)
    return found[1] if found else "not known"
