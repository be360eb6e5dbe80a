"""The toolkit's rules as tables; every expected value is worked out by hand from the rule beside it."""

import pytest

from recipes.official import (
    BoxScore,
    box_metrics,
    letter_metrics,
    read_box,
    read_letter,
    retry_sentence,
    score_box,
    shrink_factor,
)

PANORAMA, SATELLITE = (1232, 224), (512, 512)  # the toolkit sends the first one 512 wide


@pytest.mark.parametrize(
    ("reply", "letter", "rule", "article"),
    [
        # single letters
        ("B", "B", "free", False),
        ("d.", "D", "free", False),
        ("(c)", "C", "free", False),
        ("<answer> D </answer>", "D", "free", False),  # ">" is neither space nor colon: no cue
        ("E", None, "", False),
        ("", None, "", False),
        # prose
        ("Answer: C", "C", "cue", False),
        ("answer C", "C", "cue", False),
        ("The answer is C", "C", "free", False),  # "is" stands between, so no cue
        ("ANSB", "B", "cue", False),
        ("I choose option d, not B.", "D", "cue", False),
        ("Choice: A or B", "A", "cue", False),
        ("Not C; the output: B", "B", "cue", False),  # a cue goes before a free letter
        ("Answer because it is D", "D", "free", False),  # B touches a letter
        ("A1 or B2, plan C", "C", "free", False),  # A and B touch digits
        ("vitamin-b", "B", "free", False),
        ("Building A is taller", "A", "free", False),
        # reasoning: the article is the first free letter
        ("Step 1: A single house. <answer>B</answer>", "A", "free", True),
        ("There is a tree, so <answer> C </answer>", "A", "free", True),
        ("It means a lot. <answer> C </answer>", "A", "cue", True),  # no boundary to the left of "ans"
        ("ß: a tree <answer> C </answer>", "A", "free", True),  # upper-casing makes "ß" two letters
        ("One house. <answer> C </answer>", "C", "free", False),
        ("Both views show grass. Answer: D", "D", "cue", False),
    ],
)
def test_letters(reply, letter, rule, article):
    assert read_letter(reply) == (letter, rule, article)


@pytest.mark.parametrize(
    ("reply", "size", "box", "rule", "unit"),
    [
        # pixels of a picture that is small enough to be sent as it is
        ("[175, 301, 189, 357]", SATELLITE, (175, 301, 189, 357), "list", "pixel"),
        ('It is at ["175", "301", "189", "357"].', SATELLITE, (175, 301, 189, 357), "list", "pixel"),
        ("[1, 2] then [10, 20, 30, 40]", SATELLITE, (10, 20, 30, 40), "list", "pixel"),
        ("from 10 and 20 to 30 and 40", SATELLITE, (10, 20, 30, 40), "numbers", "pixel"),
        ("[10, 20, 30, 40, 50]", SATELLITE, (10, 20, 30, 40), "numbers", "pixel"),
        ("<answer> [10.5, 20, 30, 40] </answer>", SATELLITE, (10.5, 20, 30, 40), "list", "pixel"),
        # off the picture: nothing is clipped
        ("[-20, 10, 600, 40]", SATELLITE, (-20, 10, 600, 40), "list", "pixel"),
        # reversed corners
        ("[189, 357, 175, 301]", SATELLITE, (175, 301, 189, 357), "list", "pixel"),
        ("[189, 301, 175, 357]", SATELLITE, (175, 301, 189, 357), "list", "pixel"),
        # shares: times width and height of the original picture, whatever was sent
        ("[0.25, 0.5, 0.5, 1.0]", SATELLITE, (128, 256, 256, 512), "list", "share"),
        ("[0.25, 0.5, 0.5, 1.5]", PANORAMA, (308, 112, 616, 336), "list", "share"),
        ("[0.5, 1, 0.25, 0.5]", PANORAMA, (308, 112, 616, 224), "list", "share"),
        ("[0.25, 0.5, 0.5, 1.6]", SATELLITE, (0.25, 0.5, 0.5, 1.6), "list", "pixel"),  # above 1.5
        # a shrunk picture: divided by 512 / 1232
        ("[128, 0, 256, 64]", PANORAMA, (308, 0, 616, 154), "list", "shrunk"),
        ("[256, 64, 128, 0]", PANORAMA, (308, 0, 616, 154), "list", "shrunk"),
        # misread: the first four numbers begin with the 2 of the key, and a range ends in a minus
        ('[{"bbox_2d": [10, 20, 30, 40]}]', SATELLITE, (2, 10, 20, 30), "numbers", "pixel"),
        ("x 120-180, y 20-40", SATELLITE, (20, -180, 120, -40), "numbers", "pixel"),  # 120, -180, 20, -40
        # no size: as written
        ("[0.25, 0.5, 0.5, 1.0]", None, (0.25, 0.5, 0.5, 1.0), "list", "pixel"),
    ],
)
def test_boxes(reply, size, box, rule, unit):
    found = read_box(reply, size)
    assert found.box == pytest.approx(box)
    assert (found.rule, found.unit) == (rule, unit)
    assert retry_sentence(reply, "box") is None


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I cannot see it",
        "[null, null, null, null]",
        "[1, 2, 3]",
        "null",
        "[" * 50_000 + "]",
        "[true, true]",
    ],
)
def test_no_box_is_asked_for_again(reply):
    assert read_box(reply, SATELLITE) == (None, "", "")
    assert "[x_min, y_min, x_max, y_max]" in retry_sentence(reply, "box")
    assert retry_sentence(reply, "choice") is None


@pytest.mark.parametrize("reply", ["[1e999, 2, 3, 4]", f"[{'9' * 400}, 2, 3, 4]", "[NaN, 2, 3, 4]"])
def test_numbers_that_are_none_have_no_overlap(reply):
    assert score_box(read_box(reply, SATELLITE).box, (0, 0, 10, 10)).iou == 0.0


@pytest.mark.parametrize(
    ("size", "most", "factor"),
    [((512, 512), 512, 1.0), ((370, 370), 512, 1.0), ((1024, 512), 512, 0.5), ((512, 2048), 512, 0.25),
     ((1024, 512), 0, 1.0)],
)  # fmt: skip
def test_only_a_longer_side_above_the_limit_is_shrunk(size, most, factor):
    assert shrink_factor(size, most) == factor


@pytest.mark.parametrize(
    ("box", "gold", "expected"),
    [
        ((0, 0, 10, 10), (0, 0, 10, 10), (1.0, True, True)),
        ((0, 0, 10, 5), (0, 0, 10, 10), (0.5, True, True)),
        ((5, 5, 15, 15), (0, 0, 10, 10), (25 / 175, True, True)),  # its centre is the gold's corner
        ((6, 6, 16, 16), (0, 0, 10, 10), (16 / 184, True, False)),
        ((20, 20, 30, 30), (0, 0, 10, 10), (0.0, True, False)),
        ((5, 5, 5, 5), (0, 0, 10, 10), (0.0, True, True)),  # a point
        (None, (0, 0, 10, 10), (0.0, False, False)),
    ],
)
def test_score_of_a_box(box, gold, expected):
    assert score_box(box, gold) == pytest.approx(expected)


def test_metrics_of_boxes_counted_by_hand():
    answers = [
        BoxScore(1.0, True, True),
        BoxScore(0.5, True, True),
        BoxScore(0.3, True, False),
        BoxScore(0.0, False, False),  # no box in the reply: stays in the denominator
        None,  # a missing picture: leaves it
    ]
    assert box_metrics(answers) == {
        "n": 4,
        "dropped": 1,
        "mean_iou": pytest.approx(1.8 / 4),
        "accuracy": 2 / 4,
        "accuracy_at": {"0.3": 3 / 4, "0.5": 2 / 4, "0.7": 1 / 4},
        "valid_box": 3 / 4,
        "null_boxes": 1,
        "center_hit": 2 / 4,
    }
    assert box_metrics([None])["mean_iou"] is None


def test_metrics_of_letters_counted_by_hand():
    answers = [("A", "A"), ("B", "A"), (None, "C"), None, ("D", "D")]
    assert letter_metrics(answers) == {"n": 4, "dropped": 1, "correct": 2, "accuracy": 2 / 4}
