"""Follows a running GRPO: verl's metrics and the reward workers' answers become our two logs, step by step.

    rollouts.jsonl  a line an answer: step, id, gold, completion, tokens, truncated, score, accuracy, ...
    metrics.jsonl   a line a step, under names that do not change with verl's

verl and its reward workers append to files of their own (`metrics.jsonl`, `answers/` in `out`). A step
counts once its checkpoint is whole: when a killed run is taken up again, steps up to the checkpoint are
completed from those files, and later ones are dropped, to be trained anew.
"""

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from data_prep.atomic import JsonlLog, read_jsonl, write_jsonl
from data_prep.errors import UserError
from recipes.answer_metrics import answer_metrics, mean

# Our name of a metric, and verl's; the reward's parts come from the answers themselves.
HELD_OUT = "held_out"  # below verl's answers, those to rows that are held out
VERL_METRICS = {
    "kl": "actor/kl_loss",
    "entropy": "actor/entropy",
    "loss": "actor/pg_loss",
    "clip_fraction": "actor/pg_clipfrac",
    "grad_norm": "actor/grad_norm",
    "lr": "actor/lr",
    "prompt_tokens": "prompt_length/mean",
    "rollout_gap": "training/rollout_probs_diff_mean",
    "seconds": "timing_s/step",
    "seconds_old_log_prob": "timing_s/old_log_prob",
    "seconds_reference": "timing_s/ref",
    "seconds_update": "timing_s/update_actor",
    "seconds_weights": "timing_s/update_weights",
    "seconds_save": "timing_s/save_checkpoint",
}


def drop_after(folder: Path, step: int) -> None:
    """Take the steps after `step` out of the run directory's two logs."""
    for path in (folder / "metrics.jsonl", folder / "rollouts.jsonl"):
        if path.exists():
            JsonlLog(path).close()  # drops a line that was cut short
            write_jsonl(path, (record for record in read_jsonl(path) if record["step"] <= step))


class StepLogs:
    """The two logs, brought up to date by `poll` while verl runs."""

    def __init__(
        self, folder: Path, out: Path, answers_a_step: int, metrics: JsonlLog, held_out: int = 0
    ) -> None:
        """`folder` is the run directory, `out` where verl writes, `metrics` the run's open metrics log.

        `held_out` is the number of rows that are answered when a step is saved. A step that a kill cut short
        amid them has no validation.
        """
        self._out, self._per_step, self._metrics = out, answers_a_step, metrics
        self._held_out = held_out
        self._validation: dict[int, dict[int, dict[str, Any]]] = {}
        self._rollouts = JsonlLog(folder / "rollouts.jsonl")
        self._logged = {
            "metrics": {record["step"] for record in read_jsonl(folder / "metrics.jsonl")},
            "rollouts": {record["step"] for record in read_jsonl(folder / "rollouts.jsonl")},
        }
        self._read: dict[Path, int] = {}
        self._answers: dict[int, dict[tuple[int, int], dict[str, Any]]] = {}

    def __enter__(self) -> "StepLogs":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rollouts.close()

    def start_attempt(self, done: int) -> None:
        """Complete the logs up to step `done` from what an earlier attempt left, and clear that away."""
        verl = {record["step"]: record["data"] for record in self._read_new()}
        for step in sorted({*verl, *self._answers}):
            if step <= done and not self._is_logged(step):
                # verl may have been killed between saving this step and logging it.
                self._log(step, verl.get(step, {}), cut_short=True)
        self._read, self._answers, self._validation = {}, {}, {}
        (self._out / "metrics.jsonl").unlink(missing_ok=True)
        shutil.rmtree(self._out / "answers", ignore_errors=True)

    def poll(self) -> Iterator[dict[str, Any]]:
        """Log the steps that verl has finished since the last call and yield their metrics.

        Raises:
            UserError: a step, or its validation, has fewer answers than asked for; verl fills a group that
                failed with copies, and leaves out a held-out row.
        """
        for record in self._read_new():
            yield self._log(record["step"], record["data"])

    def _read_new(self) -> list[dict[str, Any]]:
        """The steps that verl finished since the last call; their answers are kept by then."""
        finished = list(self._new_records(self._out / "metrics.jsonl"))
        for path in sorted((self._out / "answers").glob("*.jsonl")):
            for answer in self._new_records(path):
                place = (answer.pop("index"), answer.pop("session"))
                self._answers.setdefault(answer["step"], {})[place] = answer
        for path in sorted((self._out / "answers" / HELD_OUT).glob("*.jsonl")):
            for answer in self._new_records(path):
                self._validation.setdefault(answer["step"], {})[answer["index"]] = answer
        return finished

    def _is_logged(self, step: int) -> bool:
        return all(step in steps for steps in self._logged.values())

    def _log(self, step: int, verl: dict[str, Any], cut_short: bool = False) -> dict[str, Any]:
        answers = self._answers.pop(step, {})
        if len(answers) < self._per_step:
            raise UserError(
                f"step {step} has {len(answers)} of {self._per_step} answers; verl.log tells which failed."
            )
        ordered = [answers[place] for place in sorted(answers)]
        if step not in self._logged["rollouts"]:
            self._rollouts.append(*ordered)
        record = step_metrics(step, ordered, verl)
        held_out = self._validation.pop(step, {})
        if held_out and len(held_out) < self._held_out and not cut_short:
            raise UserError(
                f"step {step} has {len(held_out)} of {self._held_out} answers to held-out rows; "
                "verl.log tells which failed."
            )
        if held_out and len(held_out) == self._held_out:
            record["validation_accuracy"] = mean(answer["accuracy"] for answer in held_out.values())
            record["validation_reward"] = mean(answer["score"] for answer in held_out.values())
        if step not in self._logged["metrics"]:
            self._metrics.append(record)
        return record

    def _new_records(self, path: Path) -> Iterator[dict[str, Any]]:
        """Whole lines that were added to `path` since the last call."""
        if not path.exists():
            return
        with open(path, "rb") as content:
            content.seek(self._read.get(path, 0))
            whole, newline, _ = content.read().rpartition(b"\n")
        self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
        for line in whole.splitlines():
            yield json.loads(line)


def step_metrics(step: int, answers: list[dict[str, Any]], verl: dict[str, Any]) -> dict[str, Any]:
    """One record of metrics.jsonl from a step's answers and verl's metrics, which may lack some.

    `not_finite` names those of verl that are NaN or infinite; they are left out, as JSON has no such numbers.
    """
    known = {name: verl[key] for name, key in VERL_METRICS.items() if verl.get(key) is not None}
    broken = [name for name, value in known.items() if not math.isfinite(value)]
    record = {"step": step, **answer_metrics(answers)}
    record |= {name: value for name, value in known.items() if name not in broken}
    return record | ({"not_finite": broken} if broken else {})
