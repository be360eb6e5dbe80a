"""What a user is told when verl ends with an error."""

import pytest

from recipes.verl_log import last_errors

RAY = "\x1b[36m(TaskRunnerV1 pid=13120)\x1b[0m "
CASES = {
    "the cause behind Ray's wrappers": (
        f"{RAY}loading\n{RAY}Traceback (most recent call last):\n"
        "ray.exceptions.RayTaskError(UserError): \x1b[36mray::TaskRunnerV1.run()\x1b[39m (pid=1)\n"
        '  File "x.py", line 3, in run\n'
        "data_prep.errors.UserError: 2 of 64 RL rows cannot be trained on: a (900 tokens)\n",
        "data_prep.errors.UserError: 2 of 64 RL rows cannot be trained on: a (900 tokens)",
    ),
    "oldest first, each once": (
        "KeyError: 'a'\nduring this\nValueError: b\nKeyError: 'a'\n",
        "ValueError: b\nKeyError: 'a'",
    ),
    "an error that a worker printed": (
        "(WorkerDict pid=7, ip=10.0.0.1) torch.OutOfMemoryError: CUDA out of memory. Tried to take 2 GiB\n",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to take 2 GiB",
    ),
    "a full disk": (
        "OSError: [Errno 28] No space left on device\n",
        "OSError: [Errno 28] No space left on device",
    ),
    "no error at all": ("one\n\ntwo\n", "one\ntwo"),
    "not a sentence that names one": (
        "some Error happened\nUserWarning: x\n",
        "some Error happened\nUserWarning: x",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_last_errors(tmp_path, case):
    text, expected = CASES[case]
    log = tmp_path / "verl.log"
    log.write_text(text)
    assert last_errors(log) == expected


def test_errors_of_an_earlier_attempt_are_not_shown(tmp_path):
    log = tmp_path / "verl.log"
    log.write_text("ValueError: old\n")
    begun = log.stat().st_size
    with open(log, "a") as out:
        out.write("stopped\n")
    assert last_errors(log, begun) == "stopped"
