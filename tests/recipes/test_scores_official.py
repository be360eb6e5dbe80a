"""Official beside strict and flexible: choice rows, boxes by level, the article "A", baselines, letters."""

import pytest
from test_evaluate_scores import REWARD, row

from data_prep.rows import ImageRef
from recipes.judged import reasons
from recipes.scores import predict, summarise

SATELLITE = ImageRef("s.png", "satellite", "", 512, 512)
PANORAMA = ImageRef("p.jpg", "panorama", "", 1232, 224)


def judged(asked, completion):
    return predict(asked, completion, 7, False, "imagination_cot", REWARD)


def box_row(gold, target=SATELLITE, level=3, name="b0", group="fov/1"):
    asked = row(gold, None, "box", name, group, meta={"level": level})
    return type(asked)(**{**vars(asked), "images": (PANORAMA, target), "category": f"level{level}"})


@pytest.mark.parametrize(
    ("completion", "strict", "flexible", "official"),
    [
        ("Step. <answer> B </answer>", 1, 1, 1),
        ("Step 1: A single house. <answer> B </answer>", 1, 1, 0),
        ("The answer is B.", 0, 1, 1),
        ("Answer: B <answer> C </answer>", 0, 0, 1),  # the cue goes first
        ("", 0, 0, 0),
    ],
)
def test_three_readings_of_a_letter(completion, strict, flexible, official):
    record = judged(row(), completion)
    found = [record[key] for key in ("accuracy", "accuracy_flexible", "accuracy_official")]
    assert found == [strict, flexible, official]


@pytest.mark.parametrize(
    ("target", "completion", "strict", "official", "unit"),
    [
        (SATELLITE, "<answer>[0, 0, 100, 100]</answer>", 1.0, 1.0, "pixel"),
        (SATELLITE, "<answer>[100, 100, 0, 0]</answer>", 1.0, 1.0, "pixel"),
        (SATELLITE, "<answer>[0, 0, 100, 60]</answer>", 0.6, 0.6, "pixel"),
        (SATELLITE, "[0, 0, 100, 60]", 0.0, 0.6, "pixel"),  # strict wants the tag
        # 0.1953125 of 512 is 100; in pixels the box is a speck of the gold
        (SATELLITE, "<answer>[0, 0, 0.1953125, 0.1953125]</answer>", 0.1953125**2 / 1e4, 1.0, "share"),
        # the panorama goes out 512 wide: 41.5584... / (512 / 1232) is 100
        (
            PANORAMA,
            f"<answer>[0, 0, {512 / 12.32}, {512 / 12.32}]</answer>",
            (5.12 / 12.32) ** 2,
            1.0,
            "shrunk",
        ),
        (PANORAMA, "<answer>[0, 0, 100, 100]</answer>", 1.0, (5.12 / 12.32) ** 2, "shrunk"),
        (SATELLITE, "<answer>[null, null, null, null]</answer>", 0.0, 0.0, ""),
    ],
)
def test_readings_of_a_box(target, completion, strict, official, unit):
    record = judged(box_row([0, 0, 100, 100], target), completion)
    assert record["iou"] == pytest.approx(strict)
    assert record["iou_official"] == pytest.approx(official)
    assert record["accuracy_official"] == float(official >= 0.5)
    assert record["unit_official"] == unit
    assert record["retried_official"] is (unit == "")
    assert record["images"] == ["p.jpg", target.path]
    assert (record["level"], record["answer_type"]) == (3, "box")


def test_iou_is_kept_where_the_reward_pays_a_threshold():
    record = predict(
        box_row([0, 0, 100, 100]),
        "<answer>[0, 0, 100, 60]</answer>",
        7,
        False,
        "answer_only",
        {"iou_threshold": 0.5},
    )
    assert (record["accuracy"], record["iou"]) == (1.0, 0.6)


def test_boxes_are_summed_up_by_level():
    said = ["[0, 0, 100, 100]", "[0, 0, 100, 50]", "[0, 0, 100, 30]", "null"]
    records = [
        judged(
            box_row([0, 0, 100, 100], level=level, name=f"b{level}{i}", group=f"fov/{i}"),
            f"<answer>{text}</answer>",
        )
        for level, texts in ((3, said), (4, said[:1]), (1, said[3:]))
        for i, text in enumerate(texts)
    ]
    found = summarise([*records, judged(row(), "<answer>B</answer>")])
    assert {name: scores["n"] for name, scores in found["levels"].items()} == {
        "1": 1,
        "3": 4,
        "4": 1,
        "3+4": 5,
    }
    third = found["levels"]["3"]
    for reading in ("", "_official"):
        assert third[f"mean_iou{reading}"] == pytest.approx(1.8 / 4)
        assert third[f"accuracy_at{reading}"] == {"0.3": 3 / 4, "0.5": 2 / 4, "0.7": 1 / 4}
        assert third[f"valid_box{reading}"] == 3 / 4
        assert third[f"null_boxes{reading}"] == 1
        assert third[f"center_hit{reading}"] == 3 / 4
        assert third[f"mean_iou_low{reading}"] <= 1.8 / 4 <= third[f"mean_iou_high{reading}"]
    assert found["levels"]["3+4"]["mean_iou"] == pytest.approx(2.8 / 5)
    overall = found["overall"]
    assert (overall["n"], overall["boxes"]) == (7, 6)
    assert overall["letters"] == overall["gold"] == {"B": 1}  # a box is no letter
    assert (overall["constant"], overall["majority"]) == ({"B": 1 / 7}, 1.0)
    assert found["official"]["boxes"]["retried"] == 2


def test_a_set_of_boxes_alone_has_no_letters():
    found = summarise([judged(box_row([0, 0, 9, 9]), "<answer>[0, 0, 9, 9]</answer>")])
    overall = found["overall"]
    assert (overall["letters"], overall["gold"], overall["letter_bias"]) == ({}, {}, None)
    assert (overall["majority"], overall["majority_answer"], overall["prior_matching"]) == (1.0, "", 0.0)
    assert found["official"]["choice"] is None


def test_the_constant_box_is_the_median_for_every_size_of_the_target():
    golds = [[0, 0, 10, 10], [0, 0, 10, 10], [0, 0, 10, 20]]
    records = [judged(box_row(gold, name=f"s{i}"), "null") for i, gold in enumerate(golds)]
    assert summarise(records)["overall"]["majority"] == pytest.approx((1 + 1 + 0.5) / 3)
    records.append(judged(box_row([900, 0, 950, 50], PANORAMA, name="p"), "null"))
    assert summarise(records)["overall"]["majority"] == pytest.approx((1 + 1 + 0.5 + 1) / 4)


def test_answer_types_that_the_toolkit_does_not_know_have_no_official_score():
    found = summarise([judged(row(40.0, None, "number", unit="m"), "<answer>40 m</answer>")])["overall"]
    assert (found["accuracy"], found["accuracy_official"], found["low_official"]) == (1.0, None, None)


def test_the_article_is_told_from_other_differences():
    said = [
        ("A house stands there. <answer> B </answer>", "B"),  # lost to the article
        ("There is a house, all flat. <answer> B </answer>", "A"),  # gained by it
        ("Answer: C it must be. <answer> B </answer>", "B"),  # lost to a cue
        ("Five houses stand in rows. <answer> B </answer>", "B"),
        ("B", "B"),  # no reasoning; gained, for strict wants the tag
    ]
    records = [judged(row(gold, name=f"q{i}", group=f"g/{i}"), text) for i, (text, gold) in enumerate(said)]
    found = summarise(records)["official"]
    reasoning = {
        "n": 4, "accuracy": 3 / 4, "accuracy_official": 2 / 4, "difference": -1 / 4, "lost": 2, "gained": 1,
        "from_article": 2, "lost_to_article": 1, "gained_by_article": 1, "cue": 1, "free": 3, "none": 0,
    }  # fmt: skip
    assert {key: found["reasoning"][key] for key in reasoning} == pytest.approx(reasoning)
    assert (found["choice"]["n"], found["choice"]["gained"]) == (5, 2)


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        ("B", False),
        ("<answer>B</answer>", False),
        ("The answer is B.", False),
        ("Step one: <answer>B</answer>", False),
        ("The road bends left. <answer>B</answer>", True),
        ("The road bends left, so B.", True),
        ("The road bends left. <answer>B", True),
    ],
)
def test_what_counts_as_reasoning(completion, expected):
    assert reasons(completion) is expected


def test_baselines_and_letters_counted_by_hand():
    golds, said = "AAAB" + "BBCC", "AABB" + "BBBB"
    records = [
        judged(row(gold, name=f"q{i}", group=f"g/{i}"), f"<answer>{letter}</answer>")
        | {"category": "roof" if i < 4 else "location"}
        for i, (gold, letter) in enumerate(zip(golds, said, strict=True))
    ]
    found = summarise(records)
    overall = found["overall"]
    assert overall["constant"] == {"A": 3 / 8, "B": 3 / 8, "C": 2 / 8}
    assert overall["prior_matching"] == pytest.approx((9 + 9 + 4) / 64)
    location, roof = found["cells"]
    assert roof["prior_matching"] == pytest.approx((9 + 1) / 16)
    assert location["prior_matching"] == pytest.approx(1 / 2)
    assert overall["prior_matching_by_category"] == pytest.approx((10 / 16 + 1 / 2) / 2)
    bias = location["letter_bias"]
    assert (bias["answers"], bias["distance"], bias["preferred"]) == (4, 0.5, "B")
    assert bias["excess"] == {"B": 0.5, "C": -0.5}
    assert (bias["statistic"], bias["freedom"], bias["p"]) == pytest.approx((2.0, 1, 2 / 4))
