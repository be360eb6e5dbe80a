"""Run one stage in this process: `python -m recipes STAGE RUN_DIR`. `launch` starts it; so can you."""

import importlib
import sys
from pathlib import Path

from data_prep.errors import UserError, full_disk
from data_prep.secrets import hide_in_tracebacks, mask
from recipes.run_dir import RunDir

MODULES = {
    "generate": "recipes.generate",
    "prep": "recipes.prep",
    "audit": "recipes.audit",
    "base": "recipes.base_model",
    "sft": "recipes.sft",
    "grpo": "recipes.grpo",
    "eval": "recipes.evaluate",
    "parity": "recipes.parity",
    "serve": "recipes.serve",
}


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1] not in MODULES:
        print(f"usage: python -m recipes {{{','.join(MODULES)}}} RUN_DIR", file=sys.stderr)
        return 2
    hide_in_tracebacks()
    stage, folder = sys.argv[1:]
    try:
        status = importlib.import_module(MODULES[stage]).run(RunDir(Path(folder).absolute()))
    except UserError as error:
        message = str(error)
    except Exception as error:
        message = full_disk(error)
        if message is None:
            raise
    else:
        return status or 0
    print(mask(f"{stage}: {message}"), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
