"""A grid's tables: our number is the mean over a column's questions; what was not measured stays empty."""

import csv
import io
import json
import re
import xml.dom.minidom
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import pytest
from evaluation_runs import finish_eval, make_eval, make_prep, tiny_config

from data_prep.atomic import read_jsonl, write_jsonl
from recipes.grid import Cell, Grid, Planned
from recipes.grid_scores import Score, score_of
from recipes.stages import plan
from recipes.tables import build, write_tables
from recipes.tables_curve import chart
from recipes.tables_letters import letter_distance
from recipes.tables_model import BEST, SECOND, Entry, Evaluation, Line, Table, measured, rank
from recipes.tables_notes import NOT_COMPARABLE, comparability, paper_sizes
from recipes.tables_published import Column, Number, published_tables
from recipes.tables_text import LEGEND, comma_separated, latex, markdown


def answered(subset: str, task: str, category: str, right: list[float], start: int = 0, **more) -> list[dict]:
    return [
        {
            "id": f"{subset}/{task}/{category}/{start + n}", "group": f"{subset}/{start + n}",
            "subset": subset, "task": task, "category": category, "answer": "A",
            "parsed": "A" if value else "B", "accuracy": value, **more,
        }
        for n, value in enumerate(right)
    ]  # fmt: skip


class Page(HTMLParser):
    """Elements that are open, and must be closed in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """`<path/>` opens nothing."""

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


class Standing(Evaluation):
    """An evaluation whose answers and configurations are given, not read."""

    def __init__(self, name, predictions, rows, scale="paper", synthetic=None):
        super().__init__(name, Path("nowhere"), scale, rows)
        config = tiny_config().copy()
        config.data.synthetic = synthetic
        prep = type("Prep", (), {"config": config})()
        self.__dict__.update(predictions=predictions, config=config, prep=prep)


CATEGORIES = {
    ("cvusa", "g2s"): ("building_footprint_area", "building_connection", "distance_to_camera", "roof_form"),
    ("cvusa", "s2g"): ("height", "location", "vegetation", "visibility"),
    ("fov", "g2s"): ("facade", "roof", "symmetry"),
    ("fov", "s2g"): (
        "facade_color", "ground_material", "height_comparison", "occlusion_binary", "relative_position",
        "vegetation_sector",
    ),
}  # fmt: skip
ROWS = [
    *answered("cvusa", "g2s", "building_footprint_area", [1, 1, 1, 0]),
    *answered("cvusa", "g2s", "roof_form", [0, 0], start=4),
    *answered("cvusa", "s2g", "height", [1, 0], start=6),
    *answered("fov", "g2s", "roof", [1, 1, 0]),
]
BOXES = [
    *answered("fov", "gs_grounding", "level3", [0.2, 0.4]),
    *answered("fov", "gs_grounding", "level4", [0.9], start=2),
    *answered("fov", "gs_grounding", "level5", [1.0], start=3),
]


@pytest.mark.parametrize(
    ("column", "value", "n"),
    [
        (("CVUSA", "G2S", "Footprint"), 3 / 4, 4),
        (("CVUSA", "G2S", "Roof"), 0.0, 2),
        (("FOV", "G2S", "Roof"), 2 / 3, 3),
        (("CVUSA", "G2S", "all"), 3 / 6, 6),  # over questions, not over the two categories
        (("Overall", "Overall", "Acc"), 6 / 11, 11),
        (("FOV", "Grounding", "all"), 0.5, 3),
        (("Overall", "Overall", "mIoU"), 0.5, 3),
    ],
)
def test_a_column_is_the_mean_over_its_questions(column, value, n):
    found = measured([*ROWS, *BOXES], Column(*column), "strict")
    assert (found.value, found.n) == (pytest.approx(value), n)
    assert found.low <= found.value <= found.high


def test_every_published_column_finds_its_questions():
    """Each column takes the rows of its own category and of no other column's."""
    for name in ("tab4", "tab5"):
        columns = published_tables()[name].columns
        made = [
            row
            for place, names in CATEGORIES.items()
            for name in names
            for row in answered(*place, name, [1])
        ]
        assert [sum(column.takes(row) for row in made) for column in columns] == [1] * len(columns)


def test_a_reading_that_was_not_taken_leaves_the_cell_empty_and_says_so():
    column = Column("CVUSA", "G2S", "Roof")
    assert measured(ROWS, column, "official") is None
    official = answered("cvusa", "g2s", "roof_form", [0, 0], accuracy_official=1.0)
    assert measured(official, column, "official").value == 1.0
    table = build("tab4", [Standing("base", ROWS, {"tab4": "base"})], "official")
    assert all(entry.ours is None for line in table.lines for entry in line.entries)
    assert any("not scored in the official way" in note for note in table.notes)
    assert not any("no questions of G2S Roof" in note for note in table.notes)
    assert score_of({"n": 2, "accuracy": 0.5, "low": 0.1, "high": 0.9}, "strict") == Score(0.5, 0.1, 0.9, 2)
    assert score_of({"n": 2, "accuracy": 0.5, "low": 0.1, "high": 0.9}, "official") is None


def test_a_box_read_by_a_threshold_has_no_iou():
    column = Column("FOV", "Grounding", "all")
    assert measured(BOXES, column, "strict", 0.5) is None
    assert measured([{**p, "iou": 0.25} for p in BOXES], column, "strict", 0.5).value == 0.25


def test_a_table_has_all_rows_of_the_paper_and_ours_where_it_is():
    table = build("tab4", [Standing("base", ROWS, {"tab4": "base"})], "strict")
    assert [line.name for line in table.lines] == list(published_tables()["tab4"].rows)
    base, *others = table.lines
    assert all(entry.ours is None for line in others for entry in line.entries)
    filled = {name for name, entry in zip(table.columns, base.entries, strict=True) if entry.ours}
    assert filled == {"CVUSA/G2S/Footprint", "CVUSA/G2S/Roof", "CVUSA/S2G/Height"}
    footprint = base.entries[table.columns.index("CVUSA/G2S/Footprint")]
    assert footprint.difference == pytest.approx(75.0 - footprint.paper.value)
    assert any(note.startswith("base: no questions of") and "Location" in note for note in table.notes)


def test_outside_means_outside_our_interval():
    paper = Number(50.0)
    assert not Entry(paper, Score(0.55, 0.45, 0.65, 9)).outside
    assert Entry(paper, Score(0.55, 0.51, 0.65, 9)).outside
    assert Entry(paper, Score(0.4, 0.3, 0.49, 9)).outside
    assert not Entry(paper).outside
    assert not Entry(None, Score(0.4, 0.3, 0.49, 9)).outside


def one_column(*entries: tuple[str, Entry]) -> Table:
    lines = [Line(name, (name,), [entry]) for name, entry in entries]
    return Table("t", "t", ("Model",), [("All", "Acc")], ["acc"], lines, "strict")


def test_the_best_two_of_each_kind_are_marked_without_people_and_misprints():
    ours = [Score(value, 0.0, 1.0, 9) for value in (0.5, 0.5004, 0.4)]
    table = one_column(
        ("human", Entry(Number(90.0))),
        ("a", Entry(Number(85.2, "misprint", "swapped"))),
        ("b", Entry(Number(60.0), ours[0])),
        ("c", Entry(Number(60.0), ours[1])),
        ("d", Entry(Number(40.0, "disagrees", "other"), ours[2])),
        ("e", Entry(Number(30.0))),
    )
    rank(table)
    entries = [line.entries[0] for line in table.lines]
    assert [e.paper_rank for e in entries] == [0, 0, BEST, BEST, SECOND, 0]
    assert [e.our_rank for e in entries] == [0, 0, BEST, BEST, SECOND, 0]  # equal as they are shown


def test_misprints_are_footnoted():
    table = build("tab2", [], "strict")
    line = next(line for line in table.lines if line.name == "ViLaSR-7B")
    notes = {
        c: table.footnotes[e.note - 1] for c, e in zip(table.columns, line.entries, strict=True) if e.note
    }
    assert set(notes) == {"CVUSA/S2G/all", "Overall/Overall/mIoU"}
    assert all(text.startswith("Probably misprinted.") for text in notes.values())


def test_what_cannot_be_compared_is_said_first():
    tiny = Standing("base", ROWS, {"tab4": "base"}, scale="tiny", synthetic={"seed": 7})
    notes = build("tab4", [tiny], "strict").notes
    assert [note.startswith(NOT_COMPARABLE) for note in notes[:2]] == [True, True]
    assert "scale=tiny" in notes[0]
    assert "synthetic" in notes[1]


def test_another_number_of_questions_than_the_papers_is_told():
    published = published_tables()["tab4"]
    rows = {key: n for key, n in paper_sizes().items() if key[0] == "cvusa" and key[1] in ("g2s", "s2g")}
    whole = [
        row for (subset, task), n in rows.items() for row in answered(subset, task, "roof_form", [1] * n)
    ]
    assert comparability([Standing("all", whole, {})], published) == []
    (note,) = comparability([Standing("part", whole[: len(whole) - 400], {})], published)
    assert "another release, or a part of it (part)" in note


def test_table_6_compares_its_variants_on_common_questions():
    without = Standing("none", answered("fov", "g2s", "roof", [1, 1, 0, 0]), {"tab6": "none"})
    depth = Standing("depth", answered("fov", "g2s", "roof", [1, 1]), {"tab6": "depth"})
    table = build("tab6", [without, depth], "strict")
    place = table.columns.index("FOV/G2S/Roof")
    found = {line.name: line.entries[place].ours for line in table.lines if line.entries[place].ours}
    assert {name: (score.value, score.n) for name, score in found.items()} == {
        "none": (1.0, 2),
        "depth": (1.0, 2),
    }
    assert any(note.startswith("2 questions") for note in table.notes)


def test_the_letters_table_tells_a_model_that_prefers_a_letter():
    def choices(given: str, right: str) -> list[dict]:
        return [
            {"id": str(n), "group": f"fov/{n}", "subset": "fov", "task": "g2s", "category": "roof",
             "answer": a, "parsed": g, "accuracy": float(a == g)}
            for n, (g, a) in enumerate(zip(given, right, strict=True))
        ]  # fmt: skip

    fair, fond = choices("ABAB" * 5, "BABA" * 5), choices("AAAA" * 5, "ABAB" * 5)
    assert letter_distance(fair).value == 0.0
    found = letter_distance(fond)
    assert found.value == pytest.approx(0.5)
    assert found.low < 0.5 < found.high
    assert letter_distance([{**p, "parsed": ""} for p in fair]) is None
    rows = [Standing("one", fair, {"letters": "SFT"}), Standing("two", fond, {"letters": "SFT+RL"})]
    table = build("letters", rows, "strict")
    assert [line.name for line in table.lines] == ["SFT", "SFT+RL"]
    first, second = (line.entries for line in table.lines)
    assert (second[0].ours.value, second[0].our_rank) == (0.5, BEST)
    assert first[1].ours.value == 0.0
    assert table.heads[:2] == [("All", "Accuracy"), ("All", "Letter distance")]


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """The files of a grid with a base and an SFT+RL cell, at the tiny scale."""
    folder = tmp_path_factory.mktemp("grid")
    prep = make_prep(folder / "prep", 30)
    work = []
    for name, stage, skill in (("base", "base", 0.4), ("imagination_grpo", "grpo", 0.9)):
        config = tiny_config(f"eval.checkpoint={stage}", f"runs_dir={folder}")
        run = finish_eval(make_eval(plan(config, "eval").path, prep, stage), skill)
        rows = {"tab4": name, "tab5": name}
        curve = "imagination_cot" if stage == "grpo" else None
        planned = plan(config, "eval")
        assert planned.path == run.path
        work.append(Planned(Cell(name, "imagination_cot", stage, (), rows, curve), config, planned))
    grpo = work[1].stage.inputs["grpo"]
    write_jsonl(grpo.path / "metrics.jsonl", ({"step": s, "reward": 0.5 + s / 100} for s in range(1, 20)))
    grid = Grid("cvsbench_cot", "a test", "tables 4 and 5", ("tab4", "tab5"), tuple(p.cell for p in work))
    paths = write_tables(grid, work, folder / "tables", "strict")
    assert [path.name for path in paths] == [
        "tables.md", "tables.csv", "tables.tex", "tables.html", "reward_curve.svg",
    ]  # fmt: skip
    return folder


def test_the_csv_has_the_numbers_of_scores_json(written):
    lines = list(csv.DictReader(io.StringIO((written / "tables" / "tables.csv").read_text())))
    assert len(lines) == 5 * 8 + 5 * 9
    mine = [line for line in lines if line["ours"]]
    asked = ("CVUSA/S2G/Location", "FOV/G2S/Facade")
    filled = {(line["cell"], line["column"]) for line in mine}
    assert filled == set(product(("base", "imagination_grpo"), asked))
    assert {line["comparable"] for line in mine} == {"false"}
    [facade] = [line for line in mine if (line["cell"], line["table"]) == ("base", "tab5")]
    run = next(written.glob("*/eval-base-*"))
    rows = [p["accuracy"] for p in read_jsonl(run / "predictions.jsonl") if p["category"] == "facade"]
    assert float(facade["ours"]) == pytest.approx(100 * sum(rows) / len(rows), abs=0.005)
    assert float(facade["difference"]) == pytest.approx(
        float(facade["ours"]) - float(facade["paper"]), abs=0.006
    )
    cells = json.loads((run / "scores.json").read_text())["cells"]
    [cell] = [cell for cell in cells if cell["category"] == "facade"]
    assert (float(facade["low"]), float(facade["high"])) == pytest.approx(
        (100 * cell["low"], 100 * cell["high"]), abs=0.006
    )


def test_the_markdown_has_the_papers_heads_and_warns(written):
    text = (written / "tables" / "tables.md").read_text()
    heads = [line for line in text.splitlines() if line.startswith("| Model |")]
    assert "G2S Footprint | G2S Connection | G2S Distance | G2S Roof | S2G Height" in heads[0]
    assert (
        "S2G Color | S2G Material | S2G Height | S2G Occlusion | S2G Position | S2G Vegetation Sector"
        in heads[1]
    )
    assert text.count(f"> **{NOT_COMPARABLE}") == 4
    widths = {line.count("|") for line in text.splitlines() if line.startswith("| Qwen3-VL-4B")}
    assert widths == {8 + 4, 9 + 4}
    assert LEGEND in text


def test_the_latex_is_balanced_and_escaped(written):
    text = (written / "tables" / "tables.tex").read_text()
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    assert text.count("{") == text.count("}")
    assert not re.search(r"(?<!\\)[%](?! )", text.split("\n", 3)[3].replace("% Needs", ""))
    body = [line for line in text.splitlines() if line.startswith("Qwen3-VL-4B")]
    plain = [re.sub(r"\\shortstack|\\cvcell", "", line) for line in body]
    assert {line.count("&") for line in plain} == {3 + 8 - 1, 3 + 9 - 1}
    assert r"\cellcolor{outside}" in text


def test_the_page_is_whole_and_coloured(written):
    text = (written / "tables" / "tables.html").read_text()
    page = Page()
    page.feed(text)
    assert page.open == []
    assert '<td class="outside"' in text
    assert '<b class="best">' in text
    assert '<p class="warning">' in text
    assert "<script" not in text
    assert text.count("<svg") == 1


def test_the_curve_shows_both(written):
    svg = xml.dom.minidom.parse(str(written / "tables" / "reward_curve.svg"))
    words = [node.firstChild.data for node in svg.getElementsByTagName("text")]
    assert "paper, Spatial Imagination" in words
    assert "ours, imagination grpo" in words
    broken = [p for p in svg.getElementsByTagName("path") if p.getAttribute("stroke-dasharray") == "6 4"]
    assert len(broken) == 2  # the curve and its key


def test_a_curve_without_steps_of_ours_is_the_papers_alone():
    points = [(1, 0.5), (2, 0.6)]
    text = chart({"imagination_cot": points}, {"grpo": ("imagination_cot", [])})
    assert "ours" not in text.split("aria-label")[1].split(">", 1)[1]


def test_what_a_cell_says_cannot_break_a_text():
    table = one_column(("a", Entry(Number(1.0, "doubtful", "x"))))
    table.title, table.notes, table.lines[0].heads = "50 % & more_", ["{note} #1"], ("a_b <i>",)
    grid = Grid("g", "w", "p", (), ())
    assert r"50 \% \& more\_" in latex(grid, [table])
    assert r"\{note\} \#1" in latex(grid, [table])
    assert "a_b <i>" in markdown(grid, [table], False)
    [line] = list(csv.DictReader(io.StringIO(comma_separated([table]))))
    assert (line["ours"], line["paper"], line["suspect"]) == ("", "1.0", "doubtful")
