"""`launch status`, `logs`, `cancel` and `resume`: look after what was started, here or on Slurm."""

import contextlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from data_prep.errors import UserError
from launch.compose import compose, nearest
from launch.pipeline import label, shown, stages_of
from launch.run_state import Run, states, table
from launch.slurm import queue
from recipes.grid import Grid, Planned, all_stages, grid_folder

OWN = {"status": ("json",), "logs": ("follow",), "cancel": (), "resume": ()}
HELP = """\
usage: launch status|logs|cancel|resume recipe=NAME [KEY=VALUE ...]
       launch status|logs|cancel|resume grid=NAME [KEY=VALUE ...]
       launch status|logs|cancel|resume run_dir=DIR

By recipe: all stages of its pipeline, found from the configuration as by the command that ran them (give the
same options). By grid: all stages of its cells. By directory: that of one stage, or of a grid.

  launch status recipe=imagination_cot scale=tiny     finished, running, queued, failed, ... and why
  launch status run_dir=DIR json=true                 the same for programs
  launch logs recipe=imagination_cot follow=true      what the stage prints that runs, or that ran last
  launch cancel recipe=imagination_cot                end it, or take its jobs off the queue
  launch resume run_dir=DIR                           give the command again that is kept in the directory
"""


@dataclass(frozen=True)
class Selection:
    """What was named: `runs` in the order in which they run, and for `grid` the folder of the grid."""

    title: str
    runs: list[Run]
    grid: Path | None = None
    work: tuple[Grid, list[Planned]] | None = None

    def tasks(self) -> list[Run]:
        """The tasks of a grid's job array, which print which stages they run, and why they could not."""
        folders = sorted((self.grid / "cells").glob("[0-9]*")) if self.grid else []
        return [Run("task", f"task {folder.name}", folder) for folder in folders]

    def folders(self) -> list[Path]:
        """Where submissions are recorded."""
        return [run.path for run in self.runs] + ([self.grid] if self.grid else [])


def main(verb: str, words: Sequence[str], config_dir: Path | None) -> int:
    """Carry out `launch VERB WORDS` and return the exit status.

    Raises:
        UserError: the words name nothing that there is, or the verb cannot be carried out.
    """
    if {"-h", "--help"} & set(words):
        print(HELP, end="")
        return 0
    options, rest = _options(verb, words)
    selection = select(rest, config_dir)
    if verb == "status":
        return status(selection, options.get("json", False))
    if verb == "logs":
        from launch.run_logs import show

        return show([*selection.runs, *selection.tasks()], options.get("follow", False))
    if verb == "cancel":
        from launch.run_cancel import cancel

        return cancel(selection.runs, selection.folders())
    return resume(selection)


def status(selection: Selection, as_json: bool) -> int:
    """Print how far everything is; the status is 0 whatever that is."""
    if selection.work and not as_json:
        from launch.grid_words import show_status

        return show_status(*selection.work, [])
    found, silent = states(selection.runs)
    if as_json:
        print(json.dumps([state.record() for state in found], indent=2))
        return 0
    print(f"{selection.title}\n")
    for line in table(found, shown):
        print(line)
    if silent:
        print(f"\nWhat Slurm knows is left out: {silent}")
    return 0


def resume(selection: Selection) -> int:
    """Give the newest command again that is kept in a directory which is not finished.

    Raises:
        UserError: all is finished, runs or waits already, or was never begun; or the command does not lead to
            the directory any more.
    """
    found, _ = states(selection.runs)
    open_ = [state for state in found if state.state != "finished"]
    if not open_:
        raise UserError(f"{selection.title} is finished: there is nothing to resume.")
    busy = [state for state in open_ if state.state in ("running", "queued")]
    if busy:
        raise UserError(
            f"{busy[0].run.label} is {busy[0].state} ({busy[0].reason}): there is nothing to resume."
        )
    if selection.grid is not None and (alive := queue.alive(selection.grid)):
        raise UserError(
            f"{selection.title} is on the queue (job {', '.join(alive)}): there is nothing to resume."
        )
    if selection.grid is not None:
        kept = [selection.grid.resolve() / "command.txt"]
    else:
        kept = [state.run.path.resolve() / "command.txt" for state in open_]
    begun = [path for path in kept if path.exists()]
    if not begun:
        raise UserError(f"{selection.title} was never begun: there is no command to give again.")
    newest = max(begun, key=lambda path: path.stat().st_mtime)
    words, place = last_command(newest)
    if not place.is_dir() or words[:1] == ["resume"]:
        raise UserError(f"`{shlex.join(['launch', *words])}`, given in {place}, cannot be given again.")
    with contextlib.chdir(place):  # relative paths of the command start there
        _check_leads_to(newest.parent, words)
        print(f"in {place}: {shlex.join(['launch', *words])}", flush=True)
        from launch.cli import main as launch

        return launch(words)


def last_command(path: Path) -> tuple[list[str], Path]:
    """The words of the newest `launch` command in a command.txt, and the folder in which it was given.

    Raises:
        UserError: there is none.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    heads = [number for number, line in enumerate(lines[:-1]) if line.startswith("# ")]
    words = shlex.split(lines[heads[-1] + 1]) if heads else []
    if words[:1] != ["launch"]:
        raise UserError(f"{path} holds no launch command; give the command yourself.")
    _, _, folder = lines[heads[-1]].partition(" in ")
    return words[1:], Path(folder or ".")


def _check_leads_to(folder: Path, words: Sequence[str]) -> None:
    """Refuse a command that, since a configuration file has changed, would start something else.

    Raises:
        UserError: it would.
    """
    from launch.cli import take_config_dir

    rest, config_dir = take_config_dir(list(words[1:]))
    if words[0] == "grid":
        from launch.grid import find_work

        grid, work = find_work(rest, config_dir)
        found = [grid_folder(grid, work), *(stage.path for stage in all_stages(work))]
    else:
        found = [stage.path for stage in stages_of(words[0], compose(rest, config_dir))]
    if folder.resolve() not in [path.resolve() for path in found]:
        raise UserError(
            f"`{shlex.join(['launch', *words])}` does not lead to {folder} any more: a configuration file "
            "has changed since. Give the command yourself, to start anew."
        )


def select(words: Sequence[str], config_dir: Path | None) -> Selection:
    """The runs that `words` name.

    Raises:
        UserError: they name none, or something that is no run directory.
    """
    named = {key: value for key, _, value in (word.partition("=") for word in words)}
    if "run_dir" in named:
        if others := [word for word in words if not word.startswith("run_dir=")]:
            raise UserError(f"run_dir= names the run; leave {' '.join(others)} out.")
        return of_folder(Path(named["run_dir"]))
    if "grid" in named:
        from launch.grid import find_work

        grid, work = find_work(words, config_dir)
        return Selection(f"grid {grid.name}", _runs_of(work), grid_folder(grid, work), (grid, work))
    if "recipe" not in named:
        raise UserError(
            "name the run: recipe=NAME with the options of its command, grid=NAME, or run_dir=DIR."
        )
    stages = stages_of("pipeline", compose(list(words), config_dir))
    runs = [Run(stage.name, label(stage), stage.path) for stage in stages]
    report = stages[-1].path.parent / "report"
    if queue.records(report):
        runs.append(Run("report", "report", report))
    return Selection(stages[-1].path.parent.name, runs)


def of_folder(folder: Path) -> Selection:
    """The run of a directory: that of a stage, or of a grid.

    Raises:
        UserError: it is neither.
    """
    if (folder / "cells.json").exists():
        from recipes.grid_frozen import thaw

        grid, work = thaw(folder)
        return Selection(f"grid {grid.name}", _runs_of(work), folder, (grid, work))
    if not (folder / "config.yaml").exists():
        raise UserError(f"{folder} is no run directory: there is no config.yaml in it, and no cells.json.")
    name = stage_name(folder)
    return Selection(f"{name} in {shown(folder)}", [Run(name, name, folder)])


def stage_name(folder: Path) -> str:
    """Which stage's a directory is, as its submission or its command tells, else its own name.

    A directory that was given by `run_dir=` may be called anything.
    """
    if records := queue.records(folder):
        return str(records[-1]["stage"])
    path = folder / "command.txt"
    words = path.read_text(encoding="utf-8").split() if path.exists() else []
    after = [name for word, name in pairwise(words) if word == "recipes"]
    return after[-1] if after else folder.name.partition("-")[0]


def _runs_of(work: Sequence[Planned]) -> list[Run]:
    """The stages of a grid; those of several recipes have one label, so the folder stands before it."""
    return [Run(s.name, f"{s.path.parent.name}: {label(s)}", s.path) for s in all_stages(work)]


def _options(verb: str, words: Sequence[str]) -> tuple[dict[str, bool], list[str]]:
    """The verb's own options, and the words that name the run."""
    options, rest = {}, []
    for word in words:
        if word.startswith("-"):
            raise UserError(f"launch {verb} has no flag {word}: options are written KEY=VALUE.")
        key, _, value = word.partition("=")
        if key in {name for names in OWN.values() for name in names}:
            if key not in OWN[verb]:
                raise UserError(f"{key}= is not for launch {verb}.")
            if value not in ("true", "false"):
                raise UserError(f"{key}={value}: {nearest(value, ['true', 'false'])}")
            options[key] = value == "true"
        else:
            rest.append(word)
    return options, rest
