"""What a completion must look like: one well-formed answer at the end, and in full mode the whole layout."""

import pytest

from rewards import RESPONSE_FORMATS, check_format, compute_score, names_option

ANSWER = "<answer>B</answer>"
SECTIONS = {
    "imagination_cot": (
        "Step 1: Observations\nA white house with a steep roof.\n"
        "Step 2: Cross-view mapping intention\nRoof shape from above.\n"
        "Step 3: Projection / imagination\nTwo slopes would show.\n"
        "Step 4: Final reasoning\nSo a gabled roof is likely.\n"
    ),
    "structured_cot": (
        "Overview\nA street with two houses.\n"
        "Key Objects\nhouse bbox: [10, 20, 110, 220], white walls.\n"
        "Spatial Reasoning\nBuilding B lies further away.\n"
    ),
    "think_answer": "<think>The roof slopes to both sides.</think>",
    "answer_only": "",
}


def swapped(text, first, second):
    return text.replace(first, "#").replace(second, first).replace("#", second)


@pytest.mark.parametrize("name", RESPONSE_FORMATS)
def test_a_complete_layout_is_kept_in_both_modes(name):
    for mode in ("answer", "full"):
        assert check_format(SECTIONS[name] + ANSWER, name, mode)


@pytest.mark.parametrize("name", RESPONSE_FORMATS)
@pytest.mark.parametrize("other", RESPONSE_FORMATS)
def test_a_layout_is_no_other_layout(name, other):
    assert check_format(SECTIONS[name] + ANSWER, other, "full") == (name == other)
    assert check_format(SECTIONS[name] + ANSWER, other, "answer")


@pytest.mark.parametrize(
    ("completion", "kept"),
    [
        (ANSWER, True),
        ("Some reasoning. " + ANSWER, True),
        (f"\n  {ANSWER}  \n", True),
        (f"{ANSWER}<|im_end|>\n<|endoftext|>", True),
        (f"{ANSWER}</s> <eos><pad><pad>", True),
        (f"<think>hm</think>{ANSWER}", True),
        (f"hm</think>{ANSWER}", True),
        (f"<think>\nhm {ANSWER}", True),
        (f"{ANSWER} So it is.", False),
        (f"{ANSWER}.", False),
        (f"{ANSWER}<|im_end|>more", False),
        (f"{ANSWER}<|im_start|>", False),
        (f"{ANSWER}{ANSWER}", False),
        ("<answer></answer>", False),
        ("<answer> </answer>", False),
        ("<answer>B", False),
        ("B</answer>", False),
        ("B", False),
        ("", False),
        (f"<|image_pad|>{ANSWER}", False),
    ],
)
def test_one_answer_at_the_end(completion, kept):
    assert check_format(completion, "answer_only", "answer") is kept


IMAGINATION = SECTIONS["imagination_cot"]
STRUCTURED = SECTIONS["structured_cot"]


@pytest.mark.parametrize(
    ("name", "completion", "kept", "why"),
    [
        ("imagination_cot", f"\n {IMAGINATION}{ANSWER}<|im_end|>\n", True, "white space and an end token"),
        ("imagination_cot", f"<think>\n\n</think>\n\n{IMAGINATION}{ANSWER}", True, "empty thinking"),
        ("imagination_cot", f"<think>\n{IMAGINATION}{ANSWER}", True, "a prefilled tag left open"),
        ("imagination_cot", f"<think>hm</think>{IMAGINATION}{ANSWER}", False, "thinking beside the sections"),
        ("imagination_cot", IMAGINATION.replace("Step", "**Step") + ANSWER, True, "bold"),
        ("imagination_cot", IMAGINATION.replace("Step", "__Step") + ANSWER, True, "bold with underscores"),
        ("imagination_cot", IMAGINATION.replace("Step", "### Step") + ANSWER, True, "markdown headings"),
        ("imagination_cot", IMAGINATION.replace("Step", " \tStep") + ANSWER, True, "indented"),
        ("imagination_cot", IMAGINATION.replace("Observations", "Observations:") + ANSWER, True, "colon"),
        ("imagination_cot", IMAGINATION.replace("s\nA", "s: A") + ANSWER, True, "text after the colon"),
        ("imagination_cot", IMAGINATION.replace("Step 1: O", "STEP 1:  o") + ANSWER, True, "case and spaces"),
        ("imagination_cot", IMAGINATION.replace("Step 2", "Step 5") + ANSWER, False, "a heading is wrong"),
        (
            "imagination_cot",
            IMAGINATION.replace("Observations", "Observation") + ANSWER,
            False,
            "cut heading",
        ),
        (
            "imagination_cot",
            IMAGINATION.replace("Observations", "Observationss") + ANSWER,
            False,
            "longer word",
        ),
        (
            "imagination_cot",
            swapped(IMAGINATION, "Step 1: Observations", "Step 4: Final reasoning") + ANSWER,
            False,
            "order",
        ),
        (
            "imagination_cot",
            IMAGINATION.replace("Two slopes would show.", "") + ANSWER,
            False,
            "empty section",
        ),
        (
            "imagination_cot",
            IMAGINATION.replace("Two slopes would show.", " :** - ") + ANSWER,
            False,
            "no words",
        ),
        (
            "imagination_cot",
            IMAGINATION.replace("So a gabled roof is likely.", "") + ANSWER,
            False,
            "last empty",
        ),
        ("imagination_cot", IMAGINATION + IMAGINATION + ANSWER, False, "everything twice"),
        (
            "imagination_cot",
            IMAGINATION + "Step 4: Final reasoning\nAgain.\n" + ANSWER,
            False,
            "a section twice",
        ),
        ("imagination_cot", "Sure! " + IMAGINATION + ANSWER, False, "words before the first heading"),
        ("imagination_cot", "Sure!\n" + IMAGINATION + ANSWER, False, "a line before the first heading"),
        ("imagination_cot", IMAGINATION.replace("\n", " ") + ANSWER, False, "headings inside a line"),
        ("imagination_cot", IMAGINATION, False, "no answer"),
        ("imagination_cot", f"{ANSWER}\n{IMAGINATION}", False, "the answer first"),
        ("structured_cot", STRUCTURED.replace("Overview", "**Overview**:") + ANSWER, True, "bold and colon"),
        ("structured_cot", STRUCTURED.replace("Overview\n", "Overview: ") + ANSWER, True, "on one line"),
        (
            "structured_cot",
            STRUCTURED.replace("Key Objects", "Key  objects") + ANSWER,
            True,
            "case and spaces",
        ),
        ("structured_cot", STRUCTURED.replace("Key Objects", "Objects") + ANSWER, False, "part of a heading"),
        ("structured_cot", STRUCTURED.replace("Overview\n", "") + ANSWER, False, "a section is missing"),
        ("think_answer", f"The roof slopes.</think>{ANSWER}", True, "opening tag prefilled"),
        ("think_answer", f"\n<THINK>\nSlopes.\n</THINK>\n{ANSWER}\n", True, "capitals and white space"),
        ("think_answer", f"<think></think>{ANSWER}", False, "empty thinking"),
        ("think_answer", f"<think>\n</think>{ANSWER}", False, "blank thinking"),
        ("think_answer", f"<think>Slopes.{ANSWER}", False, "thinking never closed"),
        ("think_answer", ANSWER, False, "no thinking"),
        ("think_answer", f"<think>Slopes.</think>So: {ANSWER}", False, "words between"),
        ("answer_only", f" {ANSWER} <|im_end|>", True, "white space and an end token"),
        ("answer_only", f"<think>\n\n</think>\n\n{ANSWER}", True, "empty thinking"),
        ("answer_only", f"<think>\n{ANSWER}", True, "a prefilled tag left open"),
        ("answer_only", f"The answer: {ANSWER}", False, "words before"),
        ("answer_only", f"<think>Slopes.</think>{ANSWER}", False, "thinking"),
    ],
)
def test_full_layout(name, completion, kept, why):
    assert check_format(completion, name, "full") is kept, why


@pytest.mark.parametrize(("words", "kept"), [(199, True), (200, False)])
@pytest.mark.parametrize("tail", [ANSWER, f"{ANSWER}<|im_end|>"])
def test_at_most_two_hundred_words_with_the_answer(words, kept, tail):
    assert check_format(f"<think>{'word ' * words}</think>{tail}", "think_answer", "full") is kept
    filler = IMAGINATION.replace(
        "A white house", "A white house " + "x " * (words - len(IMAGINATION.split()))
    )
    assert check_format(filler + tail, "imagination_cot", "full") is kept


@pytest.mark.parametrize(
    ("reasoning", "named"),
    [
        ("A single house stands there.", False),
        ("There it is. A Victorian house.", False),
        ("Building B is larger than Building A.", False),
        ("Buildings A and B touch; arrows A, B and C point north.", False),
        ("Arrow A/B, panels C & D, or roofs A, C, or D.", False),
        ("The A-frame roof and the D-shaped yard.", False),
        ("It is Bob's 3D model, seen by ABCD.", False),
        ("Between E and F.", False),
        ("a red chair, b c d", False),
        ("", False),
        ("Building B is large. So C.", True),
        ("Building B, then C.", True),
        ("/B and C", True),
        ("So B.", True),
        ("Option B fits.", True),
        ("option A looks right", True),
        ("Choice (C)", True),
        ("The answer is D", True),
        ("Therefore A", True),
        ("A is right.", True),
        ("A", True),
        ("A because it slopes", True),
        ("(A) the roof", True),
        ("I choose C over the others.", True),
        ("It matches B", True),
        ("Not A", True),
        ("**B**", True),
        ("B: a flat roof", True),
    ],
)
def test_option_letters_in_the_reasoning(reasoning, named):
    assert names_option(reasoning, "ABCD") is named
    assert check_format(f"<think>.{reasoning}</think>{ANSWER}", "think_answer", "full") is not named


def test_the_defaults_are_an_answer_at_the_end_and_four_letters():
    assert check_format(f"Any reasoning. {ANSWER}")
    assert not check_format(f"<think>So A.</think>{ANSWER}", "think_answer", "full")
    assert not check_format(f"<think>So D.</think>{ANSWER}", "think_answer", "full")
    assert check_format(f"<think>So X.</think>{ANSWER}", "think_answer", "full")


def test_only_offered_letters_are_options():
    assert names_option("So E.", "ABCDE")
    assert not names_option("So E.", "ABCD")
    assert not names_option("So B.", "")
    assert check_format(f"<think>So B.</think>{ANSWER}", "think_answer", "full", letters="")


def test_the_reward_uses_the_rows_format_and_letters():
    def format_of(completion, gold="B", mode="full", **extra_info):
        return compute_score("x", completion, gold, extra_info, format_mode=mode)["format"]

    leak = "<think>So E.</think>"
    assert format_of(leak + ANSWER, response_format="think_answer") == 1.0
    assert format_of(leak + ANSWER, response_format="think_answer", options=dict.fromkeys("ABCDE", "")) == 0.0
    number = "<think>Building is B.</think><answer>3</answer>"
    assert format_of(number, "3", response_format="think_answer", answer_type="number") == 1.0
    assert format_of(leak + ANSWER) == 0.0
    assert format_of(leak + ANSWER, mode="answer") == 1.0
    assert format_of(leak + "<answer>maybe</answer>", mode="answer") == 0.0


def test_unknown_names_are_errors():
    with pytest.raises(ValueError, match=r"response_format must be one of answer_only, .* got 'cot'"):
        check_format(ANSWER, "cot")
    with pytest.raises(ValueError, match="format mode must be one of answer, full, got 'strict'"):
        check_format(ANSWER, "answer_only", "strict")
