"""MonoSR's tables: which rows a column takes, the plain mean, distances, and the sums of the paper itself."""

import pytest

from data_prep.monosr.filter import Thresholds, observe
from data_prep.monosr.generate import questions_of
from data_prep.monosr.options import Options
from data_prep.monosr.scene import SOURCES
from data_prep.monosr.synthetic.world import scenes
from recipes.scores import predict
from recipes.tables_known import TITLES, known_tables
from recipes.tables_model import measured
from recipes.tables_monosr import MonoColumn, monosr_tables

TABLES = monosr_tables()
ROUNDING = 0.1  # points; every number is printed to 0.1


def answer(task="sr", form="mc4", level="low", right=1.0, domain="indoor", group="Hypersim/1", **more):
    return {
        "subset": domain, "task": task, "category": form, "level": level, "group": group, "accuracy": right,
        "accuracy_official": None, "parsed": "1", "answer": 1.0, **more,
    }  # fmt: skip


def test_every_table_has_a_title():
    assert set(TITLES) == set(known_tables())
    assert set(TABLES) < set(TITLES)


def test_an_overall_number_is_the_mean_of_its_row_unless_it_is_marked():
    checked = marked = 0
    for name, table in TABLES.items():
        for column in table.columns:
            if not column.parts:
                continue
            for row in table.rows:
                parts = [table.numbers[row, part].value for part in column.parts]
                printed = table.numbers[row, column]
                off = abs(printed.value - sum(parts) / len(parts)) > ROUNDING
                assert off == (printed.suspect == "misprint"), (name, row)
                checked, marked = checked + 1, marked + off
    assert (checked, marked) == (72, 23)


@pytest.mark.parametrize(("domain", "columns"), [("indoor", 20), ("outdoor", 12), ("object_centric", 4)])
def test_both_kinds_of_tables_have_the_same_columns(domain, columns):
    names = [[c.name for c in TABLES[f"monosr_{kind}_{domain}"].columns] for kind in ("aux", "baselines")]
    assert names[0] == names[1]
    assert len(names[0]) == columns + 1


@pytest.mark.parametrize(
    ("column", "record", "expected"),
    [
        (MonoColumn("indoor", "sr", "mc4", "low"), answer(), True),
        (MonoColumn("indoor", "sr", "mc4", "high"), answer(), False),
        (MonoColumn("indoor", "sr", "mc4", "high"), answer("situational", level="high", base="sr"), True),
        (MonoColumn("indoor", "pr", "mc4", "high"), answer("situational", level="high", base="sr"), False),
        (MonoColumn("outdoor", "sr", "mc4", "low"), answer(), False),
        (MonoColumn("indoor", "sr", "yes_no", "low"), answer(), False),
        (MonoColumn("indoor", "dim", "mc4", "low"), answer(), False),
        (MonoColumn("all", "long_tail", "", "mid"), answer(level="mid", long_tail=True), True),
        (MonoColumn("all", "long_tail", "", "mid"), answer(level="mid", long_tail=False), False),
        (MonoColumn("all", "long_tail", "", "low"), answer(level="mid", long_tail=True), False),
        (MonoColumn("all", "safety", "", "high"), answer(level="high", scenario="safety"), True),
        (MonoColumn("all", "planning", "", "high"), answer(level="high", scenario="safety"), False),
        (MonoColumn("all", "average", "", "high"), answer(level="high", scenario="safety"), True),
        (MonoColumn("all", "average", "", "high"), answer(level="low"), False),
    ],
)  # fmt: skip
def test_which_rows_a_column_takes(column, record, expected):
    assert column.takes(record) is expected


def test_every_question_that_is_made_has_its_column():
    """Those of drawn scenes of every source, answered and scored as evaluation does it."""
    met = set()
    for source, domain in SOURCES.items():
        columns = TABLES[f"monosr_aux_{domain}"].columns
        for scene in scenes(source, 3, range(40), 320, "test"):
            for judged in observe([scene], Thresholds()):
                rows = [] if judged.scene is None else questions_of(judged.scene, Options(), 0, judged.full)
                for row in rows:
                    record = predict(row, "", 1, False, "answer_only", {})
                    taken = [c.name for c in columns if not c.parts and c.takes(record)]
                    assert len(taken) == 1, row
                    met |= set(taken)
    everything = {c.name for name, table in TABLES.items() if "_aux_" in name for c in table.columns}
    assert everything - met == {f"{domain}/overall" for domain in SOURCES.values()}


@pytest.mark.parametrize(
    ("parsed", "tolerance", "expected"),
    [("1.04", 0.05, 1), ("1.08", 0.05, 0), ("1.08", 0.1, 1), ("1.2", 0.1, 0), ("", 0.1, 0)],
)
def test_distances_are_read_again_by_the_columns_own_tolerance(parsed, tolerance, expected):
    column = MonoColumn("indoor", "dist", "numeric", "low", tolerance)
    record = answer("dist", "numeric", right=1.0, parsed=parsed)
    assert measured([record], column, "strict").value == expected
    assert measured([record], column, "official") is None  # the toolkit knows no numbers


def test_the_overall_counts_every_column_alike():
    parts = (MonoColumn("indoor", "sr", "mc4", "low"), MonoColumn("indoor", "dim", "yes_no", "low"))
    overall = MonoColumn("indoor", "overall", parts=parts)
    many = [answer(right=1.0, group=f"Hypersim/{number % 7}") for number in range(90)]
    few = [answer("dim", "yes_no", right=0.0, group=f"Hypersim/{number}") for number in range(5)]
    other = [answer(domain="outdoor", right=0.0)]
    found = measured([*many, *few, *other], overall, "strict")
    assert found.value == 0.5
    assert found.n == 95
    assert found.low <= 0.5 <= found.high
    assert measured(many, overall, "strict") is None  # a column without a question


def test_the_interval_of_an_overall_number_widens_with_what_scenes_differ_in():
    parts = (MonoColumn("indoor", "sr", "mc4", "low"), MonoColumn("indoor", "dim", "yes_no", "low"))
    overall = MonoColumn("indoor", "overall", parts=parts)

    def width(scenes_differ):
        records = []
        for number in range(200):
            scene = number // 4
            right = float(scene % 2 if scenes_differ else number % 2)
            records += [
                answer(right=right, group=f"Hypersim/{scene}"),
                answer("dim", "yes_no", right=right, group=f"Hypersim/{scene}"),
            ]
        found = measured(records, overall, "strict")
        assert found.value == 0.5
        return found.high - found.low

    assert width(True) > 0.1 > 0.01 > width(False)
