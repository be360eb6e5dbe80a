"""Read the top-level arrays of a JSON file of any size with flat memory.

Omni3D's files are one object whose arrays (`images`, `annotations`, ...) hold up to millions of objects.
About a megabyte is decoded at once: everything up to its last `}` is put in brackets and parsed as a whole.
That is valid JSON exactly where the piece holds whole elements of one array, so nothing has to count
brackets. Where it is not (the end of an array, `NaN`, which Python writes and JSON does not know), the
elements are decoded one at a time.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import orjson

PIECE = 2**20  # bytes decoded at once
MAX_VALUE = 2**26  # bytes of one element, or of a value that is no array
_DECODER = json.JSONDecoder()
_SPACE = b" \t\r\n"


class BrokenJsonError(ValueError):
    """The file is cut short or is no JSON of this form. `offset` is the byte at which it was noticed."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(f"{message} at byte {offset:,}")
        self.offset = offset


def read_arrays(path: Path, piece: int = PIECE) -> Iterator[tuple[str, list[Any]]]:
    """Yield (key, some elements in their order) of every array of the file's object, in the file's order.

    A value that is no array comes as one element. Memory is a few times `piece`, or one element where that is
    larger; it does not grow with the file.

    Raises:
        BrokenJsonError: what was read so far was sound, the rest is not.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        yield from _Reader(file, piece).members()


class _Reader:
    def __init__(self, file: BinaryIO, piece: int) -> None:
        self._file, self._piece = file, piece
        self._buffer, self._at, self._passed, self._ended = b"", 0, 0, False

    def members(self) -> Iterator[tuple[str, list[Any]]]:
        self._more(self._piece)
        if self._buffer.startswith(b"\xef\xbb\xbf"):
            self._at = 3
        self._expect(b"{")
        if self._peek() == b"}":
            return
        while True:
            if self._peek() != b'"':
                raise self._broken("there is no key")
            key = self._value()
            self._expect(b":")
            if self._peek() == b"[":
                self._at += 1
                for elements in self._array():
                    yield key, elements
            else:
                yield key, [self._value()]
            if self._peek() != b",":
                break
            self._at += 1
        self._expect(b"}")

    def _array(self) -> Iterator[list[Any]]:
        """Elements up to the closing bracket; the opening one is behind us."""
        if self._peek() == b"]":
            self._at += 1
            return
        while True:
            yield self._whole_piece() or self._one_by_one()
            after = self._peek()
            if after not in (b",", b"]"):
                raise self._broken("an array is not closed" if after else "the file ends inside an array")
            self._at += 1
            if after == b"]":
                return

    def _whole_piece(self) -> list[Any]:
        """All elements of the next piece, or none where it has to be looked at closely."""
        self._more(self._piece)
        cut = self._buffer.rfind(b"}", self._at) + 1
        if cut <= self._at:
            return []
        try:
            elements = orjson.loads(b"[" + self._buffer[self._at : cut] + b"]")
        except orjson.JSONDecodeError:
            return []
        self._at = cut
        return elements

    def _one_by_one(self) -> list[Any]:
        """The next element, and those after it as far as the buffer and the array go."""
        elements = [self._value()]
        # Bytes that are no UTF-8 come through as lone surrogates, so characters can be counted back into
        # bytes.
        text = self._buffer[self._at :].decode("utf-8", "surrogateescape")
        end = 0
        while True:
            start = _skip(text, end)
            if text[start : start + 1] != ",":
                break
            try:
                element, after = _DECODER.raw_decode(text, _skip(text, start + 1))
            except (json.JSONDecodeError, RecursionError):
                break  # the next call says what is wrong
            if not _closed(text, after):
                break
            elements.append(element)
            end = after
        self._at += len(text[:end].encode("utf-8", "surrogateescape"))
        return elements

    def _value(self) -> Any:
        """The value that starts here, however long."""
        self._peek()
        wanted = self._piece
        while True:
            self._more(wanted)
            text = self._buffer[self._at :].decode("utf-8", "surrogateescape")
            try:
                value, end = _DECODER.raw_decode(text)
            except (json.JSONDecodeError, RecursionError) as error:
                if self._ended or wanted >= MAX_VALUE:
                    what = "the file is cut short" if self._ended else "this is no JSON"
                    raise self._broken(f"{what} ({error})") from error
            else:
                if _closed(text, end) or self._ended or wanted >= MAX_VALUE:
                    self._at += len(text[:end].encode("utf-8", "surrogateescape"))
                    return value
            wanted *= 4

    def _more(self, wanted: int) -> None:
        """Have `wanted` bytes ahead, or all that there are."""
        ahead = len(self._buffer) - self._at
        if ahead >= wanted or self._ended:
            return
        read = self._file.read(wanted - ahead)
        self._passed += self._at
        self._buffer, self._at = self._buffer[self._at :] + read, 0
        self._ended = len(read) < wanted - ahead

    def _peek(self) -> bytes:
        """The next byte that is no white space, left where it is; b"" at the end of the file."""
        while True:
            while self._at < len(self._buffer):
                if self._buffer[self._at] not in _SPACE:
                    return self._buffer[self._at : self._at + 1]
                self._at += 1
            if self._ended:
                return b""
            self._more(self._piece)

    def _expect(self, mark: bytes) -> None:
        found = self._peek()
        if found != mark:
            raise self._broken(f"{mark.decode()!r} is missing" if found else "the file ends too soon")
        self._at += 1

    def _broken(self, message: str) -> BrokenJsonError:
        return BrokenJsonError(message, self._passed + self._at)


def _closed(text: str, at: int) -> bool:
    """Whether a value that ends here ends for certain: "-2" may be the beginning of "-2.5"."""
    return (start := _skip(text, at)) < len(text) and text[start] in ",]}:"


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
