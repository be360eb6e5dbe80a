"""Evaluation: a checkpoint answers the test rows (predictions.jsonl) and is scored (scores.json).

official.json lists the rows that the paper's toolkit would drop or ask with other pictures.

Runs in this process with transformers. Answers are written after every batch, so a killed evaluation
goes on behind the last whole line. At the paper's temperature of 0.01 decoding is greedy (see
`recipes.decoding`), which scores.json says.
"""

import datetime
import subprocess
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from data_prep.atomic import JsonlLog, read_jsonl, sha256_file, write_json
from data_prep.errors import UserError
from data_prep.prompts import load_prompt
from data_prep.rows import Row
from data_prep.scoring import rotate_options
from data_prep.single_view import check_single_view
from recipes import attempts, reward_settings
from recipes.backbone import PIXELS_PER_TOKEN
from recipes.decoding import GREEDY_BELOW, Decoder, Pictures, row_seed
from recipes.official_differences import differences
from recipes.progress import StepProgress
from recipes.run_dir import RunDir
from recipes.scores import predict, summarise
from recipes.stages import checkpoint_path, recipe_hash
from recipes.tracking import metrics_log


def run(run: RunDir) -> None:
    """Answer what is not yet answered, then score.

    Raises:
        UserError: no test rows, no checkpoint, or a row that shows the view which its task hides.
    """
    config, prep = run.config, run.inputs["prep"]
    source = prep.path / "rows" / "test.jsonl"
    rows = choose_rows(map(Row.from_json, read_jsonl(source)), config.eval.max_rows, prep.config.seed)
    if not rows:
        raise UserError(f"{source} has no test rows; check data.subsets, data.tasks and data.categories.")
    for row in rows:
        check_single_view(row)
    rows = [rotate_options(row, config.eval.rotate_options) for row in rows]
    _answer(run, rows)
    predictions = list(read_jsonl(run.path / "predictions.jsonl"))
    if sorted(p["id"] for p in predictions) != sorted(row.id for row in rows):
        raise RuntimeError(f"{run.path / 'predictions.jsonl'} does not hold every test row exactly once")
    scores = summarise(predictions) | {"provenance": _provenance(run, len(rows))}
    scores["provenance"]["attempts"] = len(attempts.read(run.path))
    write_json(run.path / "scores.json", scores)
    write_json(run.path / "official.json", differences(rows, prep.path / "quarantine.jsonl"))
    numbers = {key: value for key, value in scores["overall"].items() if isinstance(value, (int, float))}
    with metrics_log(run) as metrics:
        metrics.append({"step": len(rows), **numbers})
    run.finish(
        {
            "rows": len(rows),
            "accuracy": scores["overall"]["accuracy"],
            "predictions_sha256": sha256_file(run.path / "predictions.jsonl"),
        }
    )


def choose_rows(rows: Iterator[Row], most: int | None, seed: int) -> list[Row]:
    """All rows, or the `most` with the smallest seeded hash: the same ones whatever else is in the set."""
    if most is None:
        return list(rows)
    return sorted(rows, key=lambda row: (row_seed(seed, row.id), row.id))[:most]


def batches(rows: Sequence[Row], size: int, model: DictConfig) -> list[list[Row]]:
    """Cut the rows into batches of like length, the longest first, so that a lack of memory shows at once.

    Pictures make most of a prompt, so their tokens are the length; rows with the same ones stand together.
    """
    pixels = PIXELS_PER_TOKEN[model.family]

    def key(row: Row) -> tuple[int, list[str], str]:
        tokens = sum(min(i.width * i.height // pixels, model.max_image_tokens) for i in row.images)
        return -tokens, [image.path for image in row.images], row.id

    ordered = sorted(rows, key=key)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def _answer(run: RunDir, rows: list[Row]) -> None:
    """Append a prediction for every row that has none."""
    config, prep = run.config, run.inputs["prep"]
    checkpoint = checkpoint_path(run, config.eval.checkpoint)
    prompt = load_prompt(prep.config.prompt)
    pictures = Pictures(prep.path / "images", config.eval.blank)
    reward = reward_settings.options(config.reward)
    target = run.path / "predictions.jsonl"
    with JsonlLog(target) as log:
        done = {record["id"] for record in read_jsonl(target)}
        if len(done) == len(rows):
            return
        decoder = Decoder(
            checkpoint, config.model, config.eval.temperature, config.eval.max_new_tokens, prep.config.seed
        )
        attempt = attempts.note(run.path, _provenance(run, len(rows)))
        correct = 0
        with StepProgress("evaluation", len(rows), already=len(done)) as progress:
            answered = already = len(done)
            for batch in batches(rows, config.model.eval_batch_size, config.model):
                left = [row for row in batch if row.id not in done]
                if not left:
                    continue
                completions = decoder.answer(left, [pictures.of(row) for row in left], prompt)
                records = [
                    predict(row, *completion, prompt.format, reward) | {"run": attempt}
                    for row, completion in zip(left, completions, strict=True)
                ]
                log.append(*records)
                answered += len(records)
                correct += sum(record["correct"] for record in records)
                progress.update(answered, f"{correct / (answered - already):.1%} right")


def _provenance(run: RunDir, rows: int) -> dict[str, Any]:
    config, prep = run.config, run.inputs["prep"]
    greedy = config.eval.temperature <= GREEDY_BELOW
    return {
        "checkpoint": checkpoint_path(run, config.eval.checkpoint),
        "recipe": {"name": config.recipe_name, "scale": config.scale_name, "hash": recipe_hash(run)},
        "model": config.model.name,
        "rows": rows,
        "blank_pictures": config.eval.blank,
        "rotate_options": config.eval.rotate_options,
        "views": prep.config.data.get("views", "none"),
        "prompt": prep.config.prompt.format,
        "prompt_hash": load_prompt(prep.config.prompt).hash,
        "engine": f"transformers {version('transformers')}, torch {version('torch')}",
        "decoding": "greedy" if greedy else f"sampled at temperature {config.eval.temperature}",
        "temperature": config.eval.temperature,
        "max_new_tokens": config.eval.max_new_tokens,
        "max_image_tokens": config.model.max_image_tokens,
        "max_pixels": config.model.max_image_tokens * PIXELS_PER_TOKEN[config.model.family],
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
