"""Where the stages of a run stand: finished, running, queued, failed, cancelled, stopped or missing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from data_prep.errors import UserError
from launch.local import in_use
from launch.slurm import queue
from recipes import attempt_logs
from recipes.run_dir import RunDir
from recipes.run_progress import Progress, progress

STATES = ("finished", "running", "queued", "failed", "cancelled", "stopped", "missing")
NEVER = "DependencyNeverSatisfied"
WHY = {
    "TIMEOUT": "it ran out of time (cluster.time)",
    "NODE_FAIL": "its node failed",
    "OUT_OF_MEMORY": "it ran out of memory (cluster.memory)",
    "PREEMPTED": "another job took its place",
}


@dataclass(frozen=True)
class Run:
    """A stage's directory: the stage's name, and its label for people."""

    name: str
    label: str
    path: Path


@dataclass(frozen=True)
class RunState:
    """`job` is Slurm's id, `attempt` the number of the last start, `reason` a sentence on the state."""

    run: Run
    state: str
    reason: str | None = None
    attempt: int | None = None
    job: str | None = None
    progress: Progress | None = None

    def record(self) -> dict[str, Any]:
        """The state as JSON."""
        run = {"stage": self.run.name, "label": self.run.label, "run_dir": str(self.run.path.absolute())}
        own = {"state": self.state, "reason": self.reason, "attempt": self.attempt, "job": self.job}
        return {**run, **own, "progress": asdict(self.progress) if self.progress else None}


class Jobs:
    """The last job of every run, and what Slurm says of those; it is asked once.

    `silent` is why Slurm could not be asked, where it could not: the states are then those of the files.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._records = {run.path: records[-1] for run in runs if (records := queue.records(run.path))}
        self._names = {record["job"]: run.label for run in runs for record in queue.records(run.path)}
        self._details: dict[str, dict[str, str]] = {}
        self.silent: str | None = None
        self._states: dict[str, str] = {}
        wanted = {job for record in self._records.values() for job in (record["job"], *record["after"])}
        if wanted:
            try:
                self._states = queue.states(sorted(wanted))
            except UserError as error:
                self.silent = str(error)

    def record(self, run: Run) -> dict[str, Any] | None:
        return self._records.get(run.path)

    def state(self, job: str) -> str | None:
        """Slurm's word, or None where it does not know the job (any longer)."""
        return self._states.get(job)

    def details(self, job: str) -> Mapping[str, str]:
        if job not in self._details:
            self._details[job] = queue.details(job)
        return self._details[job]

    def named(self, job: str) -> str:
        """`sft (job 12)`."""
        return f"{self._names[job]} (job {job})" if job in self._names else f"job {job}"

    def spoiled(self, record: Mapping[str, Any]) -> str | None:
        """The first job that `record`'s waits for and that has not ended well."""
        good = (queue.GOOD, *queue.LIVE, *queue.WAITING)
        return next((job for job in record["after"] if (self.state(job) or queue.GOOD) not in good), None)


def states(runs: Sequence[Run]) -> tuple[list[RunState], str | None]:
    """The state of every run, and why Slurm could not be asked, where it could not."""
    jobs = Jobs(runs)
    return [_state(run, jobs) for run in runs], jobs.silent


def _state(run: Run, jobs: Jobs) -> RunState:
    last, record = attempt_logs.latest(run.path), jobs.record(run)
    attempt = last.number if last else None
    job = record["job"] if record else None
    if RunDir(run.path).finished:
        return RunState(run, "finished", None, attempt, job)
    how_far = progress(run.name, RunDir(run.path)) if (run.path / "config.yaml").exists() else None
    if record and (word := jobs.state(record["job"])) in (*queue.LIVE, *queue.WAITING):
        name = "queued" if word in queue.WAITING else "running"
        return RunState(run, name, _why_alive(record, word, jobs), attempt, job, how_far)
    if holder := in_use(run.path):
        return RunState(run, "running", holder, attempt, None, how_far)
    if record and jobs.state(record["job"]) and not _started_since(last, record):
        if run.name == "report" and jobs.state(record["job"]) == queue.GOOD:
            return RunState(run, "finished", None, attempt, job)
        name, reason = _ended(record, last, jobs)
        return RunState(run, name, reason, attempt, job, how_far)
    if last is None:
        return RunState(run, "missing", None, None, job)
    status = last.facts["status"]
    if last.failed:
        return RunState(run, "failed", _failure(last), attempt, None, how_far)
    if status == 0:
        return RunState(run, "failed", "it ended without a manifest.json", attempt, None, how_far)
    stopped = "it was told to stop" if status is not None else "it ended without a word, as by kill -9"
    return RunState(run, "stopped", stopped, attempt, None, how_far)


def _started_since(last: attempt_logs.Attempt | None, record: Mapping[str, Any]) -> bool:
    """Whether a launch has run the stage on its own machine since the submission."""
    started = last.facts["started"] if last else None
    return started is not None and started > record["submitted"]


def _why_alive(record: Mapping[str, Any], word: str, jobs: Jobs) -> str:
    job = record["job"]
    details = jobs.details(job)
    restarts = details.get("Restarts", "0")
    again = f", queued again {restarts} times" if restarts not in ("0", "1") else ", queued again"
    suffix = again if restarts != "0" else ""
    if word not in queue.WAITING:
        return f"job {job} on {details.get('NodeList', 'its nodes')}{suffix}"
    waits = [after for after in record["after"] if jobs.state(after) in (*queue.LIVE, *queue.WAITING)]
    if waits:
        return f"job {job} waits for {', '.join(map(jobs.named, waits))}"
    return f"job {job}: {details.get('Reason', word)}{suffix}"


def _ended(record: Mapping[str, Any], last: attempt_logs.Attempt | None, jobs: Jobs) -> tuple[str, str]:
    """State and reason of a stage whose job is over while it is not finished."""
    job = record["job"]
    word, details = jobs.state(job), jobs.details(job)
    if word == "CANCELLED":
        source = jobs.spoiled(record)
        if source is not None:
            ended = str(jobs.state(source)).lower()
            return "cancelled", f"job {job}: {jobs.named(source)}, which it waits for, has ended as {ended}"
        if details.get("Reason") == NEVER:
            return "cancelled", f"job {job}: what it waits for has failed"
        return "cancelled", f"job {job} was cancelled"
    if word == queue.GOOD:
        return "failed", f"job {job}: it ended without a manifest.json"
    code = details.get("ExitCode", "").partition(":")[0]
    how = WHY.get(str(word)) or (f"exit code {code}" if code not in ("", "0") else str(word).lower())
    error = f": {last.error()}" if last and last.stderr.exists() else ""
    return "failed", f"job {job}: {how}{error}"


def _failure(last: attempt_logs.Attempt) -> str:
    status = last.facts["status"]
    return last.error() if status > 128 else f"exit code {status}: {last.error()}"


def table(found: Sequence[RunState], place: Any) -> Iterator[str]:
    """The states as lines for people; `place` shows a path."""
    width = max(len(state.run.label) for state in found)
    yield f"{'stage':<{width}}  {'state':<9}  {'progress':<26}  {'attempt':<7}  directory"
    for state in found:
        how_far, attempt = _how_far(state.progress), state.attempt or ""
        head = f"{state.run.label:<{width}}  {state.state:<9}  {how_far:<26}  {attempt:<7}"
        yield f"{head}  {place(state.run.path)}"
        if state.reason:
            yield f"{'':<{width}}  {state.reason}"
    counts = {name: sum(state.state == name for state in found) for name in STATES}
    yield ""
    yield ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def _how_far(known: Progress | None) -> str:
    if known is None:
        return ""
    total = f" of {known.total}" if known.total is not None else ""
    each = f", {known.seconds:.1f} s each" if known.seconds is not None else ""
    return f"{known.unit.removesuffix('s')} {known.done}{total}{each}"
