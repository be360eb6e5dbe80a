"""What a teacher's texts were worth: acceptance by check and category, and examples of each rejection."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data_prep.atomic import write_json, write_text
from data_prep.teacher.drafts import Draft
from data_prep.teacher.limits import Usage

EXAMPLES = 10


def report(drafts: Sequence[Draft], usage: Usage, model: str) -> dict[str, Any]:
    """Counts and examples, the same however often the run was interrupted.

    `checks` counts rejected texts, one text under every check that it fails, and the rows whose last text
    failed it. Examples are the first of the rows.
    """
    categories: dict[str, Counter[str]] = defaultdict(Counter)
    rejected: dict[str, Counter[str]] = defaultdict(Counter)
    lost: Counter[str] = Counter()
    examples: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for draft in drafts:
        category = f"{draft.row.subset}/{draft.row.task}/{draft.row.category}"
        counts = categories[category]
        counts["rows"] += 1
        counts["kept"] += draft.kept
        counts["kept_at_once"] += draft.kept and not draft.attempts
        counts["unanswered"] += draft.unanswered is not None
        for attempt in draft.attempts:
            for rejection in attempt.rejections:
                rejected[rejection.check][category] += 1
                if len(examples[rejection.check]) < EXAMPLES:
                    examples[rejection.check].append(
                        {"id": draft.row.id, "reason": rejection.reason, "text": attempt.text}
                    )
        if not draft.kept and not draft.unanswered:
            lost.update(rejection.check for rejection in draft.attempts[-1].rejections)
    return {
        "model": model,
        "rows": len(drafts),
        "kept": sum(draft.kept for draft in drafts),
        "unanswered": sum(draft.unanswered is not None for draft in drafts),
        "without_hidden_view": sum(draft.lesson.hidden == () for draft in drafts),
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "dollars": None if usage.cost is None else round(usage.cost, 4),
        "categories": {name: dict(counts) for name, counts in sorted(categories.items())},
        "checks": {
            check: {
                "texts": counts.total(),
                "rows_lost": lost[check],
                "categories": dict(sorted(counts.items())),
            }
            for check, counts in sorted(rejected.items())
        },
        "examples": dict(sorted(examples.items())),
    }


def write_report(folder: Path, found: dict[str, Any]) -> None:
    """Write `teacher_report.json` and `teacher_report.md` into `folder`."""
    write_json(folder / "teacher_report.json", found)
    write_text(folder / "teacher_report.md", "\n".join(_lines(found)) + "\n")


def _lines(found: dict[str, Any]) -> list[str]:
    cost = "" if found["dollars"] is None else f", {found['dollars']:,.2f} dollars"
    lines = [
        f"# Teacher: {found['model']}",
        "",
        f"{found['kept']:,} of {found['rows']:,} rows kept, {found['unanswered']:,} never answered by the"
        f" endpoint, {found['without_hidden_view']:,} whose hidden view is not in the release.",
        f"{found['prompt_tokens']:,} prompt and {found['completion_tokens']:,} completion tokens{cost}.",
        "",
        "| category | rows | kept | at the first text |",
        "|---|---|---|---|",
    ]
    for name, counts in found["categories"].items():
        rows = counts["rows"]
        kept, at_once = (f"{counts[key]} ({counts[key] / rows:.0%})" for key in ("kept", "kept_at_once"))
        lines.append(f"| {name} | {rows} | {kept} | {at_once} |")
    lines += ["", "| check | texts rejected | rows lost to it |", "|---|---|---|"]
    lines += [
        f"| {name} | {check['texts']} | {check['rows_lost']} |" for name, check in found["checks"].items()
    ]
    for check, examples in found["examples"].items():
        lines += ["", f"## Rejected by `{check}`"]
        for example in examples:
            quoted = (example["text"] or "(no text)").splitlines()
            lines += [
                "",
                f"{example['id']}: {example['reason']}",
                "",
                *(f"> {line}".rstrip() for line in quoted),
            ]
    return lines
