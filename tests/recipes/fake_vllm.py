"""Stands in for the `vllm` executable: serves the endpoint of the tests in the ways in which vLLM starts.

FAKE_VLLM in the environment says how: ready after a while (late), dies at the start (dies), or never answers
(never). It leaves its words in FAKE_VLLM_WORDS and, when it is ended by SIGTERM, "ended" behind them.
"""

import asyncio
import json
import os
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[2]))
LATE = 1.0  # seconds


def install(folder: Path, monkeypatch: Any, mode: str = "late") -> Path:
    """Put a `vllm` on the path; returns the file of its words."""
    script = folder / "bin" / "vllm"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE}" "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("FAKE_VLLM", mode)
    monkeypatch.setenv("FAKE_VLLM_WORDS", str(folder / "words.json"))
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    return folder / "words.json"


def main(words: list[str]) -> None:
    note = Path(os.environ["FAKE_VLLM_WORDS"])
    note.write_text(json.dumps(words) + "\n")
    signal.signal(signal.SIGTERM, lambda *_: end(note))
    print("INFO loading the weights", flush=True)
    mode = os.environ["FAKE_VLLM"]
    if mode == "dies":
        sys.exit("ValueError: No available memory for the cache blocks.")
    if mode == "never":
        time.sleep(600)
    time.sleep(LATE)
    asyncio.run(serve(dict(zip(words[2::2], words[3::2], strict=True))))


def end(note: Path) -> None:
    with open(note, "a") as out:
        out.write("ended\n")
    os._exit(0)


async def serve(flags: dict[str, str]) -> None:
    import eval_endpoint

    eval_endpoint.MODEL = flags["--served-model-name"]
    stub = eval_endpoint.EvalStub(port=int(flags["--port"]))
    await stub.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])
