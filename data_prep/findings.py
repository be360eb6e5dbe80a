"""Findings of an audit: each is written to a JSON-lines file at once; counts and a few examples are kept."""

import json
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass
from typing import Any, Literal, TextIO

Severity = Literal["error", "warning"]
EXAMPLES = 20  # findings of a check that are kept in memory


@dataclass(frozen=True)
class Finding:
    """One thing to look at.

    - `check`: which check found it.
    - `message`: one sentence for the person who mends it.
    - `id`: the row's id, the image group or the picture's path, whatever it is about.
    - `file`, `line`: where it stands; `file` is relative to the data root, `line` counts from 1, 0 is none.
    """

    check: str
    message: str
    id: str = ""
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """File and line, then what it is about, as far as they are known."""
        where = f"{self.file}:{self.line}" if self.line else self.file
        return " ".join(part for part in (where, self.id) if part)


class Findings:
    """Takes findings as they come. Memory grows with the number of checks, not of findings.

    `checks` says of each check how grave its findings are.
    """

    def __init__(self, checks: dict[str, Severity], out: TextIO) -> None:
        self.checks = checks
        self._out = out
        self._counts: Counter[str] = Counter()
        self._examples: dict[str, list[Finding]] = defaultdict(list)

    def add(self, finding: Finding) -> None:
        record = {"severity": self.checks[finding.check], **asdict(finding)}
        self._out.write(json.dumps(record, ensure_ascii=False) + "\n")
        self._counts[finding.check] += 1
        if len(self._examples[finding.check]) < EXAMPLES:
            self._examples[finding.check].append(finding)

    def count(self, severity: Severity) -> int:
        return sum(n for check, n in self._counts.items() if self.checks[check] == severity)

    def of(self, severity: Severity) -> dict[str, tuple[int, list[Finding]]]:
        """Count and first findings of every check of this severity that found something."""
        return {
            check: (self._counts[check], self._examples[check])
            for check, own in self.checks.items()
            if own == severity and self._counts[check]
        }

    def summary(self) -> dict[str, Any]:
        """Counts of every check, those that found nothing too, and the first findings of each."""
        severities: tuple[Severity, ...] = ("error", "warning")
        return {
            f"{severity}s": {
                "total": self.count(severity),
                "checks": {c: self._counts[c] for c, own in self.checks.items() if own == severity},
                "first": [asdict(one) for _, first in self.of(severity).values() for one in first],
            }
            for severity in severities
        }
