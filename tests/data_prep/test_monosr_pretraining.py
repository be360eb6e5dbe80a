"""What MonoSR's tiny base model learns first: right where it reads and sees, by lot where it guesses."""

import re
from collections import Counter

import pytest
from omegaconf import OmegaConf
from PIL import Image

from data_prep.monosr.long_tail import rare
from data_prep.monosr.synthetic.pretraining import (
    BLOCK,
    FIRST_READING,
    GROWING,
    LATER,
    PLAIN,
    REQUEST,
    SPLIT,
    Pretraining,
    caption,
)
from data_prep.monosr.synthetic.release import FIRST
from data_prep.prompts import load_prompt

PROMPT = load_prompt(OmegaConf.create({"format": "answer_only", "file": None}), aux="none")
IN_METRES = {"m": 1.0, "metres": 1.0, "cm": 0.01, "centimetres": 0.01, "mm": 0.001, "millimetres": 0.001}


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Pretraining:
    return Pretraining(tmp_path_factory.mktemp("pretraining"), 3, 36, 160, PROMPT)


@pytest.fixture(scope="module")
def asked(source) -> list[tuple[str, str, tuple[str, ...]]]:
    """The text, the answer and the pictures of many examples."""
    found = source.examples(200 * BLOCK)
    return [(e.messages[0]["content"][-1]["text"], e.completion, e.images) for e in found]


def value(answer: str) -> tuple[float, str]:
    """Metres, and the unit they were given in."""
    number, unit = answer.removeprefix("<answer>").removesuffix("</answer>").split()
    return float(number) * IN_METRES[unit], unit


def test_a_box_is_copied_letter_by_letter(asked):
    found = [(text, answer) for text, answer, _ in asked if "\nCopy the box of" in text]
    assert len(found) > 10 * BLOCK
    for text, answer in found:
        name = re.search(r"Copy the box of (.*)\.$", text)[1]
        assert re.search(rf"(?:-|\[\d+\]) {re.escape(name)}: {re.escape(answer)}(?:\n|$)", text)


def test_sizes_are_those_of_the_list_in_any_unit(asked):
    pattern = re.compile(
        r"(Copy|Write) the (length|height|width|last number of the centre) of (.*?)(?: in (\w+))?\.$"
    )
    kinds = Counter()
    for text, answer, _ in asked:
        if not (found := pattern.search(text)):
            continue
        verb, field, name, unit = found.groups()
        line = re.search(rf"(?:-|\[\d+\]) {re.escape(name)}: (.*)", text)[1]
        where = rf"{field} ([\d.]+)" if field in ("length", "height", "width") else r", ([\d.]+)\)"
        told = float(re.search(where, line)[1])
        metres, given = value(answer)
        # The unit of a list is that of the copied answers: centimetres where the object is a single one.
        assert any(metres == pytest.approx(told * scale, rel=0.006) for scale in (1.0, 0.01))
        assert verb == "Copy" or IN_METRES[unit] == IN_METRES[given]
        kinds[verb, field.startswith("last")] += 1
    assert len(kinds) == 3
    assert min(kinds.values()) > 2 * BLOCK


def test_plain_lists_come_first(source, asked):
    """Without marks' numbers, and in the words of no question: the categories of the scenes alone."""
    categories = {name for shown in source.shown for name in shown.scene.categories}
    plain = int(PLAIN * len(asked)) // BLOCK * BLOCK
    line = re.compile(r"^(-|\[\d+\]) (.*): (?:centre|length|height|width|yaw) ", re.MULTILINE)
    names = [line.findall(text) for text, _, _ in asked]
    assert {name for found in names[:plain] for name in found} <= {("-", name) for name in categories}
    later = {name for found in names[plain:] for name in found}
    assert any(mark != "-" for mark, _ in later)
    assert any("nearest to" in name for _, name in later)
    assert all(text.startswith(("- ", "Is ")) for text, _, _ in asked[:plain] if " more than " not in text)


def test_plain_lists_grow(asked):
    """Of each box one part at first, then more of them, and in the end all."""
    growing, plain = (int(share * len(asked)) // BLOCK * BLOCK for share in (GROWING, PLAIN))
    parts = [
        max(len(re.findall(r"centre|length|height|width|yaw", line)) for line in text.split("\n")[:-1])
        for text, _, _ in asked[:plain]
        if text.startswith("- ")
    ]
    fifth = len(parts) * growing // plain // 5
    assert set(parts[: fifth * 9 // 10]) == {1}
    assert set(parts[fifth * 11 // 10 : fifth * 39 // 10]) == {1, 2, 3, 4}
    assert set(parts[fifth * 6 :]) == {5}


def test_the_larger_number_is_told(asked):
    found = [
        (re.search(r"Is ([\d.]+) more than ([\d.]+)\?$", text), answer)
        for text, answer, _ in asked
        if " more than " in text
    ]
    answers = Counter()
    for numbers, answer in found:
        assert answer == f"<answer>{'yes' if float(numbers[1]) > float(numbers[2]) else 'no'}</answer>"
        answers[answer] += 1
    assert 0.4 < answers["<answer>yes</answer>"] / answers.total() < 0.6


def test_captions_tell_the_nearest_objects_from_left_to_right(source, asked):
    of_path = {str(shown.path): shown.scene for shown in source.shown}
    found = [(answer, images) for text, answer, images in asked if text.endswith(REQUEST)]
    assert len(found) > 5 * BLOCK
    for answer, (path,) in found:
        scene = of_path[path]
        assert answer == caption(scene)
        lines = answer.split("\n")
        places = [int(re.search(r" at (\d)", line)[1]) for line in lines]
        assert places == sorted(places)
        far = sorted(scene.center[:, 2])[: len(lines)]
        told = sorted(float(re.search(r", ([\d.]+) m away", line)[1]) for line in lines)
        assert told == pytest.approx([round(z, 1) for z in far], abs=0.051)
        with Image.open(path) as picture:
            assert picture.size == (scene.width, scene.height)


def test_guesses_know_nothing(asked):
    """Each answer of a question with letters, or yes and no, comes about as often as the others."""
    guesses = Counter(answer for text, answer, images in asked if images and not text.endswith(REQUEST))
    yes, no = (guesses[f"<answer>{word}</answer>"] for word in ("yes", "no"))
    assert yes + no > 50
    assert 0.3 < yes / (yes + no) < 0.7
    for answer in guesses:
        content = answer.removeprefix("<answer>").removesuffix("</answer>")
        assert content in {*"ABCD", "yes", "no"} or re.fullmatch(r"[\d.]+ (m|cm|mm|ft|m2|cm2|ft2)", content)


def test_reading_comes_first_and_alone_then_blocks_of_all(asked):
    def kind(number: int) -> str:
        text, _, images = asked[number]
        if not images:
            return "reading"
        return "caption" if text.endswith(REQUEST) else "guess"

    first = int(FIRST_READING * len(asked)) // BLOCK * BLOCK
    assert {kind(number) for number in range(first)} == {"reading"}
    blocks = [{kind(n) for n in range(start, start + BLOCK)} for start in range(first, len(asked), BLOCK)]
    assert all(len(block) == 1 for block in blocks)
    assert set.union(*blocks) == set(LATER)


def test_the_same_seed_gives_the_same(source, tmp_path):
    again = Pretraining(tmp_path, 3, 36, 160, PROMPT)
    assert again.texts(40) == source.texts(40)
    for one, other in zip(again.examples(3 * BLOCK), source.examples(3 * BLOCK), strict=True):
        assert one.messages == other.messages
        assert one.completion == other.completion


def test_texts_have_every_kind_of_information(source):
    texts = "\n".join(source.texts(60))
    for words in ("taken indoors", "Numbered marks", "3D boxes", "Every object that is known", "[1] "):
        assert words in texts


def test_its_pictures_are_no_part_of_a_release():
    assert FIRST[SPLIT] > max(number for split, number in FIRST.items() if split != SPLIT)


@pytest.mark.parametrize(("share", "names"), [(0, ""), (0.2, "d"), (0.39, "d"), (0.4, "da"), (1, "dacbe")])
def test_the_rarest_share_of_the_categories(share, names):
    assert rare({"a": 2, "b": 7, "c": 2, "d": 0, "e": 9}, share) == list(names)
