"""Requests a second that the teacher's client gets through, as a share of what the endpoint's latency allows.

python -m bench.teacher [--json PATH] [--latency 1.0] [--requests 1920]

An endpoint in a process of its own answers every request after `latency` seconds; ideal is `concurrency /
latency`. `share` leaves out the first rounds, in which the client finds out what the endpoint bears.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from PIL import Image

from bench.stub_server import serving
from configs import TREE
from data_prep.teacher.client import Client, Request

STUB = "tests/data_prep/stub_endpoint.py"
CONCURRENCY = 64
LEAST_SHARE = 0.9
SIZES = ((512, 512), (1232, 224))  # pixels; the pictures of an Imagination request
SYSTEM = "Use these headings:\nOverview\nKey Objects\nSpatial Reasoning"
TEXT = "Picture 1 is 512 pixels wide and 512 high.\nThe right option is A."


async def ask(base_url: str, folder: Path, requests: int) -> dict[str, Any]:
    """Times of `requests` different requests with two pictures each, sent by `CONCURRENCY` workers."""
    config = OmegaConf.load(TREE / "teacher/openai.yaml")
    fixed = {"base_url": base_url, "model": "stub", "api_key_env": None, "concurrency": CONCURRENCY}
    config.merge_with(fixed)
    pictures = []
    for number, size in enumerate(SIZES):
        pictures.append(folder / f"{number}.jpg")
        Image.effect_noise(size, 60).convert("RGB").save(pictures[-1], quality=85)
    answered: list[float] = []
    waiting = iter(range(requests))
    async with Client(config, folder / "teacher") as client:

        async def work() -> None:
            for number in waiting:
                reply = await client.ask(Request(SYSTEM, f"{TEXT}\n{number}", tuple(pictures)))
                if reply.text is None:
                    raise SystemExit(f"the endpoint gave no answer: {reply.fault}")
                answered.append(time.monotonic())

        started, cpu = time.monotonic(), time.process_time()
        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
        cpu = time.process_time() - cpu
    answered.sort()
    rise = CONCURRENCY * 3
    return {
        "all": requests / (answered[-1] - started),
        "steady": (requests - rise) / (answered[-1] - answered[rise - 1]),
        "cpu_ms": 1000 * cpu / requests,
    }


def measure(latency: float, requests: int) -> dict[str, Any]:
    with serving(STUB, latency) as base_url, tempfile.TemporaryDirectory() as folder:
        rates = asyncio.run(ask(base_url, Path(folder), requests))
    ideal = CONCURRENCY / latency
    return {
        "concurrency": CONCURRENCY,
        "latency_s": latency,
        "requests": requests,
        "ideal_per_s": round(ideal, 1),
        "steady_per_s": round(rates["steady"], 1),
        "all_per_s": round(rates["all"], 1),
        "share": round(rates["steady"] / ideal, 3),
        "client_cpu_ms": round(rates["cpu_ms"], 2),
        "limit": LEAST_SHARE,
        "holds": rates["steady"] / ideal > LEAST_SHARE,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the figures to this file")
    parser.add_argument("--latency", type=float, default=1.0, help="seconds that the endpoint takes")
    parser.add_argument("--requests", type=int, default=CONCURRENCY * 30)
    arguments = parser.parse_args()
    found = measure(arguments.latency, arguments.requests)
    for name, value in found.items():
        print(f"{name:<16}{value}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0 if found["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
