"""Teacher reasoning for the SFT half: read, checked, and kept only where every check passes.

`file` reads a file of the user's, `oracle` the one that comes with a synthetic release; both are JSON lines
of {"id": row id, "reasoning": text ending in the answer tag}. `answer` needs no file: a recipe without
reasoning teaches the answers themselves.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig

from data_prep.atomic import sha256_file
from data_prep.data_root import DataRoot
from data_prep.errors import UserError
from data_prep.rows import Row
from data_prep.scoring import gold
from rewards import check_format, parse_answer, render_answer
from rewards.response_format import MAX_WORDS


class Taught(NamedTuple):
    """What a teacher left: reasoning by row id, why rows that it was asked about have none, and what the
    manifest says of it. With `answers`, every row is taught its answer alone."""

    reasoning: dict[str, str]
    reasons: dict[str, str]
    summary: dict[str, Any]
    answers: bool = False

    def text(self, row: Row) -> str | None:
        """What the row is taught, which ends in its answer; None where there is nothing."""
        if self.answers:
            return render_answer(row.answer, row.answer_type, options=row.options, unit=row.unit)
        return self.reasoning.get(row.id)


def read_taught(teacher: DictConfig, root: DataRoot, response_format: str) -> Taught:
    """The reasoning of a file, the user's or the synthetic release's; no file for kinds `answer` and `none`.

    Raises:
        UserError: as `reasoning_path` and `read_reasoning` do.
    """
    if teacher.kind in ("answer", "none"):
        return Taught({}, {}, {}, teacher.kind == "answer")
    path = reasoning_path(teacher.kind, teacher.path, root.path, response_format)
    return Taught(read_reasoning(path), {}, {"path": str(path), "sha256": sha256_file(path)})


def reasoning_path(kind: str, path: str | None, root: Path, response_format: str) -> Path:
    """The file that a teacher's configuration names.

    Raises:
        UserError: unknown kind, or there is no such file.
    """
    if kind == "file" and path:
        found = Path(path)
    elif kind == "oracle":
        found = root / "teacher" / f"{response_format}.jsonl"
    else:
        raise UserError(f"teacher.kind={kind} with teacher.path={path}: take oracle, or file with a path.")
    if not found.is_file():
        raise UserError(f"There is no reasoning at {found}. Give its file with teacher=file teacher.path=.")
    return found


def read_reasoning(path: Path) -> dict[str, str]:
    """Reasoning by row id.

    Raises:
        UserError: a line is not {"id", "reasoning"} in JSON, or an id comes twice.
    """
    reasoning: dict[str, str] = {}
    with open(path, "rb") as lines:
        for number, content in enumerate(lines, start=1):
            if not content.strip():
                continue
            try:
                record = json.loads(content.decode("utf-8-sig"))
                row_id, text = record["id"], record["reasoning"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                form = '{"id": ..., "reasoning": ...} in JSON'
                raise UserError(
                    f"{path}, line {number} is not {form} ({error!r:.80}). Mend the line."
                ) from error
            if not isinstance(row_id, str) or not isinstance(text, str):
                raise UserError(f"{path}, line {number}: id and reasoning must be texts. Mend the line.")
            if row_id in reasoning:
                raise UserError(
                    f"{path}, line {number}: {row_id!r} comes a second time. Keep one of the two."
                )
            reasoning[row_id] = text
    return reasoning


def fault(row: Row, text: str | None, response_format: str) -> str | None:
    """Why `text` cannot teach the row, or None where it can.

    Sections, their order and the length are those of the reward's full format check, so that SFT never
    teaches what GRPO then punishes.
    """
    if text is None:
        return "the teacher gave no reasoning"
    parsed = parse_answer(text, row.answer_type, options=row.options, unit=row.unit)
    if parsed.value is None:
        return f"the reasoning has no answer that can be read ({parsed.reason})"
    if parsed.value != gold(row):
        return f"the reasoning answers {parsed.text}, the row's answer is {row.answer}"
    if not check_format(text, response_format, "full", letters=row.options or ""):
        if (words := len(text.split())) > MAX_WORDS:
            return f"the reasoning has {words} words, more than {MAX_WORDS}"
        return f"the reasoning is not laid out as {response_format}, or names the option before the answer"
    return None
