"""Pass on what others write to a file, as it grows."""

import codecs
from pathlib import Path
from types import TracebackType
from typing import TextIO

FOLLOW = 0.2  # seconds between looks at a file that grows


class Follower:
    """Copies what is added to the file `path` to `out`, at each `pass_on`. Context manager.

    The file has everything: when nobody reads `out` any longer, the copy ends and nothing else does.
    """

    def __init__(self, path: Path, out: TextIO) -> None:
        self._source, self._out = open(path, "rb"), out  # noqa: SIM115  closed by `__exit__`
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._read = True

    def pass_on(self) -> None:
        text = self._decoder.decode(self._source.read())
        if not text or not self._read:
            return
        try:
            self._out.write(text)
            self._out.flush()
        except BrokenPipeError:
            self._read = False

    def __enter__(self) -> "Follower":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._source.close()
