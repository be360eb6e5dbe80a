"""The paper's numbers are whole, and those that contradict each other are the marked ones and no others."""

import csv
from collections import Counter

import pytest

from recipes.tables_notes import paper_sizes
from recipes.tables_published import (
    CURVES,
    FOLDER,
    SUSPECT,
    TITLES,
    Column,
    published_curves,
    published_tables,
)

TABLES = published_tables()
VQA = [("CVUSA", "G2S"), ("CVUSA", "S2G"), ("FOV", "G2S"), ("FOV", "S2G")]
# Category -> its share of the task's questions, percent (CVSBench figure 3).
SHARES = {
    ("CVUSA", "G2S"): {"Footprint": 27, "Connection": 3, "Distance": 28, "Roof": 43},
    ("CVUSA", "S2G"): {"Visibility": 27, "Vegetation": 27, "Height": 19, "Location": 26},
    ("FOV", "G2S"): {"Facade": 50, "Roof": 32, "Symmetry": 18},
    ("FOV", "S2G"): {
        "Occlusion": 10, "Position": 17, "Color": 25, "Material": 22, "Height": 5, "Vegetation Sector": 20,
    },
}  # fmt: skip


def weighted(row: str, tasks: list[tuple[str, str, int]]) -> float:
    numbers = [(TABLES["tab2"].numbers[row, Column(s, t, "all")].value, n) for s, t, n in tasks]
    return sum(value * n for value, n in numbers) / sum(n for _, n in numbers)


def test_the_tables_have_the_papers_shape():
    shapes = {name: (len(t.rows), len(t.columns)) for name, t in TABLES.items()}
    assert shapes == {"tab2": (16, 10), "tab3": (2, 8), "tab4": (5, 8), "tab5": (5, 9), "tab6": (3, 9)}
    for name, table in TABLES.items():
        assert set(table.numbers) == {(row, column) for row in table.rows for column in table.columns}, name
    assert set(TITLES) == set(TABLES)


def test_every_suspect_number_says_why():
    for table in TABLES.values():
        for place, number in table.numbers.items():
            assert number.suspect in SUSPECT
            assert bool(number.suspect) == bool(number.note), place
            assert 0 <= number.value <= 100
    with open(FOLDER / "cvsbench_tables.csv", newline="") as lines:
        places = [tuple(line.values())[:2] + tuple(line.values())[6:9] for line in csv.DictReader(lines)]
    assert Counter(places).most_common(1)[0][1] == 1


def test_overall_columns_are_weighted_means_but_for_the_marked_ones():
    sizes = paper_sizes()
    vqa = [(s, t, sizes[s.lower(), t.lower()]) for s, t in VQA]
    views = [("FOV", "View-Arrow", 2543 // 2), ("FOV", "View-Image", 1636 // 2)]
    boxes = [(s, "Grounding", sizes[s.lower(), "gs_grounding"]) for s in ("CVUSA", "FOV")]
    misprints = set()
    for row in TABLES["tab2"].rows:
        for kind, tasks, off in (("Acc", [*vqa, *views], 0.5), ("mIoU", boxes, 0.15)):
            number = TABLES["tab2"].numbers[row, Column("Overall", "Overall", kind)]
            if abs(number.value - weighted(row, tasks)) > off:
                misprints.add((row, kind))
    assert misprints == {("ViLaSR-7B", "Acc"), ("ViLaSR-7B", "mIoU"), ("human", "mIoU")}
    marked = {
        (row, column.name) for (row, column), n in TABLES["tab2"].numbers.items() if n.suspect == "misprint"
    }
    assert marked == {
        ("ViLaSR-7B", "CVUSA/S2G/all"), ("ViLaSR-7B", "Overall/Overall/mIoU"),
        ("human", "Overall/Overall/mIoU"),
    }  # fmt: skip


@pytest.mark.parametrize("task", VQA, ids="/".join)
def test_the_base_rows_categories_give_table_3s_task(task):
    name = "tab4" if task[0] == "CVUSA" else "tab5"
    shares = SHARES[task]
    found = sum(TABLES[name].numbers["base", Column(*task, c)].value * n for c, n in shares.items())
    expected = TABLES["tab3"].numbers["none", Column(*task, "all")].value
    assert found / sum(shares.values()) == pytest.approx(expected, abs=0.6)


def test_the_curves():
    curves = published_curves()
    assert set(curves) == set(CURVES)
    for points in curves.values():
        assert points[0][0] == 1
        assert all(0 < reward < 1 for _, reward in points)
        assert len(points) >= 65
