"""GRPO by verl's own trainer: start, follow and resume it, and keep what it trained in transformers format.

    probe.json          what the start checkpoint can do, before the first step
    verl/checkpoints/   verl's checkpoints, the last few and the best by validation
    sets/               the RL set without the rows that are held out (grpo.validation_rows), and those
    verl.log            everything verl printed, of every attempt
    rollouts.jsonl      every answer of every step with its reward and the reward's parts
    checkpoint/         the trained model, with its card

Killed at any moment and started again, the stage goes on from the last whole checkpoint.
"""

import contextlib
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pyarrow
import pyarrow.parquet
from omegaconf import DictConfig

from data_prep.errors import UserError
from recipes import VERL, held_out, ray_cluster, stop, verl_checkpoints, verl_overrides
from recipes.model_card import card
from recipes.monitors import Watch
from recipes.probe import probe, refuse_flat
from recipes.progress import StepProgress
from recipes.rollouts import StepLogs, drop_after
from recipes.run_dir import RunDir
from recipes.stages import checkpoint_path
from recipes.tracking import metrics_log
from recipes.trust import refuse_remote_code
from recipes.verl_checkpoints import is_whole, merge, resume_point, steps, tidy
from recipes.verl_log import last_errors
from recipes.verl_process import ray_folder, verl_process

POLL = 0.5  # seconds
PROBED = ("pass_at_1", "pass_at_4", "pass_at_8", "all_wrong", "all_right", "flat", "format")


def run(run: RunDir) -> int:
    """Train on the prepared RL set from the SFT checkpoint.

    Returns 0, or `stop.STOPPED` when its job asked it to end before the last step.

    Raises:
        UserError: verl is missing or another version, the RL set or the start checkpoint is missing or unfit,
            verl ended with an error, or a monitor in `grpo.monitors.stop_on` raised an alarm.
    """
    config, prep = run.config, run.inputs["prep"].path
    _check_verl()
    out, log_path = run.path / "verl", run.path / "verl.log"
    _count_rows(prep / "rl.parquet")
    rows, aside = held_out.write_sets(config, prep, out)
    start = checkpoint_path(run, "sft")
    if not Path(start).is_dir():
        raise UserError(f"there is no checkpoint to start from at {start}; run launch sft first.")
    refuse_remote_code(start, config.model)
    overrides = verl_overrides.overrides(config, prep, start, out, rows)
    total = verl_overrides.total_steps(config, rows)

    folder, keep = out / "checkpoints", config.grpo.keep_checkpoints
    done, newest = resume_point(folder, keep, run.metrics())
    drop_after(run.path, done)
    found = probe(run) if done == 0 else None
    if found:
        refuse_flat(found, config.grpo.probe.max_flat_share)
    with (
        metrics_log(run) as metrics,
        StepLogs(run.path, out, _answers_a_step(config), metrics, aside) as logs,
    ):
        logs.start_attempt(done)
        if found and not run.metrics():
            metrics.append({"step": 0, **{f"probe_{name}": found[name] for name in PROBED}})
        watch = Watch(config.grpo.monitors)
        for record in sorted(run.metrics(), key=lambda record: record["step"]):
            watch.see(record)
        _stop_on_alarm(run, watch, done)
        if done < total:
            _train(run, [*overrides, *_resuming(newest)], logs, watch, done, total)
            done, newest = resume_point(folder, keep, run.metrics())
    if done < total and _asked_to_stop(run):
        return stop.STOPPED
    if newest is None or done < total:
        raise RuntimeError(f"verl ended at step {done} of {total} without an error; see {log_path}.")
    best = verl_checkpoints.best(run.metrics(), folder)
    taken = done if config.grpo.take == "last" or best is None else best
    print(f"GRPO: keeping step {taken} as {run.path / 'checkpoint'}", flush=True)
    facts = {
        "steps": done,
        "rows": rows,
        "answers": done * _answers_a_step(config),
        "start": start,
        "verl": VERL,
        "overrides": overrides,
        **({"validation_rows": aside, "best": best, "taken": taken} if aside else {}),
    }
    with open(log_path, "a", encoding="utf-8") as log, contextlib.redirect_stdout(log):
        merge(folder / f"global_step_{taken}", run.path / "checkpoint", config.model, card(run, facts))
    if config.model.freeze_vision:
        from recipes.backbone import check_frozen

        check_frozen(start, str(run.path / "checkpoint"))
    run.finish(facts)
    return 0


def _asked_to_stop(run: RunDir) -> bool:
    """Whether the job that carries the run asked it to end, and a checkpoint was saved since."""
    if not (stop.listens(run.config) and stop.requested(run.path)):
        return False
    saved = steps(run.path / "verl" / "checkpoints")
    newest = saved[max(saved)] if saved else None
    return stop.answered(run.path, newest) and newest is not None and is_whole(newest)


def _check_verl() -> None:
    try:
        found = version("verl")
    except PackageNotFoundError:
        raise UserError(f"GRPO needs verl; pip install verl=={VERL}.") from None
    if found != VERL:
        raise UserError(f"this recipe is written for verl {VERL}, not {found}; pip install verl=={VERL}.")


def _count_rows(path: Path) -> int:
    if not path.exists():
        raise UserError(f"there is no RL set at {path}; run launch prep first.")
    try:
        return pyarrow.parquet.read_metadata(path).num_rows
    except pyarrow.ArrowInvalid as error:
        raise UserError(f"{path} is no parquet file ({error}); run launch prep again.") from error


def _answers_a_step(config: DictConfig) -> int:
    return config.grpo.batch_size * config.grpo.group_size


def _resuming(checkpoint: Path | None) -> list[str]:
    if checkpoint is None:
        return ["trainer.resume_mode=disable"]
    path = verl_overrides.render(str(checkpoint.resolve()))
    return ["trainer.resume_mode=resume_path", f"trainer.resume_from_path={path}"]


def _stop_on_alarm(run: RunDir, watch: Watch, step: int) -> None:
    """Raise a UserError when a monitor that is to end the run is above its limit; verl must have ended."""
    if watch.stopping is None:
        return
    name, folder = watch.stopping.monitor, run.path / "verl" / "checkpoints"
    saved, _ = resume_point(folder, run.config.grpo.keep_checkpoints, run.metrics())
    kept = f"Step {saved} is kept in {folder}" if saved else "No checkpoint was saved before"
    raise UserError(
        f"stopped at step {step} by the monitor {watch.stopping}\n"
        f"{kept}, and the run counts as not finished. The same command goes on from there with {name} left "
        f"out of grpo.monitors.stop_on, or with a higher grpo.monitors.{name}."
    )


def _train(run: RunDir, overrides: list[str], logs: StepLogs, watch: Watch, done: int, total: int) -> None:
    """Run verl to its end or to an alarm that stops it, logging every step as it is finished."""
    out, log_path = run.path / "verl", run.path / "verl.log"
    note, records = out / "process.json", run.metrics()
    command = verl_overrides.command(overrides)
    environment = verl_overrides.environment(run.config, out)
    cluster = None if run.config.cluster.name == "local" else ray_cluster.address()
    with ray_folder(note) as folder, open(log_path, "a", encoding="utf-8") as log:
        begun = log.tell()
        print(f"GRPO: starting verl{f' from step {done}' if done else ''}", flush=True)
        with (
            StepProgress("GRPO", total, already=done) as progress,
            verl_process(command, environment, folder, note, log, cluster) as process,
        ):
            while not watch.stopping:
                ended = process.poll() is not None
                for record in logs.poll():
                    done = record["step"]
                    records.append(record)
                    tidy(out / "checkpoints", done, run.config.grpo.keep_checkpoints, records)
                    progress.update(done, f"reward {record['reward']:.3f} accuracy {record['accuracy']:.3f}")
                    for alarm in watch.see(record):
                        print(f"GRPO: warning at step {done}: {alarm}", flush=True)
                    if watch.stopping:
                        break
                if ended or _asked_to_stop(run):
                    break
                time.sleep(POLL)
    _stop_on_alarm(run, watch, done)
    if process.returncode and not _asked_to_stop(run):
        raise UserError(
            f"verl ended with status {process.returncode}; {log_path} has the whole story:\n"
            f"{last_errors(log_path, begun)}"
        )
