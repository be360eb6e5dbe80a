"""A grid: a list of evaluations to run and where each stands in the paper's tables.

    what: one line
    paper: the tables it stands beside
    tables: [tab4, tab5]          published tables, or `letters`, a table of ours
    cells:
      - name: imagination_grpo
        recipe: imagination_cot
        stage: grpo               base | sft | grpo: which checkpoint is evaluated
        overrides: [key=value]    what the cell changes in its recipe
        rows: {tab4: imagination_grpo, tab5: imagination_grpo}   table -> its row
        curve: imagination_cot    the published reward curve beside this cell's GRPO
        scales: [paper]           where the cell makes sense; without this, everywhere

What a cell depends on is not said: `recipes.stages.plan` tells it. Two cells that need a stage of the same
hash need the same stage, whatever their recipes are called.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from data_prep.atomic import digest
from data_prep.errors import UserError
from recipes.run_dir import RunDir
from recipes.stages import CHECKPOINT_STAGES, Stage
from recipes.tables_known import known_tables
from recipes.tables_published import CURVES, LETTERS

KEYS = {
    "grid": ("what", "paper", "tables", "cells"),
    "cell": ("name", "recipe", "stage", "overrides", "rows", "curve", "scales"),
}


@dataclass(frozen=True)
class Cell:
    """One evaluation of a grid; the fields are those of the file."""

    name: str
    recipe: str
    stage: str
    overrides: tuple[str, ...] = ()
    rows: dict[str, str] = field(default_factory=dict)
    curve: str | None = None
    scales: tuple[str, ...] | None = None

    def words(self) -> list[str]:
        """The cell as words of a command line."""
        return [f"recipe={self.recipe}", f"eval.checkpoint={self.stage}", *self.overrides]

    def at(self, scale: str) -> bool:
        return self.scales is None or scale in self.scales


@dataclass(frozen=True)
class Grid:
    """A grid file; `name` is the file's."""

    name: str
    what: str
    paper: str
    tables: tuple[str, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Planned:
    """A cell with its configuration and its evaluation, whose stages may be shared with other cells."""

    cell: Cell
    config: DictConfig
    stage: Stage


def read_grid(path: Path) -> Grid:
    """The grid of a file.

    Raises:
        UserError: a key, stage, table, row or curve that there is not, or a name that comes twice.
    """
    try:
        content = OmegaConf.to_container(OmegaConf.load(path))
    except (OmegaConfBaseException, YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {' '.join(str(error).split())}.") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} holds no keys; a grid has {', '.join(KEYS['grid'])}.")
    _known(path, "the grid", content, KEYS["grid"], required=KEYS["grid"])
    cells = [_cell(path, number, cell) for number, cell in enumerate(_list(path, "cells", content["cells"]))]
    names = [cell.name for cell in cells]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"{path}: two cells are called {twice[0]}. Rename one.")
    tables = tuple(_list(path, "tables", content["tables"]))
    _check_places(path, tables, cells)
    return Grid(path.stem, content["what"], content["paper"], tables, tuple(cells))


def _cell(path: Path, number: int, content: Any) -> Cell:
    where = f"cell {number}"
    if not isinstance(content, dict):
        raise UserError(f"{path}, {where} is no list of keys; a cell has {', '.join(KEYS['cell'])}.")
    where = f"cell {content.get('name', number)}"
    _known(path, where, content, KEYS["cell"], required=("name", "recipe", "stage"))
    _one_of(path, f"{where}, stage", content["stage"], CHECKPOINT_STAGES)
    if content.get("curve") is not None:
        _one_of(path, f"{where}, curve", content["curve"], CURVES)
    for key in ("overrides", "scales"):
        if content.get(key) is not None:
            content[key] = tuple(_list(path, f"{where}, {key}", content[key]))
    for override in content.get("overrides") or ():
        if "=" not in override:
            raise UserError(f"{path}, {where}: write {override!r} as key=value.")
    given = {key: value for key, value in content.items() if value is not None}
    if not isinstance(given.get("rows", {}), dict):
        raise UserError(f"{path}, {where}: rows takes table: row.")
    return Cell(**given)


def _check_places(path: Path, tables: Sequence[str], cells: Iterable[Cell]) -> None:
    published = known_tables()
    for table in tables:
        _one_of(path, "tables", table, (*published, LETTERS))
    taken: set[tuple[str, str]] = set()
    for cell in cells:
        for table, row in cell.rows.items():
            _one_of(path, f"cell {cell.name}, rows", table, tables)
            if table != LETTERS:
                _one_of(path, f"cell {cell.name}, rows, {table}", row, tuple(published[table].rows))
            if (table, row) in taken:
                raise UserError(f"{path}: two cells stand in row {row} of {table}. Give one another row.")
            taken.add((table, row))


def _known(
    path: Path, where: str, content: Mapping[str, Any], known: Sequence[str], required: Sequence[str]
) -> None:
    for key in content:
        _one_of(path, f"{where}: key", key, known)
    if missing := [key for key in required if content.get(key) is None]:
        raise UserError(f"{path}, {where} lacks {', '.join(missing)}.")


def _one_of(path: Path, where: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        close = get_close_matches(str(value), known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"take one of {', '.join(known)}."
        raise UserError(f"{path}, {where} {value!r} is unknown: {hint}")


def _list(path: Path, where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise UserError(f"{path}, {where}: a list is wanted.")
    return value


def share(stages: Sequence[Stage]) -> list[Stage]:
    """The same evaluations, with one stage for every hash.

    The directory of a shared stage is one that is finished, else one that was begun, in the folder of any
    recipe; else that of the first evaluation which needs it.
    """
    known: dict[str, Stage] = {}

    def shared(stage: Stage) -> Stage:
        if stage.hash not in known:
            inputs = {name: shared(source) for name, source in stage.inputs.items()}
            known[stage.hash] = _standing(replace(stage, inputs=inputs))
        return known[stage.hash]

    return [shared(stage) for stage in stages]


def _standing(stage: Stage) -> Stage:
    """`stage` where a run of it stands already; a run directory keeps the names of who made it."""
    elsewhere = sorted(stage.path.parent.parent.glob(f"*/{stage.path.name}/config.yaml"))
    folders = [stage.path, *(path.parent for path in elsewhere if path.parent != stage.path)]
    begun = [folder for folder in folders if (folder / "config.yaml").exists()]
    finished = [folder for folder in begun if RunDir(folder).finished]
    folder = next(iter([*finished, *begun, stage.path]))
    if folder == stage.path:
        return stage
    stored = RunDir(folder).config
    names = {"recipe_name": stored.recipe_name, "scale_name": stored.scale_name}
    return replace(stage, path=folder, config={**stage.config, **names})


def all_stages(work: Sequence[Planned]) -> list[Stage]:
    """Every stage once, each behind those that it depends on, the first cell's first."""
    return list({s.hash: s for planned in work for s in planned.stage.with_inputs()}.values())


def needed_by(work: Sequence[Planned], stage: Stage) -> list[str]:
    """The names of the cells that depend on `stage`."""
    return [p.cell.name for p in work if stage.hash in {s.hash for s in p.stage.with_inputs()}]


def grid_folder(grid: Grid, work: Sequence[Planned]) -> Path:
    """Where the grid's frozen list and tables stand: named by the cells' hashes, so that other options have
    another folder."""
    config = work[0].config
    scale = "" if config.scale_name == "paper" else f"-{config.scale_name}"
    identity = digest([[p.cell.name, p.stage.hash] for p in work])[:8]
    return Path(config.runs_dir) / "grids" / f"{grid.name}{scale}-{identity}"
