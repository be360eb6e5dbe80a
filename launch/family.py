"""Everything that a stage starts ends with it, and nothing else on the machine is touched.

A signal to the stage's process group misses what left the group, as Ray's and vLLM's processes do. So while a
stage runs, this process takes in every orphan among what was started below it (Linux): what is left of the
stage when it has ended are then its children, and only those.
"""

import ctypes
import sys
from types import TracebackType

import psutil

PR_SET_CHILD_SUBREAPER = 36
GRACE = 1.0  # seconds in which what is on its way out may end by itself
PATIENCE = 10.0  # seconds that the kernel may take to end what was killed
ROUNDS = 5  # what is killed may leave orphans in turn


class Family:
    """Context manager around one stage; when the block is left, nothing that was started in it runs."""

    def __enter__(self) -> "Family":
        self._before = set(psutil.Process().children(recursive=True))
        _take_in_orphans(True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        psutil.wait_procs(self._left(), timeout=GRACE)
        for _ in range(ROUNDS):
            if not (left := self._left()):
                break
            for process in left:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    continue
            psutil.wait_procs(left, timeout=PATIENCE)
        _take_in_orphans(False)

    def _left(self) -> list[psutil.Process]:
        return [p for p in psutil.Process().children(recursive=True) if p not in self._before]


def _take_in_orphans(wanted: bool) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(wanted))
