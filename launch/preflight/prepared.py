"""What prep has written, looked at before hours are spent on it: rows, their pictures, their lengths."""

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from data_prep.atomic import read_jsonl
from data_prep.errors import UserError
from data_prep.prompts import prompt_of_set
from data_prep.rows import Row
from launch.preflight.models import tokenizer_folder
from recipes.length_budget import NAMED, in_words, named
from recipes.row_lengths import Lengths, Measure, summarise
from recipes.run_dir import RunDir
from recipes.stages import Stage

READS = {"base": ("sft",), "sft": ("sft", "rl"), "grpo": ("rl",), "eval": ("test",), "parity": ("test",)}
AGAIN = "take {}/manifest.json away and give the same command again: prep makes what is missing."
CUT_SHARE = 0.05  # of the reasoning that may be longer than GRPO's answers


def prep_of(stages: Sequence[Stage]) -> Stage | None:
    """The stage that prepares the sets, where there is one and it is finished."""
    return next((stage for stage in stages if stage.name == "prep" and stage.finished), None)


def trained_on(config: DictConfig, stages: Sequence[Stage]) -> dict[str, int]:
    """Set -> rows that are trained on, without those held out; empty before prep is finished.

    Raises:
        UserError: more would be held out than may be.
    """
    prep = prep_of(stages)
    sets = RunDir(prep.path).manifest.get("sets", {}) if prep else {}
    counts = {name: facts["rows"] for name, facts in sets.items()}
    for stage, name in (("sft", "sft"), ("grpo", "rl")):
        held_out = config[stage].validation_rows
        if prep and held_out and (prep.path / f"rows/{name}.jsonl").is_file():
            from recipes.held_out import held_out_groups

            groups = [row.group for row in _rows_of(prep.path, name)]
            aside = held_out_groups(groups, held_out, config.seed, f"{stage}.validation_rows")
            counts[name] = sum(group not in aside for group in groups)
    return counts


def findings(config: DictConfig, stages: Sequence[Stage], ahead: set[str]) -> Iterator[str]:
    """Sets that cannot be trained on or asked as they are."""
    prep = prep_of(stages)
    if prep is None:
        return
    names = _wanted(ahead)
    made = RunDir(prep.path).manifest.get("files", {})
    files = [*(f"rows/{name}.jsonl" for name in names), *(["rl.parquet"] if "grpo" in ahead else [])]
    if missing := [file for file in files if file in made and not (prep.path / file).is_file()]:
        yield f"{prep.path} lacks {' and '.join(missing)}, which it has made: {AGAIN.format(prep.path)}"
    if not _all_there(prep.path, names):
        return
    yield from _pictures(prep.path, names)
    try:
        rows = trained_on(config, stages)
        if "grpo" in ahead and 0 < rows.get("rl", 0) < config.grpo.batch_size:
            yield (
                f"GRPO has {rows['rl']} rows to train on, fewer than one step takes: lower "
                f"grpo.batch_size={config.grpo.batch_size}, or prepare more of the release."
            )
        yield from _many_pictures(config, prep.path, ahead)
        yield from _too_long(config, stages, prep.path, ahead)
    except UserError as error:
        yield str(error)


def notes(config: DictConfig, stages: Sequence[Stage], ahead: set[str]) -> Iterator[str]:
    """Lengths of prompts and reasoning beside the budgets of the model."""
    if not ahead & {"sft", "grpo", "eval"}:
        return
    prep = prep_of(stages)
    if prep is None:
        yield "Lengths of prompts and reasoning are compared with the model's budgets once prep is finished."
        return
    if _all_there(prep.path, _wanted(ahead)):
        try:
            yield from _lengths(config, stages, prep.path, ahead)
        except UserError:
            return  # it stands among the findings


def _all_there(prep: Path, names: Sequence[str]) -> bool:
    return all((prep / f"rows/{name}.jsonl").is_file() for name in names)


def _wanted(ahead: set[str]) -> list[str]:
    return sorted({name for stage in ahead for name in READS.get(stage, ())})


@lru_cache(maxsize=8)
def _rows(prep: Path, name: str, _: float) -> tuple[Row, ...]:
    return tuple(Row.from_json(record) for record in read_jsonl(prep / f"rows/{name}.jsonl"))


def _rows_of(prep: Path, name: str) -> tuple[Row, ...]:
    return _rows(prep, name, (prep / f"rows/{name}.jsonl").stat().st_mtime)


def _pictures(prep: Path, names: Sequence[str]) -> Iterator[str]:
    """Pictures that rows name and that are gone or empty. None is opened."""
    wanted: dict[str, str] = {}
    for name in names:
        for row in _rows_of(prep, name):
            wanted |= {image.path: row.id for image in row.images if image.path not in wanted}
    lost = {}
    for path, row_id in wanted.items():
        try:
            if os.stat(prep / "images" / path).st_size == 0:
                lost[path] = row_id
        except OSError:
            lost[path] = row_id
    if lost:
        first = ", ".join(f"{path} ({row_id})" for path, row_id in list(lost.items())[:NAMED])
        yield (
            f"{len(lost)} of {len(wanted)} pictures are gone from {prep}/images or empty: {first}; "
            f"{AGAIN.format(prep)}"
        )


def _many_pictures(config: DictConfig, prep: Path, ahead: set[str]) -> Iterator[str]:
    """Rows with more pictures than the server takes that is started for them."""
    if not (config.eval.serve and ahead & {"eval", "parity"}):
        return
    most = config.vllm.max_images
    above = {row.id: len(row.images) for row in _rows_of(prep, "test") if len(row.images) > most}
    if above:
        row_id, pictures = next(iter(above.items()))
        yield (
            f"{len(above)} test rows have more pictures than vllm.max_images={most} ({row_id}: {pictures}): "
            f"raise it to {max(above.values())}."
        )


@lru_cache(maxsize=32)
def _measured(
    prep: Path, name: str, what: str, limit: int, folder: Path | None, model: str
) -> Lengths | None:
    """Lengths of a set's prompts or reasoning. `model` is its section as YAML."""
    rows = _rows_of(prep, name)
    measure = Measure(folder, OmegaConf.create(model))
    if what == "prompts":
        found = measure.prompts(rows, prompt_of_set(RunDir(prep).config))
    else:
        found = {row.id: measure.answer(row.reasoning) for row in rows if row.reasoning is not None}
    return summarise(found, limit) if found else None


def _measure(config: DictConfig, stages: Sequence[Stage], prep: Path, name: str, what: str) -> Lengths | None:
    model = config.model
    limit = model.max_prompt_tokens if what == "prompts" else model.max_response_tokens
    folder = tokenizer_folder(config, stages)
    return _measured(prep, name, what, limit, folder, OmegaConf.to_yaml(model))


def _too_long(config: DictConfig, stages: Sequence[Stage], prep: Path, ahead: set[str]) -> Iterator[str]:
    """Only where a tokenizer is at hand: an estimate refuses nothing."""
    if tokenizer_folder(config, stages) is None:
        return
    for stage, name in (("sft", "sft"), ("grpo", "rl")):
        found = _measure(config, stages, prep, name, "prompts") if stage in ahead else None
        if found and found.above:
            yield (
                f"{len(found.above)} of {found.count} {name.upper()} prompts are longer than "
                f"model.max_prompt_tokens={found.limit} ({_first(found)}): raise it to {found.longest}, or "
                "lower model.max_image_tokens."
            )
    taught = "grpo" in ahead and _handed_over(prep, ahead)
    reasoning = _measure(config, stages, prep, "sft", "reasoning") if taught else None
    if reasoning and len(reasoning.above) > CUT_SHARE * reasoning.count:
        yield (
            f"{len(reasoning.above)} of {reasoning.count} texts that SFT learns from are longer than "
            f"model.max_response_tokens={reasoning.limit} (p95 {reasoning.p95}), so GRPO would cut such "
            f"answers and pay nothing for them: raise it to {reasoning.longest}."
        )


def _lengths(config: DictConfig, stages: Sequence[Stage], prep: Path, ahead: set[str]) -> Iterator[str]:
    if tokenizer_folder(config, stages) is None and config.model.build is not None:
        yield "Lengths are compared with the model's budgets once the base model is built."
        return
    exact = tokenizer_folder(config, stages) is not None
    how = "" if exact else " (about: the tokenizer is not here, so a token is taken for four characters)"
    for stage, name in (("sft", "sft"), ("grpo", "rl"), ("eval", "test")):
        found = _measure(config, stages, prep, name, "prompts") if stage in ahead else None
        if found:
            longer = f"; {len(found.above)} are longer: {_first(found)}" if found.above else ""
            yield f"{name.upper()} prompts: {found}{how}{longer}."
    if not _handed_over(prep, ahead):
        return
    reasoning = _measure(config, stages, prep, "sft", "reasoning")
    if reasoning is None:
        return
    longer = f"; {len(reasoning.above)} are longer: {_first(reasoning)}" if reasoning.above else ""
    yield f"SFT reasoning, beside GRPO's answers: {reasoning}{how}{longer}."
    if "eval" in ahead and reasoning.p95 > config.eval.max_new_tokens:
        yield (
            f"SFT reasoning has {reasoning.p95} tokens at p95, more than eval.max_new_tokens="
            f"{config.eval.max_new_tokens}: such answers are cut, and count as wrong."
        )


def _handed_over(prep: Path, ahead: set[str]) -> bool:
    """Whether what SFT learns to write has a budget to keep to."""
    return bool(ahead & {"sft", "grpo"}) and (prep / "rows/sft.jsonl").is_file()


def _first(found: Lengths) -> str:
    return named(in_words(found.above))
