"""The last job of a chain: the report of the configuration that was kept when it was submitted.

python -m launch.slurm.report FOLDER     FOLDER/config.yaml is the composed configuration
"""

import sys
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from data_prep.errors import UserError
from launch import summary
from launch.pipeline import evaluations


def main(folder: Path) -> int:
    config = OmegaConf.load(folder / "config.yaml")
    assert isinstance(config, DictConfig)
    OmegaConf.set_struct(config, True)
    try:
        return summary.write(config, evaluations(config))
    except UserError as error:
        print(f"report: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
