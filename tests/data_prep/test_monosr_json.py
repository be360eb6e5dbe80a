"""Streamed JSON: every piece size gives the same, and a file that is cut short is never taken for whole."""

import json
import random

import pytest

from data_prep.monosr.json_arrays import BrokenJsonError, read_arrays

DOCUMENT = {
    "info": {"note": "}]{", "list": [1, {"b": "}]"}]},
    "images": [{"id": i, "s": 'é},"{' * (i % 4), "n": [i, {"x": i}]} for i in range(40)],
    "empty": [],
    "mixed": [1, -2.5, None, True, "x", [1], {"a": float("nan")}, 12345],
    "annotations": [{"id": i, "v": i / 7, "nested": {"deep": [[i]]}} for i in range(150)],
}


def read(path, piece):
    found = {"empty": []}
    for key, elements in read_arrays(path, piece):
        found.setdefault(key, []).extend(elements)
    found["info"] = found["info"][0]
    return {key: found[key] for key in DOCUMENT}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("piece", [1, 3, 50, 400, 10**6])
def test_every_piece_size_reads_the_same(tmp_path, indent, ascii_only, piece):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(DOCUMENT, indent=indent, ensure_ascii=ascii_only), encoding="utf-8")
    assert json.dumps(read(path, piece)) == json.dumps(DOCUMENT)


def test_a_file_cut_anywhere_is_refused(tmp_path):
    path, whole = tmp_path / "a.json", json.dumps(DOCUMENT).encode()
    for length in random.Random(0).sample(range(len(whole)), 80):
        path.write_bytes(whole[:length])
        with pytest.raises(BrokenJsonError, match=r"at byte [\d,]+"):
            list(read_arrays(path, 500))


@pytest.mark.parametrize(
    ("content", "offset"),
    [
        ("[1]", 0),
        ('{"a": [{"x": 1} {"y": 2}]}', 16),
        ('{"a": [{"x": 1}], }', 18),
        ('{"a": [{"x": tru}]}', 7),
        ("", 0),
    ],
)
def test_what_is_no_json_is_told_by_its_byte(tmp_path, content, offset):
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(BrokenJsonError) as broken:
        list(read_arrays(path, 64))
    assert broken.value.offset == offset


def test_memory_does_not_grow_with_the_file(tmp_path):
    """Ten times the file, the same number of elements at once."""
    most = []
    for count in (3_000, 30_000):
        path = tmp_path / f"{count}.json"
        path.write_text(json.dumps({"annotations": [{"id": i, "v": [i] * 20} for i in range(count)]}))
        most.append(max(len(elements) for _, elements in read_arrays(path, 2**16)))
    assert most[0] > 100
    assert most[1] <= 1.5 * most[0]
