"""Rows a second that evaluation gets through a server, against its latency and a plain loop; and the memory.

python -m bench.evaluation [--json PATH] [--latency 1.0] [--rows 1920] [--most 20000]

A server in a process of its own answers every request after `latency` seconds; ideal is `concurrency /
latency`. `share` leaves out the first rounds, in which the client finds out what the server bears. The loop
asks the same server one row after the other with the openai client. Memory is the peak of a process that
answers a whole set of small pictures, from a server without latency (`peak`), and then scores it (`scored`).
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image

from bench.stub_server import ROOT, serving
from data_prep.atomic import read_jsonl, write_jsonl
from data_prep.prompts import load_prompt
from data_prep.rows import ImageRef, Row
from launch.compose import compose
from recipes import engines, reward_settings
from recipes.scores import predict, summarise

STUB = "tests/recipes/eval_endpoint.py"
CONCURRENCY = 64
LEAST_SHARE = 0.9
MOST_GROWTH = 1.1  # of the peak of memory, from FEW rows to `most`
MOST_A_ROW = 1.0  # KiB that a further row adds to the peak of scoring
FEW = 2000
LOOP = 12  # rows of the plain loop
LARGE, SMALL = (512, 512), (64, 48)  # pixels of the pictures, for speed and for memory
PICTURES = 100


def make_set(folder: Path, count: int, size: tuple[int, int]) -> None:
    """`count` rows on `PICTURES` pictures, rows of a picture together."""
    for number in range(PICTURES):
        path = folder / f"images/{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise(size, 60).convert("RGB").save(path, quality=85)
    options = {"A": "in the north", "B": "in the south", "C": "in the east"}
    rows = (
        Row(
            id=f"cvsbench/fov/s2g/{number:06d}.1.q0", benchmark="cvsbench", subset="fov", task="s2g",
            category="position", group=f"fov/{number // 4}",
            images=(ImageRef(f"{number * PICTURES // count}.jpg", "satellite", "", *size),),
            question=f"Where does building number {number} stand?", options=options, answer="ABC"[number % 3],
        )
        for number in range(count)
    )  # fmt: skip
    write_jsonl(folder / "rows.jsonl", (row.to_json() for row in rows))


def answer_all(folder: Path, base_url: str) -> dict[str, float]:
    """Answer the rows of a set through the engine, and say how fast and in how much memory."""
    config = compose(
        [
            "recipe=imagination_cot", "eval.engine=openai", f"eval.endpoint.base_url={base_url}",
            f"eval.endpoint.concurrency={CONCURRENCY}",
        ]
    )  # fmt: skip
    prompt, reward = load_prompt(config.prompt), reward_settings.options(config.reward)
    answered: list[float] = []
    started, cpu = time.monotonic(), time.process_time()
    failures = engines.answer(
        engines.Job(
            config=config,
            seed=0,
            checkpoint="endpoint",
            prompt=prompt,
            images=folder / "images",
            rows=map(Row.from_json, read_jsonl(folder / "rows.jsonl")),
            log=folder / "predictions.jsonl",
            record=lambda row, completion: predict(row, *completion, prompt.format, reward),
            on_records=lambda records, _: answered.extend([time.monotonic()] * len(records)),
            on_engine=lambda _: None,
        )
    )
    cpu = time.process_time() - cpu
    if failures:
        raise SystemExit(f"{len(failures)} rows were not answered")
    peak = _peak()
    summarise(read_jsonl(folder / "predictions.jsonl"))
    rise = min(CONCURRENCY * 3, len(answered) - 2)
    return {
        "rows": len(answered),
        "all": len(answered) / (answered[-1] - started),
        "steady": (len(answered) - rise) / (answered[-1] - answered[rise - 1]),
        "cpu_ms": 1000 * cpu / len(answered),
        "peak": peak,
        "scored": _peak(),
    }


def _peak() -> float:
    """The most memory that this process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def loop(folder: Path, base_url: str) -> float:
    """Rows a second of a loop that a newcomer would write, over the first rows of a set."""
    import openai

    from data_prep.endpoint.wire import data_url, image_part
    from data_prep.prompts import build_messages

    prompt = load_prompt(compose(["recipe=imagination_cot"]).prompt)
    rows = [
        Row.from_json(record)
        for record, _ in zip(read_jsonl(folder / "rows.jsonl"), range(LOOP), strict=False)
    ]
    client = openai.OpenAI(base_url=base_url, api_key="none")
    started = time.monotonic()
    for row in rows:
        [message] = build_messages(row, prompt)
        shown = [image_part(data_url(folder / "images" / image.path)) for image in row.images]
        content = [*shown, message["content"][-1]]
        client.chat.completions.create(model="stub", messages=[{"role": "user", "content": content}])  # type: ignore[misc,list-item]
    return len(rows) / (time.monotonic() - started)


def in_a_process(folder: Path, base_url: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.evaluation", "--answer", str(folder), base_url]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def measure(latency: float, rows: int, most: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_set(folder / "speed", rows, LARGE)
        with serving(STUB, latency) as base_url:
            speed = in_a_process(folder / "speed", base_url)
            one_by_one = loop(folder / "speed", base_url)
        memory = []
        for count in (FEW, most):
            make_set(folder / str(count), count, SMALL)
            with serving(STUB, 0.0) as base_url:
                memory.append(in_a_process(folder / str(count), base_url))
    ideal = CONCURRENCY / latency
    few, many = memory
    a_row = 1024 * (many["scored"] - few["scored"]) / (most - FEW)
    return {
        "concurrency": CONCURRENCY,
        "latency_s": latency,
        "rows": rows,
        "ideal_per_s": round(ideal, 1),
        "steady_per_s": round(speed["steady"], 1),
        "all_per_s": round(speed["all"], 1),
        "share": round(speed["steady"] / ideal, 3),
        "client_cpu_ms": round(speed["cpu_ms"], 2),
        "loop_per_s": round(one_by_one, 2),
        "times_the_loop": round(speed["steady"] / one_by_one, 1),
        f"peak_mib_{FEW}": round(few["peak"], 1),
        f"peak_mib_{most}": round(many["peak"], 1),
        "growth": round(many["peak"] / few["peak"], 3),
        f"scored_mib_{FEW}": round(few["scored"], 1),
        f"scored_mib_{most}": round(many["scored"], 1),
        "scored_kib_a_row": round(a_row, 2),
        "limits": f"share > {LEAST_SHARE}, growth < {MOST_GROWTH}, scored_kib_a_row < {MOST_A_ROW}",
        "holds": speed["steady"] / ideal > LEAST_SHARE
        and many["peak"] / few["peak"] < MOST_GROWTH
        and a_row < MOST_A_ROW,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the figures to this file")
    parser.add_argument("--latency", type=float, default=1.0, help="seconds that the server takes")
    parser.add_argument("--rows", type=int, default=CONCURRENCY * 30)
    parser.add_argument("--most", type=int, default=20_000, help="rows of the larger set, for memory")
    parser.add_argument("--answer", nargs=2, metavar=("FOLDER", "URL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.answer:
        print(json.dumps(answer_all(Path(arguments.answer[0]), arguments.answer[1])))
        return 0
    found = measure(arguments.latency, arguments.rows, arguments.most)
    for name, value in found.items():
        print(f"{name:<18}{value}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0 if found["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
