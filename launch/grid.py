"""`launch grid`: plan a grid's cells, run the stages that they need, each once, and write the tables.

The stages run one after another on this machine; with `cluster=slurm` they are submitted, as
`launch.slurm.grid` says. `cell=N` runs one cell of the list in cells.json here, with what it depends on;
launches that need the same stage wait for each other.
"""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from configs import TREE
from data_prep.errors import UserError
from launch.compose import GRIDS, compose, nearest
from launch.grid_run import Runner
from launch.local import asked_command, note_command
from launch.preflight import findings
from recipes.grid import Cell, Grid, Planned, grid_folder, read_grid, share
from recipes.grid_frozen import freeze
from recipes.grid_scores import MODES
from recipes.stages import plan

HELP = """\
usage: launch grid grid=NAME [KEY=VALUE ...]

Run the cells of a grid, each stage once however many cells need it, and write its tables.

  launch grid                                   the grids
  launch grid grid=cvsbench_cot dry_run=true    its cells and stages; nothing is started
  launch grid grid=cvsbench_cot scale=tiny      run what is missing, on a laptop
  launch grid grid=cvsbench_cot status=true     done, running, failed, missing
  launch grid grid=cvsbench_cot cell=2          one cell of the list
  launch grid grid=cvsbench_cot cluster=slurm cluster.max_cells=4   a job array, four cells at a time

Every other KEY=VALUE goes to all cells; --config-dir DIR looks for DIR/grid/NAME.yaml too.
scoring=strict|flexible|official chooses the reading that the tables take.
"""


def main(words: Sequence[str], config_dir: Path | None, asked: Sequence[str]) -> int:
    """Carry out `launch grid WORDS` (`asked`: the whole command line); return the exit status.

    0: all cells asked for are done. 1: some are not. Otherwise 128 + n, when signal n ended it.

    Raises:
        UserError: the words or the grid are wrong, or no cell could start; nothing was started then.
    """
    if {"-h", "--help"} & set(words):
        print(HELP, end="")
        return 0
    if flag := next((word for word in words if word.startswith("-")), None):
        raise UserError(f"launch grid has no flag {flag}: options are written KEY=VALUE.")
    if not words:
        return _list(config_dir)
    grid, work = find_work(words, config_dir)
    config = work[0].config
    _check_options(config, len(work))
    if config.dry_run:
        from launch.grid_words import show_plan

        return show_plan(grid, work, left_out(grid, config))
    if config.status:
        from launch.grid_words import show_status

        return show_status(grid, work, left_out(grid, config))
    if config.cluster.name == "slurm" and config.cell is not None:
        raise UserError(
            "cell= runs one cell here; on Slurm the array does: leave it out, or give cluster=local."
        )
    mine = work if config.cell is None else [work[config.cell]]
    blocked = preflight(mine)
    folder = grid_folder(grid, work)
    freeze(folder, grid, work, _options(words))
    note_command(folder, asked_command(asked))
    if config.cluster.name == "slurm":
        from launch.slurm.grid import submit_grid

        return submit_grid(grid, work, blocked, folder, asked_command(asked))
    return Runner(grid, work, mine, blocked, asked_command(asked)).run()


def find_work(words: Sequence[str], config_dir: Path | None) -> tuple[Grid, list[Planned]]:
    """The grid that `words` name, and its cells with the other words.

    Raises:
        UserError: they name none, or as `plan_grid`.
    """
    name = [word.removeprefix("grid=") for word in words if word.startswith("grid=")]
    files = grid_files(config_dir)
    if len(name) != 1 or name[0] not in files:
        given = f"there is no grid {name[0]!r}: {nearest(name[0], list(files))}" if len(name) == 1 else None
        raise UserError(given or f"name one grid: grid={' or grid='.join(files)}.")
    grid = read_grid(files[name[0]])
    return grid, plan_grid(grid, _options(words), config_dir)


def _options(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith("grid=")]


def grid_files(config_dir: Path | None = None) -> dict[str, Path]:
    """The grids by name: ours, and those of the user's own tree, which come first."""
    roots = [TREE, *([config_dir] if config_dir else [])]
    return {path.stem: path for root in roots for path in sorted((root / GRIDS).glob("*.yaml"))}


def plan_grid(grid: Grid, options: Sequence[str], config_dir: Path | None = None) -> list[Planned]:
    """Every cell that the scale has, with its stages; equal stages of several cells are one.

    Raises:
        UserError: an option is wrong, or is what the cells differ in.
    """
    _check_keys(grid, options)
    scale = next((word.removeprefix("scale=") for word in options if word.startswith("scale=")), "paper")
    cells = [cell for cell in grid.cells if cell.at(scale)]
    if not cells:
        raise UserError(f"{grid.name} has no cell for scale={scale}.")
    configs = [compose(_words(cell, options), config_dir) for cell in cells]
    stages = share([plan(config, "eval") for config in configs])
    return [Planned(cell, config, stage) for cell, config, stage in zip(cells, configs, stages, strict=True)]


def preflight(work: Sequence[Planned]) -> dict[str, list[str]]:
    """Cell -> what stands in its way.

    Raises:
        UserError: no cell can start.
    """
    found = {p.cell.name: findings(p.config, p.stage.with_inputs()) for p in work}
    blocked = {name: lines for name, lines in found.items() if lines}
    if len(blocked) == len(work):
        lines = list(dict.fromkeys(line for lines in blocked.values() for line in lines))
        lead = "" if len(lines) == 1 else f"{len(lines)} things stand in the way:\n  - "
        raise UserError(lead + "\n  - ".join(lines))
    return blocked


def left_out(grid: Grid, config: DictConfig) -> list[Cell]:
    """The cells that the scale does not have."""
    return [cell for cell in grid.cells if not cell.at(config.scale_name)]


def _words(cell: Cell, options: Sequence[str]) -> list[str]:
    """The cell's words and the user's; of a key that both set, the user's."""
    given = {_key(option) for option in options}
    return [*(word for word in cell.words() if _key(word) not in given), *options]


def _key(word: str) -> str:
    return word.partition("=")[0].lstrip("+~")


def _check_keys(grid: Grid, options: Sequence[str]) -> None:
    set_by_cells = {"recipe", "recipe_name", "eval.checkpoint"}
    for key in {_key(word) for cell in grid.cells for word in cell.overrides}:
        if len({tuple(w for w in cell.overrides if _key(w) == key) for cell in grid.cells}) > 1:
            set_by_cells.add(key)
    for option in options:
        key = _key(option)
        if key in set_by_cells:
            raise UserError(f"{option}: the cells of {grid.name} set {key} themselves. Leave it out.")
        if key in ("run_dir", "check"):
            raise UserError(f"{option}: a grid has many run directories and audits none. Leave it out.")


def _check_options(config: DictConfig, cells: int) -> None:
    if config.scoring not in MODES:
        raise UserError(f"scoring={config.scoring} is unknown: {nearest(config.scoring, MODES)}")
    if config.cell is not None and config.cell not in range(cells):
        raise UserError(
            f"cell={config.cell}: the cells are numbered 0 to {cells - 1} (dry_run=true shows them)."
        )


def _list(config_dir: Path | None) -> int:
    """Print the grids, a block each."""
    for name, path in grid_files(config_dir).items():
        grid = read_grid(path)
        print(name)
        print(f"  what      {grid.what}")
        print(f"  paper     {grid.paper}")
        print(f"  cells     {', '.join(cell.name for cell in grid.cells)}")
        print(f"  command   launch grid grid={name}\n")
    print("Add scale=tiny for a laptop, dry_run=true to see what it would do, status=true how far it is.")
    return 0
