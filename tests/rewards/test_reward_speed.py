"""No text makes the reward slow: time grows with length, whatever the text repeats.

`python -m bench.rewards` measures; here bounds that hold on any machine keep a quadratic pattern out.
"""

import time

import pytest

from rewards import compute_score, parse_answer

CHARACTERS = 25_000
ANSWER = "<answer>B</answer>"
# fmt: off
REPEATED = [
    "(", "[", "{", "<", '"', "'", "*", "`", "$", "\\(", "\\boxed{", "\\text{", "\\frac{", "{a", "【", "½",
    "²", "1 ", "1,111", "1.1.", "1/", "1e", "10^", "-", "~", "=", ".", "? ", ", ", "x=1,", " x", "A ", "A)",
    "A) ", "is ", "so ", "about ", "a ", "one ", "and ", "hundred ", "m ", "ft ", "1 ft ", "nan ", "yes ",
]
# fmt: on
ROWS = {
    "choice": ("B", {"options": {"A": "lamp", "B": "left table"}}),
    "yes_no": ("yes", {}),
    "number": (2.5, {"unit": "m"}),
    "box": ([0, 0, 1, 1], {}),
}


@pytest.mark.parametrize("answer_type", ROWS)
@pytest.mark.parametrize(
    ("before", "unit", "after"),
    [
        ("", "The roof slopes. ", ANSWER),
        ("", "The roof slopes. ", ""),
        (ANSWER, " ", "x"),
        (ANSWER, "</s> ", ""),
        ("", "<answer>", ""),
        ("", "</think>", ANSWER),
        ("", "the answer is ", ""),
        ("", "answer ", ":"),
        ("", "Overview\n", ANSWER),
        ("", "# ", ANSWER),
        ("<think>", "(A)", f"</think>{ANSWER}"),
        ("<think>", "X/", f"</think>{ANSWER}"),
        ("<answer>", " ", "B</answer>"),
        ("<answer>", "(", "</answer>"),
        ("<answer>", "ﷺ", "</answer>"),
    ],
)
def test_32_times_the_text_takes_less_than_256_times_as_long(answer_type, before, unit, after):
    """A quadratic pattern would take 1,024 times as long; what no longer fits the cache takes its share."""
    gold, about = ROWS[answer_type]

    def seconds(characters: int) -> float:
        text = before + unit * (characters // len(unit)) + after
        started = time.thread_time()
        for layout in ("structured_cot", "think_answer"):
            row = {"answer_type": answer_type, "response_format": layout, **about}
            compute_score("x", text, gold, row, format_mode="full")
        parse_answer(text, answer_type, mode="flexible", **about)
        return time.thread_time() - started

    short = min(seconds(CHARACTERS) for _ in range(3))
    assert min(seconds(32 * CHARACTERS) for _ in range(2)) < 256 * short


@pytest.mark.parametrize("answer_type", ROWS)
@pytest.mark.parametrize("unit", REPEATED)
def test_the_longest_span_takes_less_than_a_tenth_of_a_second(answer_type, unit):
    gold, about = ROWS[answer_type]
    text = f"<answer>{(unit * 1000)[:999]}B</answer>"
    started = time.thread_time()
    compute_score("x", text, gold, {"answer_type": answer_type, **about})
    assert time.thread_time() - started < 0.1
