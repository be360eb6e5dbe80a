"""The folder of every attempt: numbers, the link to the newest, and the error that is told of it."""

import os

import pytest

from recipes import attempt_logs

TORCHRUN = """\
Traceback (most recent call last):
  File "sft.py", line 3, in <module>
ValueError: rank 1 is told to fail
E1130 17:40:01.000 11 torch/distributed/elastic/multiprocessing/api.py:1 failed (exitcode: 1) local_rank: 1
Traceback (most recent call last):
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
sft.py FAILED
------------------------------------------------------------
"""


def test_attempts_are_numbered_and_the_newest_is_linked(tmp_path):
    assert attempt_logs.latest(tmp_path) is None
    first, second = attempt_logs.begin(tmp_path), attempt_logs.begin(tmp_path)
    assert [attempt.number for attempt in attempt_logs.attempts(tmp_path)] == [1, 2]
    assert attempt_logs.latest(tmp_path) == second
    link = tmp_path / "attempts" / "latest"
    assert os.readlink(link) == "attempt_2"
    assert first.facts["process"] == os.getpid()
    assert first.stdout.read_text() == first.stderr.read_text() == ""


@pytest.mark.parametrize(
    ("status", "stderr", "failed", "error"),
    [
        (7, "warning\nsft: no rows\n\n", True, "sft: no rows"),
        (1, TORCHRUN, True, "ValueError: rank 1 is told to fail"),
        (1, "E torch/distributed/elastic: failed\n", True, "E torch/distributed/elastic: failed"),
        (137, "some progress\n", True, "ended by signal 9"),
        (9, "", True, "status 9"),
        (143, "", False, "ended by signal 15"),
        (0, "a warning\n", False, "a warning"),
        (None, "", False, "it said nothing"),
    ],
)
def test_the_error_of_an_attempt(status, stderr, failed, error, tmp_path):
    attempt = attempt_logs.begin(tmp_path)
    attempt.stderr.write_text(stderr)
    if status is not None:
        attempt.end(status)
    assert (attempt.failed, attempt.error()) == (failed, error)


def test_a_folder_that_a_job_opened_counts(tmp_path):
    (tmp_path / "attempts" / "attempt_3").mkdir(parents=True)
    assert not attempt_logs.latest(tmp_path).failed
    assert attempt_logs.begin(tmp_path).number == 4
