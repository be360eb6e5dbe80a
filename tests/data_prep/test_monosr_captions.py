"""Phrases of a teacher: kept where they keep the rules and the object is found again by them, else
geometry."""

import asyncio
import base64
import io
import random
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from monosr_scenes import random_scene
from PIL import Image
from stub_endpoint import Stub
from teacher_runs import teacher_config

from data_prep.errors import UserError
from data_prep.monosr.captions import RED, WithCaptions, caption, found_number, framed, judge
from data_prep.monosr.generate import questions_of
from data_prep.monosr.options import Options
from data_prep.monosr.references import References
from data_prep.monosr.scene import Scene

COLOURS = ("green", "blue", "wooden", "striped", "black", "yellow")


def made_scene(folder, count=6) -> Scene:
    """Chairs (and a table) side by side in a picture; the grey of each tells its colour word."""
    scene = random_scene(1, count=count)
    boxes = np.array([[10 + 50 * k, 40, 50 + 50 * k, 90] for k in range(count)], dtype=float)
    pixels = np.zeros((120, 60 + 50 * count, 3), dtype=np.uint8)
    for k, (x1, y1, x2, y2) in enumerate(boxes.astype(int)):
        pixels[y1:y2, x1:x2] = 40 + 30 * k
    (folder / "images").mkdir(exist_ok=True)
    Image.fromarray(pixels).save(folder / "images/0.png")
    categories = ("chair",) * (count - 1) + ("table",)
    return replace(scene, box2d=boxes, categories=categories, image="0.png")


class Namer(Stub):
    """Names a chair by the grey inside its frame, and finds it by that word; `bad` words it gets wrong."""

    bad: tuple[str, ...] = ()

    def complete(self, body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        content = body["messages"][1]["content"]
        url, text = content[0]["image_url"]["url"], content[-1]["text"]
        pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(url.split(",")[1]))).convert("RGB"))
        greys = [pixels[65, 30 + 50 * k, 0] for k in range(6)]
        framed_ones = [k for k in range(6) if tuple(pixels[40, 30 + 50 * k]) == RED]
        if "The noun is" in text:
            word = COLOURS[(int(greys[framed_ones[0]]) - 40) // 30]
            retried = "cannot be used" in text
            answer = "The chair on the left" if "first" in self.bad and not retried else f"The {word} chair."
            if "same" in self.bad:
                answer = "blue chair"
        else:
            word = re.search(r"is: (\w+)", text)[1]
            answer = "0" if word in self.bad else str(COLOURS.index(word) + 1)
        message = {"role": "assistant", "content": answer}
        return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {}}


def captions_of(folder, bad=()):
    """The scene, its phrases as `WithCaptions` reads them, and what became of the objects."""
    scene = made_scene(folder)
    captions = WithCaptions(lambda start, stop: iter([(scene, None)]), folder / "captions", 10)
    with Namer(trouble=0.0) as stub:
        stub.bad = tuple(bad)
        config = teacher_config(stub.base_url)
        arguments = (captions, 1, folder / "images", config, folder / "replies")
        found = asyncio.run(caption(*arguments))
        sent = len(stub.log)
        assert asyncio.run(caption(*arguments)) == found
        assert len(stub.log) == sent  # nothing is asked twice
    ((same, full, phrases),) = captions(0, 1)
    assert (same, full) == (scene, None)
    assert not (folder / "captions/framed").exists()
    return scene, phrases, dict(found)


def test_phrases_name_what_geometry_would(tmp_path):
    scene, phrases, found = captions_of(tmp_path)
    assert list(phrases.values()) == [f"{word} chair" for word in COLOURS[:5]]
    assert set(phrases) == set(scene.ids[:5])  # the only table needs none
    assert found == {"kept": 5}
    names = References(scene, captions=phrases)
    names.check()
    assert [own[0].text for own in names.names] == [*(f"the {w} chair" for w in COLOURS[:5]), "the table"]
    texts = " ".join(r.question for r in questions_of(scene, Options(), 0, captions=phrases))
    assert re.search(r"the (?:green|blue|wooden|striped|black) chair", texts)


def test_a_phrase_by_which_the_object_is_not_found_goes(tmp_path):
    scene, phrases, found = captions_of(tmp_path, bad=("blue", "black"))
    assert list(phrases) == [scene.ids[0], scene.ids[2], scene.ids[3]]
    assert found == {"kept": 3, "not found": 2}


def test_a_phrase_against_the_rules_is_asked_for_again(tmp_path):
    _, phrases, found = captions_of(tmp_path, bad=("first",))
    assert len(phrases) == 5
    assert found == {"kept": 5, "words": 5}


def test_one_phrase_for_all_fits_none(tmp_path):
    _, phrases, found = captions_of(tmp_path, bad=("same",))
    assert set(phrases.values()) <= {"blue chair"}
    assert found["not found"] == 4


@pytest.mark.parametrize(
    ("reply", "kept", "kind"),
    [
        ("The old wooden chair.", "old wooden chair", None),
        ('"A TV stand chair"', "tV stand chair", None),
        ("", None, "empty"),
        ("chair", None, "bare"),
        ("the chair nearest to the window", None, "words"),
        ("chair number 3", None, "words"),
        ("tall chair", None, "words"),
        ("wooden stool", None, "noun"),
        ("a chair that stands there with a coat over its back", None, "length"),
    ],
)
def test_rules_of_a_phrase(reply, kept, kind):
    verdict = judge(reply, "chair")
    assert verdict.kept == ((kept,) if kept else ())
    assert [fault.kind for fault in verdict.faults] == ([kind] if kind else [])


@pytest.mark.parametrize(
    ("reply", "number"), [("2", 2), ("Number 2.", 2), ("7", 0), ("1 or 2", 0), ("none", 0)]
)
def test_the_finders_number(reply, number):
    assert found_number(reply, 5) == number


def test_a_picture_that_is_missing_is_told(tmp_path):
    with pytest.raises(UserError, match=r"no\.png cannot be read"):
        framed(tmp_path / "no.png", tmp_path / "made.png", [[0, 0, 1, 1]], numbered=False)
