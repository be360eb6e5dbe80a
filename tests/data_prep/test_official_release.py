"""A miniature release through prep and scoring, beside the toolkit's rules applied by hand."""

import pytest
from miniature import LOCATION, put_cvusa, put_picture, put_vqa, question
from prep_runs import open_release

from data_prep.atomic import read_jsonl
from data_prep.rows import Row
from recipes import prep
from recipes.official import box_metrics, letter_metrics, read_box, read_letter, score_box
from recipes.official_differences import differences
from recipes.scores import predict, summarise

NAME = "0005001"
STREET, BING = f"cvusa/data/streetview/{NAME}.jpg", f"cvusa/data/bingmap/input{NAME}.png"
G2S, TO_STREET, TO_SATELLITE = (
    f"cvsbench/cvusa/g2s/{NAME}.NA",
    f"cvsbench/cvusa/gs_grounding/s2g/{NAME}_1.NA",
    f"cvsbench/cvusa/gs_grounding/g2s/{NAME}_1.NA",
)
BOX = [100, 50, 200, 150]
# Row -> (what the model says, the letter that the toolkit reads, whether it is right; the gold is B)
LETTERS = {
    f"{G2S}.q0": ("B", "B", True),  # a single letter
    f"{G2S}.q1": ("I would say option b, then.", "B", True),  # prose
    f"{G2S}.q2": ("A tall house stands here. <answer>B</answer>", "A", False),  # reasoning: the article
    f"{G2S}.q3": ("One house stands here. <answer>B</answer>", "B", True),  # reasoning without one
    f"{G2S}.q4": ("I cannot tell.", None, False),
}
# Row -> (what the model says, the toolkit's box, its IoU with BOX). The panorama goes out 512 pixels wide.
BOXES = {
    f"{TO_SATELLITE}.L4.q0": ("[100, 50, 200, 150]", (100, 50, 200, 150), 1.0),  # pixels
    f"{TO_SATELLITE}.L4.q1": ("[0.25, 0.125, 0.5, 0.375]", (100, 50, 200, 150), 1.0),  # shares of 400 x 400
    f"{TO_SATELLITE}.L4.q2": (
        "[200, 150, 100, 100]",
        (100, 100, 200, 150),
        0.5,
    ),  # corners the wrong way round
    f"{TO_SATELLITE}.L4.q3": ("null", None, 0.0),
    f"{TO_STREET}.L4.q0": ("[128, 0, 256, 64]", (308, 0, 616, 154), 0.0),  # shrunk: divided by 512 / 1232
    f"{TO_STREET}.L4.q1": ("[0, 0, 512, 64]", (0, 0, 1232, 154), 10_000 / (1232 * 154)),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The finished prep of a release whose one test scene has every kind of row, and one with no picture."""
    folder = tmp_path_factory.mktemp("official")
    root = folder / "release"
    put_cvusa(root, train=8, test=1)
    put_picture(root / STREET, (1232, 224))
    put_picture(root / BING, (400, 400))
    asked = [question(question=f"Which, {i}?", answer="B") for i in range(len(LETTERS))]
    put_vqa(
        root,
        "cvusa",
        "g2s",
        {"img_id": NAME, "source_image": STREET, "questions": asked},
        question(img_id="0005009", source_image="cvusa/data/streetview/0005009.jpg"),
    )
    # A path that leads nowhere: the toolkit drops the row.
    put_vqa(
        root, "cvusa", "s2g", question(img_id=NAME, target_image="old/x.png", options=LOCATION, answer="C")
    )
    for part, source, target in (("g2s", STREET, BING), ("s2g", BING, STREET)):
        count = sum(f"gs_grounding/{part}" in row_id for row_id in BOXES)
        boxes = [{"level": 4, "question": f"Where, {i}?", "answer": BOX} for i in range(count)]
        task = {"g2s": "Ground2Sat", "s2g": "Sat2Ground"}[part]
        record = {"img_id": f"{NAME}_1", "dataset": "cvusa", "task": task, "questions": boxes}
        put_vqa(
            root, "cvusa", f"gs_grounding/{part}", record | {"source_image": source, "target_image": target}
        )
        put_vqa(root, "cvusa", f"gs_grounding/{part}", split="train")
    run = open_release(
        folder / "runs", root, "data.tasks=[g2s,s2g,gs_grounding]", "data.allow_unreadable=true"
    )
    prep.run(run)
    return run


@pytest.fixture(scope="module")
def rows(prepared):
    return {r["id"]: Row.from_json(r) for r in read_jsonl(prepared.path / "rows/test.jsonl")}


def test_every_kind_of_row_is_there(rows):
    assert rows.keys() == {*LETTERS, *BOXES, f"cvsbench/cvusa/s2g/{NAME}.NA.q0"}


def test_the_toolkits_readings(rows):
    for row_id, (reply, letter, right) in LETTERS.items():
        record = predict(rows[row_id], reply, 1, False, "answer_only", {})
        assert (record["parsed_official"] or None, record["accuracy_official"]) == (letter, float(right)), (
            row_id
        )
    for row_id, (reply, box, overlap) in BOXES.items():
        row = rows[row_id]
        record = predict(row, reply, 1, False, "answer_only", {})
        assert record["iou_official"] == pytest.approx(overlap), row_id
        assert record["valid_box_official"] is (box is not None)
        assert record["accuracy_official"] == float(overlap >= 0.5)
        assert read_box(reply, (row.images[-1].width, row.images[-1].height)).box == pytest.approx(box)


def test_the_toolkits_metrics(rows):
    said = {**LETTERS, **BOXES}
    records = [
        predict(rows[row_id], reply, 1, False, "answer_only", {}) for row_id, (reply, *_) in said.items()
    ]
    found = summarise(records)
    # By hand: three of five letters; IoUs 1, 1, 0.5, 0, 0 and 10000 / 189728.
    mean_iou = (2.5 + 10_000 / 189_728) / 6
    [choice] = [cell for cell in found["cells"] if cell["task"] == "g2s"]
    assert choice["accuracy_official"] == 3 / 5
    boxes = found["levels"]["4"]
    assert boxes["mean_iou_official"] == pytest.approx(mean_iou)
    assert boxes["accuracy_official"] == boxes["accuracy_at_official"]["0.5"] == 3 / 6
    assert boxes["accuracy_at_official"]["0.3"] == 3 / 6
    assert boxes["valid_box_official"] == 5 / 6
    assert (boxes["null_boxes_official"], found["official"]["boxes"]["retried"]) == (1, 1)
    assert found["overall"]["accuracy_official"] == pytest.approx(6 / 11)
    # The toolkit's own arithmetic, with the row that it drops for its missing picture.
    letters = [(read_letter(reply).letter, "B") for reply, *_ in LETTERS.values()]
    assert letter_metrics([*letters, None]) == {"n": 5, "dropped": 1, "correct": 3, "accuracy": 3 / 5}
    scores = [score_box(box, BOX) for _, box, _ in BOXES.values()]
    assert box_metrics(scores)["mean_iou"] == pytest.approx(mean_iou)


def test_what_the_toolkit_drops_is_named(prepared, rows):
    found = differences(rows.values(), prepared.path / "quarantine.jsonl")
    assert [(d["id"], d["rule"]) for d in found["rows"]] == [
        (f"cvsbench/cvusa/s2g/{NAME}.NA.q0", "cvusa_s2g_path")
    ]
    assert [d["id"] for d in found["left_out"]] == ["cvsbench/cvusa/g2s/0005009.NA.q0"]
