"""cells.json: a grid as it was planned, for jobs that run one cell each and for whoever looks after them.

    {"grid": {name, what, paper, tables},
     "cells": [{"index", "name", "words", "hash", "run_dir", "stages", "cell", "config"}, ...],
     "stages": {hash: {"name", "run_dir", "config", "inputs": {name: hash}}}}

Nothing is composed anew from it: a configuration file that changes in between changes no cell of it.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from data_prep.atomic import write_json
from recipes.grid import Cell, Grid, Planned, all_stages
from recipes.stages import Stage

NAME = "cells.json"


def freeze(folder: Path, grid: Grid, work: Sequence[Planned], asked: Sequence[str]) -> Path:
    """Write cells.json: what each cell of this grid is, by index. `asked` are the user's words for all."""
    path, runs = folder / NAME, Path(work[0].config.runs_dir).absolute()
    cells = [
        {
            "index": index,
            "name": planned.cell.name,
            "words": [*planned.cell.words(), *(word for word in asked if not word.startswith("cell="))],
            "hash": planned.stage.hash,
            "run_dir": str(planned.stage.path.absolute()),
            "stages": [stage.path.name for stage in planned.stage.with_inputs()],
            "cell": asdict(planned.cell),
            "config": {**_container(planned.config), "cell": None, "runs_dir": str(runs)},
        }
        for index, planned in enumerate(work)
    ]
    own = {"name": grid.name, "what": grid.what, "paper": grid.paper, "tables": list(grid.tables)}
    stages = {stage.hash: _stage(stage) for stage in all_stages(work)}
    text = json.dumps({"grid": own, "cells": cells, "stages": stages})
    if not path.exists() or json.loads(path.read_text(encoding="utf-8")) != json.loads(text):
        write_json(path, json.loads(text))
    return path


def thaw(folder: Path) -> tuple[Grid, list[Planned]]:
    """The grid and its cells that `freeze` has written to `folder`."""
    frozen = json.loads((folder / NAME).read_text(encoding="utf-8"))
    stages: dict[str, Stage] = {}
    for identity, kept in frozen["stages"].items():  # each behind those that it depends on
        inputs = {name: stages[source] for name, source in kept["inputs"].items()}
        stages[identity] = Stage(kept["name"], Path(kept["run_dir"]), kept["config"], identity, inputs)
    work = [
        Planned(_cell(kept["cell"]), _config(kept["config"]), stages[kept["hash"]])
        for kept in frozen["cells"]
    ]
    own = frozen["grid"]
    cells = tuple(planned.cell for planned in work)
    return Grid(own["name"], own["what"], own["paper"], tuple(own["tables"]), cells), work


def _stage(stage: Stage) -> dict[str, Any]:
    inputs = {name: source.hash for name, source in stage.inputs.items()}
    return {
        "name": stage.name,
        "run_dir": str(stage.path.absolute()),
        "config": stage.config,
        "inputs": inputs,
    }


def _container(config: DictConfig) -> dict[str, Any]:
    container = OmegaConf.to_container(config, resolve=True)
    assert isinstance(container, dict)
    return container


def _cell(kept: dict[str, Any]) -> Cell:
    return Cell(**{key: tuple(value) if isinstance(value, list) else value for key, value in kept.items()})


def _config(kept: dict[str, Any]) -> DictConfig:
    config = OmegaConf.create(kept)
    assert isinstance(config, DictConfig)
    OmegaConf.set_struct(config, True)
    return config
