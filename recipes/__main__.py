"""Run one stage in this process: `python -m recipes STAGE RUN_DIR`. `launch` starts it; so can you."""

import importlib
import sys
from pathlib import Path

from data_prep.errors import UserError
from recipes.run_dir import RunDir

MODULES = {
    "prep": "recipes.prep",
    "base": "recipes.base_model",
    "sft": "recipes.sft",
    "grpo": "recipes.grpo",
    "eval": "recipes.evaluate",
}


def main() -> int:
    stage, folder = sys.argv[1:]
    try:
        importlib.import_module(MODULES[stage]).run(RunDir(Path(folder)))
    except UserError as error:
        print(f"{stage}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
