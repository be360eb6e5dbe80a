"""How long one reward takes: percentiles of a call, growth with the text's length, ratio to known verifiers.

python -m bench.rewards [--json PATH] [--calls N]

Times are processor time of the calling thread, so that a busy machine does not count. `math_verify` and
`mathruler` are measured where they are installed (`pip install math-verify mathruler`).
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rewards import RESPONSE_FORMATS, compute_score

LIMIT_US = 50.0
"""Most microseconds at the 99th percentile for choice, number and yes/no, in the default format mode."""

SENTENCE = "The grey roof slopes gently toward a narrow yard beside two tall trees. "
OPTIONS = {"A": "Flat roof", "B": "Pitched / sloped roof", "C": "Mixed roof", "D": "Several separate roofs"}
ABOUT = {"options": OPTIONS, "unit": "m", "coordinates": "norm1000", "image_size": [1232, 224]}
# Row of the table -> (answer type, what stands in the block, gold).
ANSWERS: dict[str, tuple[str, str, Any]] = {
    "choice": ("choice", "B", "B"),
    "choice, boxed": ("choice", "\\boxed{B}", "B"),
    "choice, with its text": ("choice", "B) Pitched / sloped roof", "B"),
    "yes_no": ("yes_no", "Yes, it is visible.", "yes"),
    "number": ("number", "about 250 cm", 2.5),
    "number, boxed": ("number", "\\boxed{2.5}", 2.5),
    "number, in words": ("number", "two and a half meters", 2.5),
    "box": ("box", "[10, 20, 110, 220]", [12, 4, 135, 49]),
}
# Texts that take quadratic time where a pattern backtracks: (before, the unit to repeat, after).
HARD_TEXTS: dict[str, tuple[str, str, str]] = {
    "prose": ("", SENTENCE, "<answer>B</answer>"),
    "white space": ("<answer>B</answer>", " ", ""),
    "end tokens": ("<answer>B</answer>", "<|im_end|> ", ""),
    "opening tags": ("", "<answer>", ""),
    "half tags": ("", "<answer", "<answer>B</answer>"),
    "thinking": ("", "<think></think>", "<answer>B</answer>"),
    "headings": ("", "Overview\n", "<answer>B</answer>"),
    "letters": ("<think>", "E/", "</think><answer>B</answer>"),
    "brackets in the block": ("<answer>", "(", "</answer>"),
    "digits in the block": ("<answer>", "1,111", "</answer>"),
    "accents in the block": ("<answer>", "\u0301", "</answer>"),
}
ROUNDS = 10
LENGTHS = tuple(2**power for power in (10, 12, 14, 16, 18, 20))


def completion(answer: str, words: int = 200) -> str:
    """A completion in the structured format, `words` words long with its headings and its answer."""
    headings = RESPONSE_FORMATS["structured_cot"].headings
    room = words - len(" ".join([*headings, answer]).split())
    prose = (SENTENCE * words).split()[:room]
    cuts = [room * part // len(headings) for part in range(len(headings) + 1)]
    sections = [
        f"{heading}\n{' '.join(prose[start:end])}\n"
        for heading, start, end in zip(headings, cuts, cuts[1:], strict=False)
    ]
    return f"{''.join(sections)}<answer>{answer}</answer>"


def percentiles(call: Callable[[], object], calls: int) -> tuple[float, float]:
    """Microseconds at the 50th and the 99th percentile of `calls` calls."""
    times = []
    for _ in range(calls):
        started = time.thread_time_ns()
        call()
        times.append(time.thread_time_ns() - started)
    times.sort()
    return times[calls // 2] / 1000, times[calls * 99 // 100] / 1000


def quietest(call: Callable[[], object], calls: int) -> tuple[float, float]:
    """`percentiles` of the round with the lowest 99th: on a shared machine the tail is the neighbours'."""
    return min((percentiles(call, max(calls // ROUNDS, 100)) for _ in range(ROUNDS)), key=lambda p: p[1])


def fixed_work() -> int:
    """Arithmetic that always takes the same steps: what its time varies by is the machine's doing."""
    return sum(range(1000))


def reward_call(answer: str, mode: str) -> Callable[[], dict[str, Any]]:
    """A call of the reward for a row of `ANSWERS`."""
    answer_type, content, gold = ANSWERS[answer]
    row = {**ABOUT, "answer_type": answer_type, "response_format": "structured_cot"}
    return partial(compute_score, "bench", completion(content), gold, row, format_mode=mode)


def latency(calls: int) -> list[dict[str, Any]]:
    """Microseconds a call on 200-word completions, by answer and format mode."""
    records = []
    for mode in ("answer", "full"):
        for answer, (answer_type, _, _) in ANSWERS.items():
            call = reward_call(answer, mode)
            if call()["score"] < 0.9:
                raise SystemExit(f"the reward no longer reads the answer of {answer}: {call()}")
            p50, p99 = quietest(call, calls)
            limit = LIMIT_US if mode == "answer" and answer_type != "box" else None
            records.append({
                "answer": answer,
                "format_mode": mode,
                "p50_us": round(p50, 1),
                "p99_us": round(p99, 1),
                "limit_us": limit,
                "holds": limit is None or p99 < limit,
            })  # fmt: skip
    return records


def growth() -> list[dict[str, Any]]:
    """Milliseconds a call by length in characters, in full format mode; linear is 16 for a 16-fold length."""
    records = []
    for name, (before, unit, after) in HARD_TEXTS.items():
        digits, thinks = unit == "1,111", before == "<think>"
        row = {
            "answer_type": "number" if digits else "choice",
            "response_format": "think_answer" if thinks else "structured_cot",
        }
        milliseconds = {}
        for length in LENGTHS:
            text = before + (unit * (length // len(unit) + 1))[:length] + after
            call = partial(compute_score, "bench", text, 3 if digits else "B", row, format_mode="full")
            milliseconds[length] = round(percentiles(call, 7)[0] / 1000, 3)
        ratio = milliseconds[LENGTHS[-1]] / milliseconds[LENGTHS[-3]]
        records.append({"text": name, "ms": milliseconds, "growth_for_16x": round(ratio, 1)})
    return records


def peer_calls(name: str, text: str, gold: str) -> Callable[[], bool]:
    """How a reward built on a verifier calls it: both sides parsed for every completion."""
    if name == "math_verify":
        from math_verify import parse, verify

        return lambda: verify(parse(f"${gold}$"), parse(text))
    from mathruler.grader import extract_boxed_content, grade_answer

    return lambda: grade_answer(extract_boxed_content(text), gold)


def peers(calls: int) -> list[dict[str, Any]]:
    """Time of each verifier over ours, on the same completions with a boxed answer."""
    records: list[dict[str, Any]] = []
    for name in ("math_verify", "mathruler"):
        for answer, gold in (("choice, boxed", "B"), ("number, boxed", "2.5"), ("number, boxed", "2.6")):
            try:
                call = peer_calls(name, completion(ANSWERS[answer][1]), gold)
            except ImportError as error:
                records.append({"peer": name, "installed": False, "missing": error.name})
                break
            verdict = bool(call())
            ours, _ = percentiles(reward_call(answer, "answer"), calls)
            theirs, _ = percentiles(call, max(calls // 20, 20))
            records.append({
                "peer": name,
                "installed": True,
                "answer": answer,
                "gold": gold,
                "verdict": verdict,
                "p50_us": round(theirs, 1),
                "times_ours": round(theirs / ours, 1),
            })  # fmt: skip
    return records


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the figures to this file")
    parser.add_argument("--calls", type=int, default=5000, help="calls a measurement")
    arguments = parser.parse_args()
    calls = arguments.calls
    figures: dict[str, Any] = {"fixed_work": quietest(fixed_work, calls), "latency": latency(calls)}
    figures |= {"growth": growth(), "peers": peers(calls)}

    print(f"microseconds a call, the quietest of {ROUNDS} rounds of {max(calls // ROUNDS, 100)} calls")
    print(f"{'answer':<24}{'format mode':<12}{'p50 us':>8}{'p99 us':>8}{'limit':>7}")
    p50, p99 = figures["fixed_work"]
    print(f"{'(fixed work)':<36}{p50:>8.1f}{p99:>8.1f}{'-':>7}")
    for r in figures["latency"]:
        limit = r["limit_us"] or "-"
        print(f"{r['answer']:<24}{r['format_mode']:<12}{r['p50_us']:>8}{r['p99_us']:>8}{limit:>7}")
    print(f"\n{'ms by characters':<24}" + "".join(f"{length:>10,}" for length in LENGTHS) + f"{'16x':>8}")
    for r in figures["growth"]:
        print(
            f"{r['text']:<24}" + "".join(f"{ms:>10}" for ms in r["ms"].values()) + f"{r['growth_for_16x']:>8}"
        )
    print(f"\n{'verifier':<14}{'answer':<18}{'gold':<6}{'verdict':<9}{'p50 us':>10}{'times ours':>12}")
    for r in figures["peers"]:
        if r["installed"]:
            print(f"{r['peer']:<14}{r['answer']:<18}{r['gold']:<6}{r['verdict']!s:<9}", end="")
            print(f"{r['p50_us']:>10}{r['times_ours']:>12}")
        else:
            print(f"{r['peer']:<14}not installed (no module {r['missing']})")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0 if all(r["holds"] for r in figures["latency"]) else 1


if __name__ == "__main__":
    sys.exit(main())
