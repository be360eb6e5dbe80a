"""Tables as Markdown, CSV, LaTeX and HTML; the same marks in all of them.

Bold is the best of a column, underlined the second-best, the paper's numbers and ours each among themselves
(tables 4 and 5 of the paper mark the two by dark and light green, as the HTML page does too). A diamond, or
an orange ground, says that the paper's number lies outside our interval.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from recipes.grid import Grid
from recipes.tables_model import BEST, SECOND, Entry, Table
from recipes.tables_notes import NOT_COMPARABLE

OUTSIDE = "◆"
LEGEND = (
    "In every cell: the paper's number; ours, with the difference in points; the 95 % interval of ours, over "
    "image groups. **Bold** is the best of a column, <u>underlined</u> the second-best, the paper's and ours "
    f"each among themselves. {OUTSIDE}: the paper's number lies outside our interval. Empty: not measured."
)


def markdown(grid: Grid, tables: Sequence[Table], curve: bool) -> str:
    parts = [f"# {grid.name}\n\n{grid.what[:1].upper()}{grid.what[1:]}.\n\n{LEGEND}\n"]
    for table in tables:
        parts.append(f"## {table.title}\n\nRead in the {table.mode} way.\n")
        parts += [
            f"> **{note}**\n" if note.startswith(NOT_COMPARABLE) else f"> {note}\n" for note in table.notes
        ]
        heads = [*table.labels, *(" ".join(head) for head in table.heads)]
        lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        for line in table.lines:
            cells = [*line.heads, *("<br>".join(_markdown_cell(entry)) for entry in line.entries)]
            lines.append("| " + " | ".join(cells) + " |")
        parts.append("\n".join(lines) + "\n")
        parts += [f"<sup>{number}</sup> {text}\n" for number, text in enumerate(table.footnotes, 1)]
    if curve:
        parts.append(
            "## Reward of GRPO by step\n\n![reward by step, ours and the paper's](reward_curve.svg)\n"
        )
    return "\n".join(parts)


def _markdown_cell(entry: Entry) -> Iterator[str]:
    marks = {0: "{}", BEST: "**{}**", SECOND: "<u>{}</u>"}
    if entry.paper is not None:
        note = f"<sup>{entry.note}</sup>" if entry.note else ""
        yield marks[entry.paper_rank].format(f"{entry.paper.value:.1f}") + note
    if entry.ours is not None:
        ours = marks[entry.our_rank].format(f"{entry.value:.1f}")
        change = "" if entry.difference is None else f" ({_signed(entry.difference)})"
        yield ours + change + (f" {OUTSIDE}" if entry.outside else "")
        yield interval(entry)


def comma_separated(tables: Sequence[Table]) -> str:
    """One line a cell; what is empty was not measured, or not published."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["table", "row", "column", "cell", "scoring", "paper", "paper_place", "suspect", "ours", "our_place",
         "difference", "low", "high", "questions", "paper_outside_interval", "comparable"]
    )  # fmt: skip
    for table in tables:
        comparable = not any(note.startswith(NOT_COMPARABLE) for note in table.notes)
        for line in table.lines:
            for column, entry in zip(table.columns, line.entries, strict=True):
                writer.writerow(
                    [table.name, line.name, column, line.cell, table.mode, *_fields(entry, comparable)]
                )
    return out.getvalue()


def _fields(entry: Entry, comparable: bool) -> list[object]:
    paper = ["", "", ""]
    if entry.paper is not None:
        paper = [entry.paper.value, entry.paper_rank or "", entry.paper.suspect]
    if entry.ours is None:
        return [*paper, *[""] * 8]
    difference = "" if entry.difference is None else f"{entry.difference:.2f}"
    numbers = [f"{100 * value:.2f}" for value in (entry.ours.low, entry.ours.high)]
    outside = "" if entry.paper is None else str(entry.outside).lower()
    return [
        *paper, f"{100 * entry.ours.value:.2f}", entry.our_rank or "", difference, *numbers, entry.ours.n,
        outside, str(comparable).lower(),
    ]  # fmt: skip


LATEX_HEAD = r"""% Needs: \usepackage[table]{xcolor} \usepackage{booktabs}
\providecolor{outside}{HTML}{F6C9A0}
\providecommand{\cvcell}[1]{\shortstack[c]{#1}}
"""


def latex(grid: Grid, tables: Sequence[Table]) -> str:
    parts = [
        f"% {grid.name}: the paper's number, ours with the difference, the 95 % interval of ours",
        LATEX_HEAD,
    ]
    for table in tables:
        count = len(table.labels)
        spans = [
            (group, len(list(members))) for group, members in groupby(table.heads, key=lambda head: head[0])
        ]
        rules, start = [], count + 1
        for _, width in spans:
            rules.append(rf"\cmidrule(lr){{{start}-{start + width - 1}}}")
            start += width
        groups = "".join(rf" & \multicolumn{{{width}}}{{c}}{{{_escape(group)}}}" for group, width in spans)
        lines = [
            r"\begin{table}", r"\centering\scriptsize\setlength{\tabcolsep}{3pt}",
            rf"\caption{{{_escape(table.title)}}}",
            rf"\begin{{tabular}}{{{'l' * count}{'c' * len(table.columns)}}}", r"\toprule",
            " & " * (count - 1) + groups + r" \\", "".join(rules),
            " & ".join([*map(_escape, table.labels), *(_escape(head) for _, head in table.heads)]) + r" \\",
            r"\midrule",
        ]  # fmt: skip
        for line in table.lines:
            cells = [*map(_escape, line.heads), *map(_latex_cell, line.entries)]
            lines.append(" & ".join(cells) + r" \\[2pt]")
        lines += [r"\bottomrule", r"\end{tabular}"]
        lines += [rf"\par\footnotesize {_escape(note)}" for note in table.notes]
        lines += [
            rf"\par\footnotesize$^{{{n}}}$ {_escape(text)}" for n, text in enumerate(table.footnotes, 1)
        ]
        parts.append("\n".join([*lines, r"\end{table}"]) + "\n")
    return "\n".join(parts)


def _latex_cell(entry: Entry) -> str:
    marks = {0: "{}", BEST: r"\textbf{{{}}}", SECOND: r"\underline{{{}}}"}
    lines = []
    if entry.paper is not None:
        note = rf"$^{{{entry.note}}}$" if entry.note else ""
        lines.append(marks[entry.paper_rank].format(f"{entry.paper.value:.1f}") + note)
    if entry.ours is not None:
        change = "" if entry.difference is None else f" (${_signed(entry.difference).replace('−', '-')}$)"
        lines.append(marks[entry.our_rank].format(f"{entry.value:.1f}") + change)
        lines.append(rf"\tiny {interval(entry).replace('–', '--')}")
    # Braces keep \shortstack's line break from taking the interval for a length.
    stack = r"\cvcell{" + r" \\ ".join(f"{{{line}}}" for line in lines) + "}" if lines else ""
    return (r"\cellcolor{outside}" if entry.outside else "") + stack


_LATEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
          "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": "$-$"}  # fmt: skip


def _escape(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def html(grid: Grid, tables: Sequence[Table], curve: Markup | None) -> str:
    """One page without scripts; whatever comes from data is escaped."""
    environment = Environment(
        loader=PackageLoader("recipes"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters.update({"interval": interval, "signed": _signed})
    spans = {
        table.name: [
            (group, len(list(heads))) for group, heads in groupby(table.heads, key=lambda head: head[0])
        ]
        for table in tables
    }
    places: Mapping[int, str] = {0: "", BEST: "best", SECOND: "second"}
    template = environment.get_template("tables.html.j2")
    return template.render(
        grid=grid, tables=tables, spans=spans, places=places, curve=curve, warning=NOT_COMPARABLE
    )


def interval(entry: Entry) -> str:
    assert entry.ours is not None
    return f"{100 * entry.ours.low:.1f}–{100 * entry.ours.high:.1f}"


def _signed(points: float) -> str:
    return f"{points:+.1f}".replace("-", "−")
