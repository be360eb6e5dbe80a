"""An audit's numbers beside the paper's: as JSON, and as a table for a terminal.

The paper's are in `paper_counts.json` beside this file, with their source.
"""

import json
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from data_prep.cvsbench.audit import WORDS, Contents
from data_prep.cvsbench.layout import SPLITS
from data_prep.findings import Findings, Severity

SHOWN = 3  # findings of a check that the table shows


def paper() -> dict[str, Any]:
    """The paper's counts, as the file holds them."""
    return json.loads((files("data_prep.cvsbench") / "paper_counts.json").read_text(encoding="utf-8"))


def paper_rows(task: dict[str, Any]) -> dict[str, tuple[int, bool]]:
    """Category of one of the paper's tasks to its rows, and whether the number is derived from a share."""
    exact = {name: (rows, False) for name, rows in task.get("categories", {}).items()}
    return exact | {
        name: (round(share * task["rows"] / 100), True) for name, share in task.get("shares", {}).items()
    }


def counts(contents: Contents) -> list[dict[str, Any]]:
    """A record for every subset and task, then one for each of its categories, the paper's among them.

    `paper` is the paper's number of rows in both splits, None where it has none; `derived` marks one that
    the paper does not print.
    """
    published = {(task["subset"], task["task"]): task for task in paper()["tasks"]}
    kinds: dict[tuple[str, str], set[str]] = {(f.subset, f.task): set() for f in contents.files}
    for subset, task, category, _ in contents.rows:
        kinds.setdefault((subset, task), set()).add(category)
    records = []
    for (subset, task), found in kinds.items():
        whole = published.get((subset, task), {})
        categories = paper_rows(whole)
        rows = {c: [contents.rows[subset, task, c, s] for s in SPLITS] for c in sorted({*found, *categories})}
        sums = [sum(column) for column in zip(*rows.values(), strict=True)] or [0, 0]
        total = (whole.get("rows"), whole.get("derived", False))
        records.append(_record(subset, task, None, sums, total))
        records += [
            _record(subset, task, name, row, categories.get(name, (None, False)))
            for name, row in rows.items()
        ]
    return records


def _record(
    subset: str, task: str, category: str | None, rows: list[int], published: tuple[int | None, bool]
) -> dict[str, Any]:
    split = dict(zip(SPLITS, rows, strict=True))
    record = {"subset": subset, "task": task, "category": category, **split, "all": sum(rows)}
    return {**record, "paper": published[0], "derived": published[1]}


def letters(contents: Contents) -> list[dict[str, Any]]:
    """How often each letter is right: by subset and task, over all, and the paper's shares in percent."""
    by_task: dict[tuple[str, str], Counter[str]] = {}
    for (subset, task, letter), count in contents.letters.items():
        by_task.setdefault((subset, task), Counter())[letter] += count
    rows = [(f"{subset} {task}", own) for (subset, task), own in by_task.items()]
    rows.append(("all", sum((own for _, own in rows), Counter())))
    published = paper()["letters"]
    return [
        *({"of": name, "letters": dict(sorted(own.items())), "percent": _percent(own)} for name, own in rows),
        {"of": "paper", "letters": None, "percent": published["percent"], "source": published["source"]},
    ]


def _percent(own: Counter[str]) -> dict[str, float]:
    return {letter: round(100 * n / own.total(), 1) for letter, n in sorted(own.items())}


def table(contents: Contents, findings: Findings) -> Iterator[str]:
    """The lines of the audit for a terminal."""
    yield f"{'subset':<7}{'task':<14}{'category':<26}{'train':>8}{'test':>8}{'all':>8}{'paper':>9}"
    for r in counts(contents):
        mark = "~" if r["derived"] else ""
        published = "-" if r["paper"] is None else f"{mark}{r['paper']:,}"
        where = f"{'':<21}{r['category']:<26}" if r["category"] else f"{r['subset']:<7}{r['task']:<40}"
        yield f"{where}{r['train']:>8,}{r['test']:>8,}{r['all']:>8,}{published:>9}"
    yield "(the paper's numbers are for both halves; ~ is derived, from a share in its figure)"
    yield ""
    shares = letters(contents)
    names = sorted({letter for r in shares for letter in r["percent"]})
    yield f"{'right letter, %':<47}{''.join(f'{name:>8}' for name in names)}"
    for r in shares:
        name = "the paper, questions with four options" if r["of"] == "paper" else r["of"]
        yield f"{name:<47}" + "".join(f"{r['percent'].get(letter, 0):>8.1f}" for letter in names)
    yield ""
    yield f"pictures shown or hidden: {len(contents.pictures):,}"
    severities: tuple[Severity, ...] = ("error", "warning")
    for severity in severities:
        yield f"{severity}s: {findings.count(severity):,}"
        for check, (count, first) in findings.of(severity).items():
            yield f"  {check}: {count:,} ({WORDS[check]})"
            for finding in first[:SHOWN]:
                yield f"    {finding.place}"
                yield f"      {finding.message}"


def summary(contents: Contents, findings: Findings) -> dict[str, Any]:
    """What audit.json holds beside the release's place."""
    return {
        "sources": [vars(file) for file in contents.files],
        "counts": counts(contents),
        "counts_source": paper()["source"],
        "letters": letters(contents),
        "groups": {split: len(contents.shown[split]) for split in SPLITS},
        "pictures": len(contents.pictures),
        **findings.summary(),
    }
