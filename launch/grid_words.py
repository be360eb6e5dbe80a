"""What `launch grid` prints: the plan, the status, and where the tables are."""

import json
from collections.abc import Sequence

from data_prep.errors import UserError
from launch import estimate
from launch.local import in_use
from launch.pipeline import label, shown
from launch.preflight import findings
from launch.slurm import queue
from recipes.grid import Cell, Grid, Planned, all_stages, grid_folder, needed_by
from recipes.grid_scores import score_of
from recipes.grid_state import STATES, CellState, state_of


def show_plan(grid: Grid, work: Sequence[Planned], without: Sequence[Cell]) -> int:
    """Print the cells, their stages in the order in which they run, and what stands in the way."""
    print(f"# {grid.name}: {grid.what}\n\n# Cells\n")
    for index, planned in enumerate(work):
        places = ", ".join(f"{table} row {row}" for table, row in planned.cell.rows.items())
        print(f"{index:>3}  {planned.cell.name:<18} {' '.join(planned.cell.words())}")
        print(f"     {places}")
    for cell in without:
        print(f"  -  {cell.name:<18} only at scale={' or '.join(cell.scales or ())}")
    print("\n# Stages, in the order in which they run\n")
    for number, stage in enumerate(all_stages(work), 1):
        begun = (stage.path / "config.yaml").exists()
        state = "finished" if stage.finished else "to go on" if begun else "to run"
        cells = needed_by(work, stage)
        shared = f"shared by {', '.join(cells)}" if len(cells) > 1 else f"for {cells[0]}"
        print(f"{number:>3}  {label(stage)} ({state}), {shared}")
        print(f"     {shown(stage.path)}")
    print(f"\n# Tables\n\n{shown(grid_folder(grid, work))}: {', '.join(grid.tables)}\n")
    if work[0].config.cluster.name == "slurm":
        from launch.slurm.grid import plan_lines

        print("\n".join(plan_lines(work, grid_folder(grid, work))))
    if estimated := estimate.table(work[0].config, all_stages(work)):
        print("\n".join(["# Estimate\n", *estimated, ""]))
    print("# This machine\n")
    found = {line: None for p in work for line in findings(p.config, p.stage.with_inputs())}
    for line in found:
        print(f"- {line}")
    print("It could not all start here." if found else "Nothing stands in the way.", "This was a dry run.")
    return 0


def show_status(grid: Grid, work: Sequence[Planned], without: Sequence[Cell]) -> int:
    """Print how far every cell is; the status is 0 whatever they are."""
    states, silent = [state_of(planned, in_use) for planned in work], None
    folder = grid_folder(grid, work)
    if queue.records(folder):
        from launch.slurm.grid import with_queue

        try:
            states = with_queue(states, folder)
        except UserError as error:
            silent = f"What Slurm knows is left out: {error}"
    print(f"{grid.name}: {grid.what}\n")
    print(f"{'':>3}  {'cell':<18} {'state':<8} {'stages':<7} {'tries':<6} {'accuracy':<24} directory")
    for index, (planned, state) in enumerate(zip(work, states, strict=True)):
        print(cell_line(index, planned, state))
        if state.error:
            print(f"      {state.error}")
    for cell in without:
        print(f"  -  {cell.name:<18} only at scale={' or '.join(cell.scales or ())}")
    counts = {name: sum(state.state == name for state in states) for name in STATES}
    print("\n" + ", ".join(f"{count} {name}" for name, count in counts.items() if count))
    if silent:
        print(silent)
    return 0


def cell_line(index: int, planned: Planned, state: CellState) -> str:
    done, wanted = state.stages
    accuracy = ""
    if state.state == "done":
        scores = json.loads((planned.stage.path / "scores.json").read_text(encoding="utf-8"))
        score = score_of(scores["overall"], planned.config.scoring)
        if score is not None:
            accuracy = f"{100 * score.value:.1f} % ({100 * score.low:.1f} to {100 * score.high:.1f})"
    folder = shown((state.failed or planned.stage).path)
    stages, tries = f"{done}/{wanted}", str(state.attempts or "")
    head = f"{index:>3}  {planned.cell.name:<18} {state.state:<8} {stages:<7} {tries:<6}"
    return f"{head} {accuracy:<24} {folder}"


def tell_tables(grid: Grid, work: Sequence[Planned], quiet: bool = False) -> None:
    """Write the tables from the cells that are finished; without any, say so.

    `quiet` is for tables in between: the next cell's replace them, so a fault of theirs is only told.

    Raises:
        UserError: an evaluation cannot be read.
    """
    if not any(planned.stage.finished for planned in work):
        if not quiet:
            print("\nNo cell is finished, so there are no tables.")
        return
    from recipes.tables import write_tables

    folder = grid_folder(grid, work)
    try:
        written = write_tables(grid, work, folder, work[0].config.scoring)
    except UserError as error:
        if not quiet:
            raise
        print(f"tables: {error}", flush=True)
        return
    if not quiet:
        print("\n" + "\n".join(f"tables: {shown(path)}" for path in written))
