"""The part of prep that has the SFT rows taught by a model: their hidden views, the teacher, its report."""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from data_prep.atomic import sha256_file
from data_prep.data_root import DataRoot
from data_prep.images import Picture, clean_all
from data_prep.rows import Row
from data_prep.teacher.drafts import Lesson
from data_prep.teacher.files import Taught, read_reasoning
from data_prep.teacher.reasoning import write_reasoning
from data_prep.teacher.report import report, write_report
from recipes.progress import StepProgress


def teach(run: Path, config: DictConfig, root: DataRoot, rows: Sequence[Row]) -> Taught:
    """Have `rows` taught, in `run/teacher`, and write the report beside it.

    Hidden pictures that cannot be read count as not there: they only serve to check an answer.

    Raises:
        UserError: as `write_reasoning` does.
    """
    folder = run / "teacher"
    lessons = _with_hidden_views(folder, root, rows, config.prompt.format)
    drafts, usage = write_reasoning(
        config.teacher, config.prompt.format, lessons, run / "images", folder, StepProgress
    )
    found = report(drafts, usage, config.teacher.model)
    write_report(run, found)
    print(
        f"prep: the teacher's reasoning is kept for {found['kept']} of {found['rows']} rows; "
        f"{run / 'teacher_report.md'} says what was rejected.",
        flush=True,
    )
    path = folder / "reasoning.jsonl"
    reasons = {draft.row.id: draft.why_not() for draft in drafts if not draft.kept}
    counts = ("model", "rows", "kept", "unanswered", "prompt_tokens", "completion_tokens", "dollars")
    summary = {"path": str(path), "sha256": sha256_file(path), **{key: found[key] for key in counts}}
    return Taught(read_reasoning(path), reasons, summary)


def _with_hidden_views(
    folder: Path, root: DataRoot, rows: Sequence[Row], response_format: str
) -> list[Lesson]:
    """The rows with clean files of what they hide, where the response format wants them."""
    if response_format != "imagination_cot":
        return [Lesson(row) for row in rows]
    names = list(dict.fromkeys(image["path"] for row in rows for image in row.meta.get("hidden_images", ())))
    with StepProgress("hidden views", len(names)) as progress:
        pictures = clean_all(root.path, names, folder / "images", folder / "images.jsonl", progress.update)
    found = {name: picture for name, picture in pictures.items() if isinstance(picture, Picture)}
    return [
        Lesson(
            row,
            tuple(
                folder / "images" / found[image["path"]].path
                for image in row.meta.get("hidden_images", ())
                if image["path"] in found
            ),
        )
        for row in rows
    ]
