"""A server of the tests in a process of its own, so that it does not share the client's interpreter."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def serving(stub: str, latency: float) -> Iterator[str]:
    """The base_url of the script `stub` (a path in the repository), which answers after `latency` seconds."""
    command = [sys.executable, ROOT / stub, "--latency", str(latency)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
