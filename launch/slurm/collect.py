"""The last job of a grid: write the tables from the cells that are finished, and say how all of them ended.

python -m launch.slurm.collect GRID
"""

import sys
from pathlib import Path

from data_prep.errors import UserError
from launch.grid_words import show_status, tell_tables
from recipes.grid_frozen import thaw


def main(folder: Path) -> int:
    grid, work = thaw(folder)
    show_status(grid, work, [])
    try:
        tell_tables(grid, work)
    except UserError as error:
        print(f"tables: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
