import base64
import io
import math

import pytest
from PIL import Image

from recipes.report_charts import Mark, Strip, answers_chart, interval_chart, line_chart, running_mean, ticks
from recipes.report_samples import KINDS, choose, embed
from recipes.report_words import blank_verdict, change, learned, unread
from recipes.statistics import Difference


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.5, 1]),
        (0, 60, [0, 20, 40, 60]),
        (0.72, 0.91, [0.7, 0.75, 0.8, 0.85, 0.9, 0.95]),
        (-0.3, 0.3, [-0.4, -0.2, 0, 0.2, 0.4]),
        (0, 3e-5, [0, 1e-5, 2e-5, 3e-5]),
        (5, 5, [5]),
    ],
)
def test_ticks_are_round_and_enclose_the_values(low, high, expected):
    assert ticks(low, high, 4) == pytest.approx(expected)


def test_running_mean_smooths_and_keeps_a_line():
    assert running_mean([2.0] * 50) == [2.0] * 50
    assert running_mean([0, 3, 0]) == [1.5, 1.0, 1.5]
    saw = [float(i % 2) for i in range(200)]
    assert max(abs(value - 0.5) for value in running_mean(saw)[20:-20]) < 0.05


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([], "No values of kl were recorded."),
        ([(1, math.nan), (2, math.inf)], "No values of kl were recorded."),
        ([(5, 0.25)], "kl over 1 steps, from 0.25 to 0.25"),
        ([(1, 2.0), (2, 2.0), (3, 2.0)], "kl over 3 steps, from 2 to 2"),
        ([(1, 0.0), (2, math.nan), (3, 1.0)], "kl over 2 steps"),
    ],
)
def test_line_chart_of_few_or_odd_values(points, expected):
    chart = line_chart("kl", points)
    assert expected in chart
    assert "nan" not in chart
    assert "inf" not in chart


def test_line_chart_stays_inside_its_frame():
    chart = line_chart("loss", [(i, 10.0 * math.exp(-i / 20)) for i in range(100)], width=300)
    numbers = [float(n) for pair in chart.split('d="M')[1].split('"')[0].split("L") for n in pair.split()]
    assert len(numbers) == 200
    assert 0 <= min(numbers[::2]) <= max(numbers[::2]) <= 300
    assert 0 <= min(numbers[1::2]) <= max(numbers[1::2]) <= 170


def test_charts_escape_names():
    strip = Strip("<b>", 1, 0.25, 0.5, [Mark("base", "<i>", 0.5, 0.2, 0.8)])
    for chart in (
        line_chart("<s>", [(1, 1.0)]),
        line_chart("<s>", []),
        interval_chart([strip]),
        answers_chart({"<a>": {"gold": 0.5}}, {"gold": "<q>"}),
    ):
        assert not {"<b>", "<i>", "<s>", "<a>", "<q>"} & {chart[i : i + 3] for i in range(len(chart))}
        assert "&lt;" in chart


def predictions(pattern):
    return {f"row{i:02d}": {"correct": mark == "1"} for i, mark in enumerate(pattern)}


@pytest.mark.parametrize(
    ("before", "last", "expected"),
    [
        ("0" * 20 + "1" * 20, "01" * 20, {"fixed": 3, "right": 3, "wrong": 3, "broken": 3}),
        ("1" * 40, "1" * 40, {"right": 12}),
        ("0" * 2 + "1" * 30, "1" * 32, {"fixed": 2, "right": 10}),
        ("01", "10", {"fixed": 1, "broken": 1}),
    ],
)
def test_samples_are_mixed(before, last, expected):
    chosen = choose([predictions("0" * len(last)), predictions(before), predictions(last)])
    kinds = [kind for _, kind in chosen]
    assert {kind: kinds.count(kind) for kind in KINDS if kind in kinds} == expected
    assert len({name for name, _ in chosen}) == len(chosen)
    assert kinds == sorted(kinds, key=list(KINDS).index)


def test_samples_are_drawn_by_the_seed_alone():
    stages = [predictions("01" * 40), predictions("0011" * 20)]
    assert choose(stages, seed=1) == choose(stages, seed=1) != choose(stages, seed=2)


def test_one_stage_has_samples_too():
    assert {kind for _, kind in choose([predictions("01" * 10)])} == {"right", "wrong"}


@pytest.mark.parametrize(
    ("size", "kind", "expected"), [((96, 64), "PNG", (96, 64)), ((1232, 224), "JPEG", (360, 65))]
)
def test_pictures_are_embedded_small(tmp_path, size, kind, expected):
    Image.new("RGB", size, (10, 200, 30)).save(tmp_path / "a.png")
    head, content = embed(tmp_path / "a.png").split(",")
    picture = Image.open(io.BytesIO(base64.b64decode(content)))
    assert head == f"data:image/{kind.lower()};base64"
    assert (picture.format, picture.size) == (kind, expected)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            Difference(0.083, 0.051, 0.114, 0.0005),
            "is 8.3 points above SFT (95 % interval +5.1 to +11.4, p < 0.001)",
        ),
        (
            Difference(-0.05, -0.09, -0.01, 0.02),
            "is 5.0 points below SFT (95 % interval −9.0 to −1.0, p = 0.020)",
        ),
        (Difference(0.2, 0.04, 0.36, 0.125), "cannot be told from SFT: +20.0 points"),  # five groups
        (Difference(0.01, -0.02, 0.04, 0.5), "cannot be told from SFT: +1.0 points"),
    ],
)
def test_a_difference_is_claimed_only_where_interval_and_test_agree(found, expected):
    assert expected in change("SFT+RL", "SFT", found)


def cell(accuracy, low, high, majority=0.4, category="roof_form"):
    names = {"subset": "fov", "task": "s2g", "category": category}
    return {**names, "accuracy": accuracy, "low": low, "high": high, "chance": 0.25, "majority": majority}


def test_learned_means_the_whole_interval_above_the_blind_answer():
    cells = [
        cell(0.6, 0.5, 0.7),
        cell(0.45, 0.35, 0.55),
        cell(0.3, 0.2, 0.39),
        cell(0.3, 0.26, 0.39, majority=0.2),
    ]
    found = learned(cells, None)
    assert {kind: len(lines) for kind, lines in found.items()} == {
        "learned": 2,
        "text": 0,
        "unclear": 1,
        "below": 1,
    }
    assert found["learned"][0] == "FOV, S2G: roof form — 60.0\u00a0% (50.0–70.0; without looking 40.0\u00a0%)"


def test_learned_without_pictures_is_told_apart():
    same, better = Difference(0.0, -0.1, 0.1, 1.0), Difference(0.5, 0.3, 0.6, 0.001)
    found = learned([cell(0.9, 0.8, 1.0, category=name) for name in ("facade", "location")], [same, better])
    assert found["text"][0].startswith("FOV, S2G: facade")
    assert found["learned"][0].startswith("FOV, S2G: location")


@pytest.mark.parametrize(
    ("share", "said"), [(0.0, None), (0.09, None), (1.0, "100.0\u00a0% of the answers of base")]
)
def test_unreadable_answers_are_said(share, said):
    sentence = unread("base", {"unparsed": share})
    assert sentence is None if said is None else sentence.startswith(said)


@pytest.mark.parametrize(
    ("blank", "expected"),
    [
        (cell(0.38, 0.33, 0.42), "what it knows, it sees"),
        (cell(0.55, 0.5, 0.6), "the words of the questions give something away"),
        (cell(0.42, 0.3, 0.85), "do not show that the pictures are used"),
    ],
)
def test_blank_pictures_are_judged_by_the_blind_answer(blank, expected):
    assert expected in blank_verdict(cell(0.9, 0.8, 0.95), blank)
