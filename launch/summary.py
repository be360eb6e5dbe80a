"""The end of a pipeline: the report is written, and its main table is shown in the terminal."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from data_prep.atomic import digest
from data_prep.errors import UserError
from data_prep.views.settings import paths as listed
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
        _title(config),
    )
    for line in table(summary(paths)):
        print(line)
    for alarm in alarms_of(RunDir(grpo.path)) if begun else []:
        print(f"GRPO, {alarm}")
    print(f"\nreport: {shown(report)}")
    _pages(config, _labelled(paths), evaluations["base"].path.parent / "viewer")
    return 0


def compare(config: DictConfig, evaluations: Mapping[str, Stage]) -> int:
    """Write the viewer's pages for the directories of `report.runs`.

    Raises:
        UserError: one of them is no finished evaluation.
    """
    runs = _given(config)
    name = f"viewer-{digest([str(path.resolve()) for path in runs.values()])[:10]}"
    _pages(config, runs, evaluations["base"].path.parent / name)
    return 0


def serve(config: DictConfig, evaluations: Mapping[str, Stage]) -> int:
    """Show the viewer from a local server until Ctrl-C.

    Raises:
        UserError: as `compare`; or nothing is finished, or the port is taken.
    """
    from recipes.viewer_server import serve

    finished = {label: stage.path for label, stage in evaluations.items() if stage.finished}
    runs = _labelled(finished) if config.report.runs is None else _given(config)
    serve(runs, _title(config), config.report.picture_side, config.report.port, _say)
    return 0


def _labelled(paths: Mapping[str, Path]) -> dict[str, Path]:
    """The recipe's own evaluations under the names that the report gives them."""
    from recipes.report import LABELS

    return {LABELS.get(key, key): path for key, path in paths.items()}


def _given(config: DictConfig) -> dict[str, Path]:
    from recipes.viewer_rows import labels

    return labels([Path(path) for path in listed(config.report.runs)])


def _pages(config: DictConfig, runs: Mapping[str, Path], out: Path) -> None:
    from recipes.viewer import write_viewer

    index = write_viewer(runs, out, _title(config), config.report.picture_side)
    print(f"viewer: {shown(index)}")


def _title(config: DictConfig) -> str:
    return f"{config.recipe_name} ({config.scale_name})"


def _say(text: str) -> None:
    print(text, flush=True)


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
