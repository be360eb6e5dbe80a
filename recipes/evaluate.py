"""Evaluation: a checkpoint answers the test rows (predictions.jsonl) and is scored (scores.json).

An engine answers (`recipes.engines`): transformers in this process, or an OpenAI-compatible server. Answers
are on disk before the run goes on, so a killed evaluation continues behind the last whole line. At the
paper's temperature of 0.01 decoding is greedy, which scores.json says.

    attempts.jsonl  the circumstances under which rows were answered
    engine.json     what answered: name and version, name of the served model
    failures.jsonl  rows that a server never answered, with the reason
    retries.jsonl   second replies for rows in whose first the official reading finds no box
    official.json   rows that the paper's toolkit would drop or ask with other pictures
"""

import datetime
import heapq
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from data_prep.atomic import JsonlLog, read_jsonl, sha256_file, write_json, write_jsonl
from data_prep.errors import UserError
from data_prep.prompts import PromptSpec, default_instruction, prompt_of_set
from data_prep.rows import Row
from data_prep.scoring import rotate_options
from data_prep.single_view import check_single_view
from data_prep.tokens import token_side
from recipes import attempts, engines, reward_settings
from recipes.engines.answers import GREEDY_BELOW, Completion, row_seed
from recipes.official import RETRY
from recipes.official_differences import differences
from recipes.progress import StepProgress
from recipes.run_dir import RunDir
from recipes.scores import official_reading, predict, summarise
from recipes.serve import reachable
from recipes.stages import ENDPOINT, checkpoint_path, recipe_hash
from recipes.tracking import metrics_log

ENGINE_KEYS = ("engine", "served_model")


def run(run: RunDir) -> None:
    """Answer what is not yet answered, then score.

    Raises:
        UserError: no test rows, no checkpoint, a row that shows the view which its task hides, no server that
            answers, or rows that it never answered.
    """
    config, prep = run.config, run.inputs["prep"]
    source = prep.path / "rows" / "test.jsonl"
    asked = chosen_ids(source, config.eval.max_rows, prep.config.seed)
    if not asked:
        raise UserError(f"{source} has no test rows; check data.subsets, data.tasks and data.categories.")
    unlike = differences(_stream(source, asked), prep.path / "quarantine.jsonl")
    write_json(run.path / "official.json", unlike)
    failures = _answer(run, source, asked)
    unasked = {} if failures else _ask_again(run, source)
    _set_failures(run, failures | unasked, config.eval.allow_failures)
    answered = asked - failures.keys()
    if not answered:
        raise UserError(f"no row was answered; {run.path / 'failures.jsonl'} says why.")
    count = len(answered)
    scores = summarise(_whole(run.path / "predictions.jsonl", answered))
    scores |= {"provenance": _provenance(run, count, len(failures))}
    scores["provenance"]["attempts"] = len(attempts.read(run.path))
    write_json(run.path / "scores.json", scores)
    numbers = {key: value for key, value in scores["overall"].items() if isinstance(value, (int, float))}
    with metrics_log(run) as metrics:
        metrics.append({"step": count, **numbers})
    run.finish(
        {
            "rows": count,
            "failures": len(failures),
            "accuracy": scores["overall"]["accuracy"],
            "predictions_sha256": sha256_file(run.path / "predictions.jsonl"),
        }
    )


def prompt_of(run: RunDir) -> PromptSpec:
    """The prompt that an evaluation asks with: `eval.prompt` in our words, or that of the prepared set."""
    prompt = prompt_of_set(run.inputs["prep"].config)
    asked = OmegaConf.select(run.config, "eval.prompt")
    return prompt if asked is None else replace(prompt, format=asked, instruction=default_instruction(asked))


def choose_rows(rows: Iterator[Row], most: int | None, seed: int) -> list[Row]:
    """All rows, or the `most` with the smallest seeded hash: the same ones whatever else is in the set."""
    if most is None:
        return list(rows)
    return sorted(rows, key=lambda row: _place(row.id, seed))[:most]


def chosen_ids(source: Path, most: int | None, seed: int) -> set[str]:
    """The ids of the rows that `choose_rows` would take from the file `source`."""
    ids = (record["id"] for record in read_jsonl(source))
    if most is None:
        return set(ids)
    return set(heapq.nsmallest(most, ids, key=lambda row_id: _place(row_id, seed)))


def _place(row_id: str, seed: int) -> tuple[int, str]:
    """Where a row stands in the draw."""
    return row_seed(seed, row_id), row_id


def _stream(source: Path, wanted: set[str], rotated: int = 0) -> Iterator[Row]:
    """The rows of `wanted`, one at a time, their options moved on by `rotated` letters.

    Raises:
        UserError: a row shows the view which its task hides.
    """
    for record in read_jsonl(source):
        if record["id"] in wanted:
            row = Row.from_json(record)
            check_single_view(row)
            yield rotate_options(row, rotated)


def _whole(predictions: Path, wanted: set[str]) -> Iterator[dict[str, Any]]:
    """The predictions of a file, which must hold one for each of the `wanted` ids."""
    ids: Counter[str] = Counter()
    for prediction in read_jsonl(predictions):
        ids[prediction["id"]] += 1
        yield prediction
    if ids.keys() != wanted or ids.total() != len(wanted):
        raise RuntimeError(f"{predictions} does not hold every test row exactly once")


def _answer(run: RunDir, source: Path, asked: set[str]) -> dict[str, str]:
    """Append a prediction for every row that has none; returns why rows have none, by their id."""
    prompt, reward = prompt_of(run), reward_settings.options(run.config.reward)

    def record(row: Row, completion: Completion) -> dict[str, Any]:
        return predict(row, *completion, prompt.format, reward)

    def rows(left: set[str]) -> Iterator[Row]:
        return _stream(source, left, run.config.eval.rotate_options)

    return _ask(run, "predictions.jsonl", asked, rows, record)


def _ask_again(run: RunDir, source: Path) -> dict[str, str]:
    """Ask once more for a box where the official reading finds none, as the paper's toolkit does.

    The official reading alone takes the second reply (`completion_retry`); returns why rows have none.
    """
    target = run.path / "predictions.jsonl"
    wanted = {
        p["id"] for p in read_jsonl(target) if p.get("retried_official") and "completion_retry" not in p
    }
    if not wanted:
        return {}

    def rows(left: set[str]) -> Iterator[Row]:
        return (replace(row, question=f"{row.question}\n{RETRY}") for row in _stream(source, left))

    def record(row: Row, completion: Completion) -> dict[str, Any]:
        found = official_reading(row, completion.text) | {"retried_official": True}
        return {"id": row.id, "completion_retry": completion.text, **found}

    failures = _ask(run, "retries.jsonl", wanted, rows, record)
    replies = {reply["id"]: reply for reply in read_jsonl(run.path / "retries.jsonl")}
    write_jsonl(target, (p | replies.get(p["id"], {}) | {"run": p["run"]} for p in read_jsonl(target)))
    return failures


def _ask(
    run: RunDir,
    name: str,
    asked: set[str],
    rows: Callable[[set[str]], Iterator[Row]],
    record: Callable[[Row, Completion], dict[str, Any]],
) -> dict[str, str]:
    """Append a record to the file `name` for every row asked that has none; returns why rows have none."""
    config, prep = run.config, run.inputs["prep"]
    target = run.path / name
    JsonlLog(target).close()  # drops a line that a kill cut short
    left = asked - {kept["id"] for kept in read_jsonl(target)}
    if not left:
        return {}
    checkpoint = checkpoint_path(run, config.eval.checkpoint)
    answered, correct, attempt = len(asked) - len(left), 0.0, ""
    with (
        reachable(config, checkpoint, run.path / "vllm.log") as reached,
        StepProgress("evaluation", len(asked), already=answered) as progress,
    ):

        def on_records(records: Sequence[dict[str, Any]], note: str) -> None:
            nonlocal answered, correct
            answered += len(records)
            correct += sum(kept.get("correct", kept["accuracy_official"]) for kept in records)
            new = answered - len(asked) + len(left)
            progress.update(answered, f"{correct / new:.1%} right {note}".rstrip())

        def on_engine(about: dict[str, str]) -> None:
            nonlocal attempt
            _note_engine(run, about)
            attempt = attempts.note(run.path, _provenance(run, len(asked), 0))

        return engines.answer(
            engines.Job(
                config=reached,
                seed=prep.config.seed,
                checkpoint=checkpoint,
                prompt=prompt_of(run),
                images=prep.path / "images",
                rows=rows(left),
                log=target,
                record=lambda row, completion: record(row, completion) | {"run": attempt},
                on_records=on_records,
                on_engine=on_engine,
            )
        )


def _set_failures(run: RunDir, failures: dict[str, str], allowed: bool) -> None:
    """List the rows that the server never answered; those of an earlier attempt were asked for again.

    Raises:
        UserError: there are some, and `eval.allow_failures` is not set.
    """
    target = run.path / "failures.jsonl"
    if not failures:
        target.unlink(missing_ok=True)
        return
    write_jsonl(target, ({"id": row_id, "reason": reason} for row_id, reason in sorted(failures.items())))
    if not allowed:
        row_id, reason = min(failures.items())
        raise UserError(
            f"{len(failures)} rows were never answered (the first is {row_id}: {reason}); {target} lists "
            "them. What is answered is kept: give the same command again to ask for these alone, or score "
            "without them with eval.allow_failures=true."
        )


def _note_engine(run: RunDir, about: dict[str, str]) -> None:
    """Keep what answers in engine.json; where a later attempt has another engine, both stand there."""
    known = _engines(run)
    if about not in known:
        write_json(run.path / "engine.json", [*known, about])


def _engines(run: RunDir) -> list[dict[str, str]]:
    path = run.path / "engine.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def _provenance(run: RunDir, rows: int, failures: int) -> dict[str, Any]:
    config, prep = run.config, run.inputs["prep"]
    greedy = config.eval.temperature <= GREEDY_BELOW
    prompt = prompt_of(run)
    used = {key: " and ".join(dict.fromkeys(e[key] for e in _engines(run))) for key in ENGINE_KEYS}
    named = config.eval.checkpoint == ENDPOINT
    return {
        "checkpoint": checkpoint_path(run, config.eval.checkpoint),
        "recipe": {"name": config.recipe_name, "scale": config.scale_name, "hash": recipe_hash(run)},
        "model": used["served_model"] if named else config.model.name,
        "rows": rows,
        "failures": failures,
        "blank_pictures": config.eval.blank,
        "rotate_options": config.eval.rotate_options,
        "views": prep.config.data.get("views", "none"),
        "prompt": prompt.format,
        "prompt_hash": prompt.hash,
        **used,
        "decoding": "greedy" if greedy else f"sampled at temperature {config.eval.temperature}",
        "temperature": config.eval.temperature,
        "max_new_tokens": config.eval.max_new_tokens,
        "max_image_tokens": config.model.max_image_tokens,
        "max_pixels": config.model.max_image_tokens * token_side(config.model.family) ** 2,
        "seed": prep.config.seed,
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _commit() -> str | None:
    """The commit of this source tree, or None where it is installed without its history."""
    try:
        asked = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"], capture_output=True, text=True
        )
    except FileNotFoundError:
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None
