"""What a teacher's text must be: every check as a table, with texts that must not raise a false alarm."""

import itertools
import random

import pytest
from miniature import reasoning

from data_prep.rows import ImageRef, Row
from data_prep.teacher.checks import CHECKS, check_text, strip_thinking
from data_prep.teacher.files import fault
from data_prep.teacher.overlap import CopyIndex, shingles
from data_prep.teacher.unseen import unseen_evidence


def row(answer: str = "B", task: str = "g2s", pictures: int = 1, **fields) -> Row:
    images = tuple(ImageRef(f"{n}.jpg", "street", "", 640, 480) for n in range(pictures))
    return Row(**{
        "id": "r", "benchmark": "cvsbench", "subset": "fov", "task": task, "category": "facade",
        "group": "fov/0001", "images": images, "question": "?", "answer": answer,
        "options": {"A": "Visible in Satellite", "B": "Not visible in Satellite"}, **fields,
    })  # fmt: skip


def structured(objects: str, letter: str = "B") -> str:
    return (
        f"Overview\nA street with one house.\nKey Objects\n{objects}\nSpatial Reasoning\nThe wall stands "
        f"upright.\n<answer> {letter} </answer>"
    )


TEXTS = {
    # text -> the checks that reject it
    reasoning("B"): set(),
    reasoning("A"): {"answer"},
    reasoning("B").replace("</answer>", ""): {"answer", "sections"},
    reasoning("E"): {"answer"},
    reasoning("B").replace("Step 3", "Part 3"): {"sections"},
    reasoning("B").replace("Step 1", "**Step 1"): set(),
    reasoning("B") + "\nThat is all.": {"sections"},
    "Here it is.\n" + reasoning("B"): {"sections"},
    reasoning("B", words=" "): {"sections"},
    reasoning("B", words="word " * 200): {"length"},
    reasoning("B", words="word " * 160): set(),
    reasoning("B", words="It can only be B."): {"letters"},
    reasoning("B", words="Building B is a house, and a tree stands by it."): set(),
    reasoning("B", words="So the correct answer lies in the shadow."): {"verdict"},
    reasoning("B", words="Thus it is not visible in satellite."): {"verdict"},
    reasoning("B", words="The answer is not obvious: the eave hides it."): set(),
    reasoning("B", words="We choose the path to the left of the house."): {"verdict"},
    reasoning("B", words="It is hard to choose a viewpoint."): set(),
    reasoning("B", words="The satellite image shows no ridge."): {"unseen"},
    reasoning("B", words="A wall <|fim_prefix|> here."): {"placeholder"},
    reasoning("B", words="A wall \x00 here."): {"characters"},
    reasoning("B", words="A wall \ufffd here."): {"characters"},
    reasoning("B", words="Façade “ähnlich” 三 🏠\tdone\r"): set(),
}


@pytest.mark.parametrize(("text", "checks"), TEXTS.items())
def test_each_check_rejects_what_it_is_for_and_nothing_else(text, checks):
    found = check_text(row(), text, "imagination_cot")
    assert {rejection.check for rejection in found} == checks
    assert all(rejection.reason for rejection in found)


def test_the_tables_reach_every_check():
    reached = set().union(*TEXTS.values()) | {"boxes"}
    assert reached == set(CHECKS)


@pytest.mark.parametrize("text", TEXTS)
def test_what_passes_here_passes_the_check_of_files_and_rewards(text):
    if not check_text(row(), text, "imagination_cot"):
        assert fault(row(), text, "imagination_cot") is None


@pytest.mark.parametrize(
    ("objects", "sound"),
    [
        ("house bbox: [10, 20, 300, 400] grey wall", True),
        ("house bbox: [0, 0, 640, 480] all of it", True),
        ("house bbox: [10.5, 20, 300, 400]\ntree bbox: (1, 2, 3, 4) left", True),
        ("**house** - bbox: [10,20,30,40]", True),
        ("house bbox: [10, 20, 641, 400]", False),
        ("house bbox: [10, 20, 300, 481]", False),
        ("house bbox: [-1, 20, 300, 400]", False),
        ("house bbox: [300, 20, 10, 400]", False),
        ("house bbox: [10, 20, 10, 400]", False),
        ("house bbox: [10, 20, 300]", False),
        ("house bbox: [x1, y1, x2, y2]", False),
        ("house bbox: left half", False),
        ("house, grey wall", False),
        ("\n".join(f"tree bbox: [{n}, 2, 30, 40]" for n in range(4)), False),
    ],
)
def test_boxes_lie_in_the_picture(objects, sound):
    found = check_text(row(), structured(objects), "structured_cot")
    assert [rejection.check for rejection in found] == ([] if sound else ["boxes"])


def test_imagination_needs_no_boxes():
    assert check_text(row(), reasoning("B"), "imagination_cot") == []


EVIDENCE = {
    "g2s": [
        "The satellite image shows a flat roof.",
        "This flat roof is confirmed by the satellite view.",
        "It would be flat, as the satellite image shows.",
        "In the satellite image, there is a pool behind the house.",
        "In the satellite view we can see two wings.",
        "Looking at the satellite image, the roof is grey.",
        "As seen in the aerial photo, the wings are joined.",
        "The roof is clearly visible in the satellite image.",
        "According to the top-down view the house is long.",
        "This matches the satellite image.",
        "Comparing the facade with the satellite picture, both agree.",
        "The second image shows the roof.",
        "Image 2 has a longer house.",
        "The hidden view shows a courtyard.",
        "The overhead imagery reveals a courtyard.",
        "We see a courtyard in the satellite view.",
    ],
    "s2g": [
        "The street view shows a brick wall.",
        "The panorama confirms the tree on the left.",
        "In the street-level photo, there is a tree.",
        "As shown in the photo, the wall is red.",
        "The photograph reveals a porch.",
        "Checking the street view, the tree is tall.",
    ],
}
CLEAN = {
    "g2s": [
        "In a satellite view the roof would appear as a grey rectangle.",
        "The satellite view would show a flat roof.",
        "From above, the ridge becomes a line.",
        "The question asks whether the porch is visible in the satellite view.",
        "One has to infer what the satellite image shows.",
        "The satellite view is not given.",
        "No detail of the satellite image is used, since it cannot be seen.",
        "A top-down view likely shows two wings.",
        "Facade features are hidden in a top-down view.",
        "If the eave is wide, the satellite image shows the eave instead of the wall.",
        "The street photo shows a grey wall.",
        "The photo shows a wall in shadow; the other side of it stays uncertain.",
        "Windows on a wall do not face the sky, so a satellite perspective loses them.",
        "The panorama shows a house on the left.",
        "Mapping the facade to the satellite view loses its height.",
        "It is likely that the aerial image shows a hipped roof.",
    ],
    "s2g": [
        "The satellite image shows a row of trees left of the arrow.",
        "The photo is taken from the tail of the arrow, facing along it.",
        "From the ground one would see trees there.",
        "Which region of the panorama shows the red building depends on the angle.",
        "The panorama would contain the building in its right quarter.",
        "The middle of the panorama corresponds to the top of the image.",
        "At street level the hedge might block the look.",
        "The top-down picture shows a shadow north of the house.",
        "In the street view, the house would stand to the left.",
        "A camera at the tail of the arrow faces the lawn.",
    ],
}


@pytest.mark.parametrize(("task", "sentence"), [(t, s) for t, some in EVIDENCE.items() for s in some])
def test_evidence_from_the_hidden_view_is_found(task, sentence):
    assert unseen_evidence(f"A house stands here. {sentence} A tree too.", task, shown=1)


@pytest.mark.parametrize(("task", "sentence"), [(t, s) for t, some in CLEAN.items() for s in some])
def test_supposing_the_hidden_view_is_no_evidence(task, sentence):
    assert unseen_evidence(f"A house stands here. {sentence} A tree too.", task, shown=1) is None


def test_several_photographs_have_a_second_one():
    assert unseen_evidence("The second photo shows a wall.", "g2s", shown=4) is None
    assert unseen_evidence("The second photo shows a wall.", "g2s", shown=1)
    assert unseen_evidence("The satellite image shows a wall.", "view_arrow", shown=1) is None


def test_thinking_aloud_is_taken_off():
    assert strip_thinking("<think>The satellite image shows it.</think>\n\nStep 1") == "Step 1"
    assert strip_thinking("no thought\n") == "no thought"


def tagged(text: str) -> str:
    return f"{text}\n<answer> A </answer>"


def test_near_copies_are_those_of_a_plain_comparison():
    """Prefix filtering finds what comparing every pair finds."""
    rng = random.Random(0)
    words = [f"w{chr(97 + n)}" for n in range(12)]
    texts = [" ".join(rng.choices(words, k=rng.randint(3, 30))) for _ in range(80)]
    texts += [f"{text} {rng.choice(words)}" for text in rng.sample(texts, 40)]
    texts = [tagged(text) for text in texts]
    found = 0
    for threshold in (0.3, 0.7, 0.9, 1.0):
        index = CopyIndex(threshold)
        for number, text in enumerate(texts):
            sets = shingles(text), [shingles(other) for other in texts[:number]]
            plain = [len(sets[0] & other) / len(sets[0] | other) for other in sets[1]]
            nearest = index.nearest(shingles(text))
            if max(plain, default=0.0) >= threshold:
                found += 1
                assert nearest == (str(plain.index(max(plain))), pytest.approx(max(plain)))
            else:
                assert nearest is None
            index.add(str(number), shingles(text))
    assert 30 < found < 400


def test_numbers_and_answers_do_not_set_texts_apart():
    text = structured("house bbox: [10, 20, 300, 400] grey wall")
    other = structured("house bbox: [11, 25, 301, 42] grey wall", letter="A")
    assert shingles(text) == shingles(other)
    assert shingles(tagged("ab")) == shingles(tagged("AB"))
    assert len({shingles(tagged(" ".join(order))) for order in itertools.permutations("abc")}) == 6
