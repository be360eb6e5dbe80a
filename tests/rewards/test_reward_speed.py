"""No text hangs the reward, whatever it repeats: verl would wait for it with every GPU.

How long a call takes, and that time grows with length alone, is measured by `python -m bench.rewards`.
"""

import time

import pytest

from rewards import compute_score, parse_answer

CHARACTERS = 500_000
HANGS = 5.0
"""Seconds of processor time: hundreds of times what a slow machine needs, a small part of quadratic time."""
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
def test_no_text_hangs_the_reward(answer_type, before, unit, after):
    """Milliseconds where time grows with length; minutes where a pattern or a loop is quadratic."""
    gold, about = ROWS[answer_type]
    text = before + unit * (CHARACTERS // len(unit)) + after
    started = time.thread_time()
    for layout in ("structured_cot", "think_answer"):
        row = {"answer_type": answer_type, "response_format": layout, **about}
        compute_score("x", text, gold, row, format_mode="full")
    parse_answer(text, answer_type, mode="flexible", **about)
    assert time.thread_time() - started < HANGS


@pytest.mark.parametrize("answer_type", ROWS)
@pytest.mark.parametrize("unit", REPEATED)
def test_no_answer_hangs_the_reward(answer_type, unit):
    """Milliseconds up to quadratic time in the longest span that is read; longer where a pattern is cubic."""
    gold, about = ROWS[answer_type]
    text = f"<answer>{(unit * 1000)[:999]}B</answer>"
    started = time.thread_time()
    compute_score("x", text, gold, {"answer_type": answer_type, **about})
    assert time.thread_time() - started < HANGS
