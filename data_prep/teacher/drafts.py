"""Where each row stands with its teacher: what was written, what was rejected and why, what is kept."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data_prep.rows import Row
from data_prep.teacher.checks import Rejection


@dataclass(frozen=True)
class Lesson:
    """A row to be taught, and the files of the view that it hides.

    `hidden` is empty where the release does not tell, and None where the response format does not want it.
    """

    row: Row
    hidden: tuple[Path, ...] | None = None


@dataclass(frozen=True)
class Attempt:
    """A text that was rejected; None where the model gave none."""

    text: str | None
    rejections: tuple[Rejection, ...]


@dataclass
class Draft:
    """A lesson with its rejected texts so far, the text at hand, and whether that is kept.

    `unanswered` is the endpoint's fault where it never answered.
    """

    lesson: Lesson
    attempts: list[Attempt] = field(default_factory=list)
    text: str | None = None
    kept: bool = False
    unanswered: str | None = None

    @property
    def row(self) -> Row:
        return self.lesson.row

    @property
    def reasons(self) -> list[str]:
        """Why the last text was rejected; empty before the first."""
        return [rejection.reason for rejection in self.attempts[-1].rejections] if self.attempts else []

    def reject(self, text: str | None, *rejections: Rejection) -> None:
        self.attempts.append(Attempt(text, rejections))
        self.text = None

    def why_not(self) -> str:
        """Why a row that is not kept is set aside, in one sentence."""
        if self.unanswered:
            return f"the teacher's endpoint gave no answer ({self.unanswered})"
        times = "once" if len(self.attempts) == 1 else f"{len(self.attempts)} times"
        return f"the teacher's text was rejected {times}, at last because {'; '.join(self.reasons)}"

    def to_json(self) -> dict[str, Any]:
        """The record of a row that is not kept."""
        return {
            "id": self.row.id,
            "category": self.row.category,
            "reason": self.why_not(),
            "attempts": [
                {"text": attempt.text, "checks": {r.check: r.reason for r in attempt.rejections}}
                for attempt in self.attempts
            ],
        }
