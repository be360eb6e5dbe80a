"""The end of a pipeline: the report is written, and its main table is shown in the terminal."""

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig

from data_prep.errors import UserError
from launch.pipeline import shown
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

    paths = {label: stage.path for label, stage in finished.items()}
    grpo = evaluations["grpo"].inputs["grpo"]
    sft = grpo.inputs["sft"]
    report = write_report(
        paths,
        grpo.path if grpo.finished else None,
        sft.path if sft.finished else None,
        evaluations["base"].path.parent / "report.html",
        f"{config.recipe_name} ({config.scale_name})",
    )
    _print_table(summary(paths))
    print(f"report: {shown(report)}")
    return 0


def _print_table(records: list[dict[str, Any]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table("model", "questions", "accuracy", "95 % interval", "change", box=SIMPLE_HEAD)
    for record in records:
        gain = "" if record.get("difference") is None else _gain(record)
        table.add_row(
            record["label"],
            str(record["n"]),
            f"{100 * record['accuracy']:.1f} %",
            f"{100 * record['low']:.1f} to {100 * record['high']:.1f}",
            gain,
        )
    Console().print(table)


def _gain(record: Mapping[str, Any]) -> str:
    low, high = record["difference_low"], record["difference_high"]
    change = f"{100 * record['difference']:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
    return f"{change} points on {record['previous']}, p = {record['p']:.3f}"
