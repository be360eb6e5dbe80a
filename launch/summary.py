"""The end of a pipeline: the report is written, and its main table is shown in the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import DictConfig

from data_prep.errors import UserError
from launch.pipeline import shown
from recipes.run_dir import RunDir
from recipes.stages import Stage


def write(config: DictConfig, evaluations: Mapping[str, Stage]) -> int:
    """Write the report of the finished `evaluations` (label -> stage) and print the summary.

    Raises:
        UserError: none of them is finished.
    """
    finished = {label: stage for label, stage in evaluations.items() if stage.finished}
    if not finished:
        raise UserError(
            f"nothing is evaluated yet in {shown(evaluations['base'].path.parent)}: "
            "run `launch pipeline`, or `launch eval`, with the same options first."
        )
    from recipes.report import summary, write_report
    from recipes.report_grpo import alarms_of

    paths = {label: stage.path for label, stage in finished.items()}
    grpo = evaluations["grpo"].inputs["grpo"]
    begun = grpo.finished or (grpo.path / "metrics.jsonl").exists()
    sft = grpo.inputs["sft"]
    report = write_report(
        paths,
        grpo.path if begun else None,
        sft.path if sft.finished else None,
        evaluations["base"].path.parent / "report.html",
        f"{config.recipe_name} ({config.scale_name})",
    )
    for line in table(summary(paths)):
        print(line)
    for alarm in alarms_of(RunDir(grpo.path)) if begun else []:
        print(f"GRPO, {alarm}")
    print(f"\nreport: {shown(report)}")
    return 0


def table(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of the main table, 80 letters wide: accuracy in %, changes in points, 95 % intervals."""
    questions = " or ".join(dict.fromkeys(str(record["n"]) for record in records))
    lines = ["", f"{'':<22}{f'accuracy on {questions} questions':<26}change"]
    for record in records:
        accuracy = (
            f"{_percent(record, 'accuracy')} % ({_percent(record, 'low')} to {_percent(record, 'high')})"
        )
        change = ""
        if record["difference"] is not None:
            low, high = (_percent(record, f"difference_{end}", "+") for end in ("low", "high"))
            change = f"{_percent(record, 'difference', '+')} ({low} to {high}) on {record['previous']}"
        lines.append(f"{record['label']:<22}{accuracy:<26}{change}".rstrip())
    return lines


def _percent(record: Mapping[str, Any], key: str, sign: str = "") -> str:
    return f"{100 * record[key]:{sign}.1f}"
