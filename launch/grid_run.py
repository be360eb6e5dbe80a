"""Run the stages of a grid one after another; what fails holds up only what depends on it."""

import time
from collections.abc import Mapping, Sequence

from data_prep.errors import UserError
from launch.grid_words import cell_line, tell_tables
from launch.local import InUse, in_use, run_stage
from launch.pipeline import duration, label, shown
from recipes.attempt_logs import INTERRUPTED
from recipes.grid import Grid, Planned, all_stages, needed_by
from recipes.grid_state import failure_of, state_of
from recipes.stages import Stage

POLL = 2.0  # seconds between looks at a stage that another launch runs
LATEST = "attempts/latest/stderr.txt"


class Runner:
    """Runs the stages of the cells `mine`, a part of the grid's `work`; `blocked` cells are left out.

    `asked` is the user's command line, for command.txt.
    """

    def __init__(
        self,
        grid: Grid,
        work: Sequence[Planned],
        mine: Sequence[Planned],
        blocked: Mapping[str, Sequence[str]],
        asked: str,
    ) -> None:
        self.grid, self.work, self.mine, self.blocked, self.asked = grid, work, mine, blocked, asked
        runnable = [planned for planned in mine if planned.cell.name not in blocked]
        self.stages = all_stages(runnable)
        self.failed: dict[str, str] = {}  # hash -> why
        self._told: set[str] = set()

    def run(self) -> int:
        """Run what is missing and write the tables; see `launch.grid.main` for the status."""
        left = [stage for stage in self.stages if not stage.finished]
        _say(
            f"{self.grid.name}: {len(self.mine)} cells, {len(self.stages)} stages, {len(left)} of them to run"
        )
        while left:
            left = self._without_held_up(left)
            ready = [s for s in left if all(source.finished for source in s.inputs.values())]
            stage = next((s for s in ready if s.finished or not in_use(s.path)), None)
            if stage is None:
                self._wait_for(ready)
                continue
            if not stage.finished:
                status = self._start(stage)
                if status in INTERRUPTED:
                    _say(f"{self.grid.name}: stopped. The same command goes on.")
                    return status
            if stage.finished or stage.hash in self.failed:
                left.remove(stage)
            if stage.finished and stage.name == "eval" and left:
                tell_tables(self.grid, self.work, quiet=True)
        return self._summary()

    def _without_held_up(self, left: list[Stage]) -> list[Stage]:
        """`left` without the stages that wait for one that failed, which fail with it."""
        kept = []
        for stage in left:
            source = next((s for s in stage.inputs.values() if s.hash in self.failed), None)
            if source is None:
                kept.append(stage)
            else:
                self.failed[stage.hash] = f"waits for {source.path.name}"
        return kept

    def _wait_for(self, held: Sequence[Stage]) -> None:
        for stage in held:
            if stage.hash not in self._told:
                self._told.add(stage.hash)
                _say(f"{label(stage)}: {in_use(stage.path) or 'another launch'} runs it; waiting")
        if held:
            time.sleep(POLL)

    def _start(self, stage: Stage) -> int:
        place = f"[{1 + self.stages.index(stage)}/{len(self.stages)}] {label(stage)}"
        cells = ", ".join(needed_by(self.mine, stage))
        taken_up = (stage.path / "config.yaml").exists()
        _say(f"{place}, for {cells}: {'goes on in' if taken_up else 'starts in'} {shown(stage.path)}")
        started = time.monotonic()
        try:
            status = run_stage(stage, self.asked, quiet=True)
        except InUse:
            return 0  # another launch was faster; it is waited for
        except UserError as error:
            self.failed[stage.hash] = str(error)
            _say(f"{place}: cannot start: {error}")
            return 2
        if status in INTERRUPTED:
            return status
        if stage.finished and status == 0:
            _say(f"{place}: done in {duration(time.monotonic() - started)}")
            return 0
        self.failed[stage.hash] = failure_of(stage) or f"status {status}"
        _say(f"{place}: failed: {self.failed[stage.hash]} (all of it in {shown(stage.path / LATEST)})")
        return status or 1

    def _summary(self) -> int:
        undone = 0
        _say("")
        for index, planned in enumerate(self.work):
            if planned not in self.mine:
                continue
            name = planned.cell.name
            reasons = self.blocked.get(name) or [
                f"{s.name}: {self.failed[s.hash]}"
                for s in planned.stage.with_inputs()
                if s.hash in self.failed
            ]
            undone += not planned.stage.finished
            _say(cell_line(index, planned, state_of(planned, in_use)))
            for reason in [] if planned.stage.finished else list(reasons)[:3]:
                _say(f"      {reason}")
        tell_tables(self.grid, self.work)
        if undone:
            _say(f"\n{undone} of {len(self.mine)} cells are not done. The same command tries them again.")
        else:
            _say(f"\nAll {len(self.mine)} cells are done.")
        return 1 if undone else 0


def _say(text: str) -> None:
    print(text, flush=True)
