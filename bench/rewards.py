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
COMPLETIONS = 250
FIXED = "(fixed work)"
LENGTHS = tuple(2**power for power in (10, 12, 14, 16, 18, 20))


def completion(answer: str, words: int = 200, first: int = 0) -> str:
    """A completion in the structured format, `words` words long with its headings and its answer.

    Its prose begins with the word `first` of the sentence, so that other places begin other completions.
    """
    headings = RESPONSE_FORMATS["structured_cot"].headings
    room = words - len(" ".join([*headings, answer]).split())
    prose = (SENTENCE * words).split()[first : first + room]
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


def fixed_work() -> int:
    """Arithmetic that always takes the same steps: what its time varies by is the machine's doing."""
    return sum(range(1000))


def reward_call(answer: str, mode: str, first: int = 0) -> Callable[[], dict[str, Any]]:
    """A call of the reward for a row of `ANSWERS`; `first` as for `completion`."""
    answer_type, content, gold = ANSWERS[answer]
    row = {**ABOUT, "answer_type": answer_type, "response_format": "structured_cot"}
    text = completion(content, first=first)
    return partial(compute_score, "bench", text, gold, row, format_mode=mode)


def latency(calls: int) -> list[dict[str, Any]]:
    """Microseconds a call on 200-word completions, by answer and format mode; and those of `fixed_work`.

    `p99_us` is over `COMPLETIONS` completions, of each its quickest call, and has the limit: it tells what a
    text costs. `p99_all_us` is over all calls, and tells what the machine does to them besides. The calls of
    one completion are seconds apart.
    """
    measured: dict[tuple[str, str], list[Callable[[], object]]] = {(FIXED, "-"): [fixed_work] * COMPLETIONS}
    for mode in ("answer", "full"):
        for answer in ANSWERS:
            measured[answer, mode] = [reward_call(answer, mode, first) for first in range(COMPLETIONS)]
            for call in measured[answer, mode]:
                if call()["score"] < 0.9:
                    raise SystemExit(f"the reward no longer reads the answer of {answer}: {call()}")
    times: dict[tuple[str, str], list[list[int]]] = {name: [] for name in measured}
    for _ in range(max(calls // COMPLETIONS, 2)):
        for name, each in measured.items():
            taken = []
            for call in each:
                started = time.thread_time_ns()
                call()
                taken.append(time.thread_time_ns() - started)
            times[name].append(taken)
    records = []
    for (answer, mode), passes in times.items():
        every = sorted(one for taken in passes for one in taken)
        best = sorted(map(min, zip(*passes, strict=True)))
        limited = mode == "answer" and answer != "box"
        p99 = best[len(best) * 99 // 100] / 1000
        records.append({
            "answer": answer,
            "format_mode": mode,
            "p50_us": round(every[len(every) // 2] / 1000, 1),
            "p99_us": round(p99, 1),
            "p99_all_us": round(every[len(every) * 99 // 100] / 1000, 1),
            "limit_us": LIMIT_US if limited else None,
            "holds": not limited or p99 < LIMIT_US,
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
    figures = {"latency": latency(calls), "growth": growth(), "peers": peers(calls)}

    print(f"microseconds a call; p99: of {COMPLETIONS} completions, each with its quickest call")
    print(f"{'answer':<24}{'format mode':<12}{'p50':>8}{'p99':>8}{'limit':>7}{'p99 of all calls':>18}")
    for r in figures["latency"]:
        limit = r["limit_us"] or "-"
        print(f"{r['answer']:<24}{r['format_mode']:<12}{r['p50_us']:>8}{r['p99_us']:>8}", end="")
        print(f"{limit:>7}{r['p99_all_us']:>18}")
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
