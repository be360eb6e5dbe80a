"""What is left of an accuracy when the options change places: a summary over `eval.rotate_options=0,1,2,3`.

python -m recipes.rotations EVAL_DIR EVAL_DIR ... [--json PATH]
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data_prep.atomic import read_jsonl, write_json
from data_prep.errors import UserError
from recipes.letter_bias import letter_bias
from recipes.run_dir import RunDir
from recipes.statistics import bootstrap_ci, paired_difference

KEY = "rotate_options"


def across_rotations(passes: Mapping[int, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Accuracies over the choice rows that have been asked in several orders of their options.

    Args:
        passes: places moved -> predictions; all of the same rows.

    Returns:
        `rows`; `passes`, for each {rotation, accuracy, low, high, letter_distance} and, but for the first,
        `difference` to it with `difference_low`, `difference_high` and `p`; `in_all`, the share of rows
        right in every pass, with `in_all_low` and `in_all_high`; `in_any`; `mean`. A row of two options is
        asked as in pass 0 again when they are moved by two.

    Raises:
        ValueError: fewer than two passes, other rows in one than in another, or no choice rows.
    """
    if len(passes) < 2:
        raise ValueError("two passes or more are needed, for example eval.rotate_options=0 and 1")
    kept = {
        rotation: {p["id"]: p for p in predictions if p["answer_type"] == "choice"}
        for rotation, predictions in sorted(passes.items())
    }
    first = next(iter(kept.values()))
    names = sorted(first)
    if any(sorted(asked) != names for asked in kept.values()):
        raise ValueError("the passes did not ask the same rows")
    if not names:
        raise ValueError("there are no choice rows")
    groups = [first[name]["group"] for name in names]
    right = {rotation: [asked[name]["accuracy"] for name in names] for rotation, asked in kept.items()}
    records = []
    for rotation, values in right.items():
        low, high = bootstrap_ci(values, groups)
        asked = [kept[rotation][name] for name in names]
        bias = letter_bias([p["parsed"] for p in asked], [p["answer"] for p in asked], groups)
        record = {"rotation": rotation, "accuracy": sum(values) / len(names), "low": low, "high": high}
        record["letter_distance"] = bias and bias["distance"]
        if records:
            found = paired_difference(next(iter(right.values())), values, groups)
            record |= {"difference": found.difference, "p": found.p}
            record |= {"difference_low": found.low, "difference_high": found.high}
        records.append(record)
    by_row = list(zip(*right.values(), strict=True))
    in_all = [float(min(values)) for values in by_row]
    low, high = bootstrap_ci(in_all, groups)
    return {
        "rows": len(names),
        "passes": records,
        "mean": sum(record["accuracy"] for record in records) / len(records),
        "in_all": sum(in_all) / len(names),
        "in_all_low": low,
        "in_all_high": high,
        "in_any": sum(max(values) for values in by_row) / len(names),
    }


def read_passes(folders: Sequence[Path]) -> dict[int, list[dict[str, Any]]]:
    """The predictions of finished evaluations by how far they moved the options.

    Raises:
        UserError: one is not finished, two moved them as far, or they differ in something else.
    """
    passes: dict[int, list[dict[str, Any]]] = {}
    asked: dict[str, Any] = {}
    for folder in folders:
        run = RunDir(folder)
        if not run.finished:
            raise UserError(f"the evaluation {folder} is not finished; run launch eval again, it continues.")
        evaluation = dict(run.config.eval)
        rotation = evaluation.pop(KEY)
        if rotation in passes:
            raise UserError(f"eval.{KEY}={rotation} is there twice; give one evaluation for each.")
        inputs = {name: source.path.name for name, source in run.inputs.items()}
        asked = asked or {"eval": evaluation, "inputs": inputs}
        if asked != {"eval": evaluation, "inputs": inputs}:
            raise UserError(
                f"{folder} differs from the others in more than eval.{KEY}, and cannot be compared."
            )
        passes[rotation] = list(read_jsonl(run.path / "predictions.jsonl"))
    return passes


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+", metavar="EVAL_DIR")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the figures to this file")
    arguments = parser.parse_args(words)
    try:
        found = across_rotations(read_passes(arguments.folders))
    except (UserError, ValueError) as error:
        print(f"rotations: {error}", file=sys.stderr)
        return 2
    for record in found["passes"]:
        interval = f"{record['low']:.1%} to {record['high']:.1%}"
        print(f"moved by {record['rotation']}: {record['accuracy']:.1%} ({interval})")
    print(f"right in all: {found['in_all']:.1%} ({found['in_all_low']:.1%} to {found['in_all_high']:.1%})")
    if arguments.json:
        write_json(arguments.json, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
