"""The contract with verl and with importers: one key set, no exception, nothing but the standard library."""

import importlib.util
import json
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import rewards
from rewards import RewardOptions, compute_score

ANSWER = "<answer>B</answer>"
KEYS = {"score", "accuracy", "format", "parsed", "reason", "out_of_range"}
REWARD_FILE = Path(rewards.__file__).with_name("cvs_reward.py")


def test_a_right_answer_in_the_right_form():
    assert compute_score("cvsbench", f"It slopes. {ANSWER}", "B") == {
        "score": 1.0,
        "accuracy": 1.0,
        "format": 1.0,
        "parsed": "B",
        "reason": "",
        "out_of_range": 0,
    }


@pytest.mark.parametrize(
    ("completion", "kwargs", "score"),
    [
        (ANSWER, {}, 1.0),
        (f"{ANSWER} more", {}, 0.9),
        ("<answer>A</answer>", {}, 0.1),
        ("B", {}, 0.0),
        (f"{ANSWER} more", {"format_weight": 0.5}, 0.5),
        ("<answer>A</answer>", {"format_weight": 0.5}, 0.5),
        ("<answer>A</answer>", {"format_weight": 1.0}, 1.0),
        ("<answer>A</answer>", {"format_weight": 0}, 0.0),
        ("<answer>A</answer>", {"gate_format": True}, 0.0),
        (ANSWER, {"gate_format": True}, 1.0),
        (f"{ANSWER} more", {"gate_format": True}, 0.9),
        (f"Well. {ANSWER}", {"format_mode": "full"}, 0.9),
    ],
)
def test_combination(completion, kwargs, score):
    assert compute_score("x", completion, "B", **kwargs)["score"] == pytest.approx(score)


def test_a_gated_box_pays_format_in_proportion():
    extra_info = {"answer_type": "box"}
    half = compute_score("x", "<answer>[0, 0, 5, 10]</answer>", [0, 0, 10, 10], extra_info, gate_format=True)
    assert half["score"] == pytest.approx(0.9 * 0.5 + 0.1 * 0.5)


@pytest.mark.parametrize(
    ("tolerance", "answer", "accuracy"),
    [(0.1, "10.6", 1), (0.05, "10.6", 0), (0.05, "10.5", 1), (0, "10", 1)],
)
def test_tolerance(tolerance, answer, accuracy):
    result = compute_score(
        "x", f"<answer>{answer}</answer>", 10, {"answer_type": "number"}, tolerance=tolerance
    )
    assert result["accuracy"] == accuracy


@pytest.mark.parametrize(
    ("threshold", "accuracy"), [(None, 0.5), (0.3, 1.0), (0.5, 1.0), (0.51, 0.0), (0, 1.0), (1, 0.0)]
)
def test_iou_threshold(threshold, accuracy):
    result = compute_score(
        "x", "<answer>[0, 0, 5, 10]</answer>", [0, 0, 10, 10], {"answer_type": "box"}, iou_threshold=threshold
    )
    assert result["accuracy"] == accuracy


def test_a_threshold_of_zero_still_needs_an_overlap():
    result = compute_score(
        "x", "<answer>[20, 20, 30, 30]</answer>", [0, 0, 10, 10], {"answer_type": "box"}, iou_threshold=0
    )
    assert result["accuracy"] == 0.0


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"format_weight": 1.5}, r"format_weight must be a number in \[0, 1\], got 1.5"),
        ({"format_weight": float("nan")}, "format_weight"),
        ({"format_weight": True}, "format_weight"),
        ({"format_weight": None}, "format_weight"),
        ({"tolerance": -0.1}, "tolerance must be"),
        ({"tolerance": "0.1"}, "tolerance"),
        ({"iou_threshold": 2}, "iou_threshold must be"),
        ({"format_mode": "loose"}, "format_mode must be one of answer, full, got 'loose'"),
        ({"format_mode": ["full"]}, "format_mode"),
        ({"gate_format": 1}, "gate_format must be true or false, got 1"),
    ],
)
def test_a_wrong_option_fails_at_construction_and_earns_nothing_in_a_run(kwargs, message):
    with pytest.raises(ValueError, match=message):
        RewardOptions(**kwargs)
    result = compute_score("x", ANSWER, "B", **kwargs)
    assert (result["score"], result["reason"], set(result)) == (0.0, "bad_options", KEYS)


def test_the_ends_of_a_range_are_in_it():
    options = RewardOptions(format_weight=0, tolerance=1, iou_threshold=0.0)
    assert (options.format_weight, options.tolerance, options.iou_threshold) == (0, 1, 0.0)


def test_what_is_kept_from_an_earlier_call_does_not_let_its_equal_pass():
    """True equals 1.0 and 1 equals True, and hash alike."""
    for name, right, wrong in (("format_weight", 1.0, True), ("gate_format", True, 1)):
        assert compute_score("x", ANSWER, "B", **{name: right})["reason"] == ""
        assert compute_score("x", ANSWER, "B", **{name: wrong})["reason"] == "bad_options"


def test_arguments_of_verl_are_let_through():
    assert (
        compute_score("x", ANSWER, "B", {"index": 3, "split": "train"}, reward_router_address="a:1")["score"]
        == 1.0
    )


@pytest.mark.parametrize(
    ("extra_info", "gold"),
    [
        ("text", "B"),
        ([("answer_type", "choice")], "B"),
        ({"answer_type": "essay"}, "B"),
        ({"answer_type": 1}, "B"),
        ({"options": ["A", "B"]}, "B"),
        ({"options": {}}, "B"),
        ({"options": {"B": None}}, "B"),
        ({"options": {"b": "x"}}, "B"),
        ({"options": {"B": "x", "_": "y"}}, "B"),
        ({"options": {"BB": "x"}}, "B"),
        ({"options": {"Ä": "x"}}, "B"),
        ({"options": {1: "x"}}, "B"),
        ({"options": {"B": 1}}, "B"),
        ({"options": {"B": ["x"]}}, "B"),
        ({"response_format": "poem"}, "B"),
        ({"answer_type": "number", "unit": "parsec"}, 1),
        ({"answer_type": "number", "unit": 1}, 1),
        ({"answer_type": "box", "image_size": [1]}, [0, 0, 1, 1]),
        ({"answer_type": "box", "image_size": [1, 0]}, [0, 0, 1, 1]),
        ({"answer_type": "box", "image_size": ["1", "1"]}, [0, 0, 1, 1]),
        ({"answer_type": "box", "image_size": "11"}, [0, 0, 1, 1]),
        ({"answer_type": "box", "resized_size": [1, -1]}, [0, 0, 1, 1]),
        ({"answer_type": "box", "coordinates": "yards"}, [0, 0, 1, 1]),
        ({}, None),
        ({}, 1),
        ({}, ["B"]),
        ({}, "E"),
        ({"answer_type": "yes_no"}, 1),
        ({"answer_type": "number"}, True),
        ({"answer_type": "number"}, float("nan")),
        ({"answer_type": "number"}, float("inf")),
        ({"answer_type": "number"}, 10**400),
        ({"answer_type": "number"}, [1]),
        ({"answer_type": "box"}, [0, 0, 1]),
        ({"answer_type": "box"}, [0, 0, 1, True]),
        ({"answer_type": "box"}, [0, 0, 1, "1"]),
        ({"answer_type": "box"}, [0, 0, 0, 1]),
        ({"answer_type": "box"}, {"x": 1}),
    ],
)
def test_a_malformed_row_earns_nothing(extra_info, gold):
    answer = "<answer>yes B 1 [0, 0, 1, 1]</answer>"
    result = compute_score("x", answer, gold, extra_info)
    assert (result["score"], result["reason"], set(result)) == (0.0, "malformed_row", KEYS)


@pytest.mark.parametrize(
    ("answer", "gold", "extra_info"),
    [
        ("B", "B", None),
        ("B", "B) left table", {"options": {"A": "lamp", "B": "left table", "C": None}}),
        ("B", np.str_("B"), {"answer_type": None, "options": None, "unit": None}),
        ("yes", True, {"answer_type": "yes_no"}),
        ("no", False, {"answer_type": "yes_no"}),
        ("no", np.bool_(False), {"answer_type": "yes_no"}),
        ("B", "B", {"unit": "parsec"}),
        ("3", 3, {"answer_type": "number", "unit": "", "options": "none"}),
        ("3", 3.0, {"answer_type": "number"}),
        ("3", "3 chairs", {"answer_type": "number"}),
        ("3", np.float32(3), {"answer_type": "number"}),
        ("3", np.int64(3), {"answer_type": "number"}),
        ("[0, 0, 1, 2]", [0, 0, 1, 2], {"answer_type": "box"}),
        ("[0, 0, 1, 2]", (1.0, 2.0, 0, 0), {"answer_type": "box", "image_size": [5, 5]}),
        ("[0, 0, 1, 2]", "[0, 0, 1, 2]", {"answer_type": "box", "image_size": (5.0, 5.0)}),
        ("[0, 0, 1, 2]", np.array([0, 0, 1, 2]), {"answer_type": "box", "image_size": np.array([5, 5])}),
    ],
)
def test_golds_as_json_and_parquet_hold_them(answer, gold, extra_info):
    assert compute_score("x", f"<answer>{answer}</answer>", gold, extra_info)["score"] == 1.0


@pytest.mark.parametrize("solution", [None, 3, ["B"], {"text": ANSWER}, object(), float("nan")])
def test_what_is_no_text_earns_nothing(solution):
    result = compute_score("x", solution, "B")
    assert (result["score"], result["reason"]) == (0.0, "no_answer")


@pytest.mark.parametrize("solution", [b"<answer>B</answer>", bytearray(b"\xff\xfe<answer>B</answer>\xff")])
def test_bytes_are_read(solution):
    assert compute_score("x", solution, "B")["accuracy"] == 1.0


def test_lone_surrogates_and_nul_are_read():
    assert compute_score("x", f"\ud800\x00{ANSWER}", "B")["score"] == 1.0
    assert compute_score("x", "<answer>\ud800</answer>", "B")["reason"] == "unreadable"


def test_verl_loads_the_file_by_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("custom_module", REWARD_FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.compute_score("x", ANSWER, "B", {}, format_weight=0.2) == compute_score("x", ANSWER, "B")


WORK = [(f"<answer>{letter}</answer>", gold) for letter in "ABCDE" for gold in "ABCD"] * 20


def scored(pair):
    return compute_score("x", *pair)


@pytest.mark.parametrize(
    "executor", [ThreadPoolExecutor, partial(ProcessPoolExecutor, mp_context=get_context("spawn"))]
)
def test_threads_and_processes_agree(executor):
    with executor(max_workers=2) as pool:
        assert list(pool.map(scored, WORK, chunksize=100)) == [scored(pair) for pair in WORK]


def test_importing_loads_nothing_outside_the_standard_library():
    program = (
        "import json, sys; old = {*sys.modules}; import rewards; print(json.dumps([*{*sys.modules} - old]))"
    )
    command = [sys.executable, "-c", program]
    output = subprocess.run(
        command, cwd=REWARD_FILE.parents[1], capture_output=True, text=True, check=True
    ).stdout
    loaded = {name.partition(".")[0] for name in json.loads(output)}
    assert "rewards" in loaded
    assert loaded - set(sys.stdlib_module_names) == {"rewards"}


def test_every_exported_name_exists():
    assert sorted(rewards.__all__) == sorted(set(rewards.__all__))
    assert all(hasattr(rewards, name) for name in rewards.__all__)
