"""Where the release of a configuration lies: the user's folder, or a synthetic one that is drawn here."""

import shutil
from pathlib import Path

from omegaconf import DictConfig


def release_folder(run: Path, data: DictConfig) -> Path:
    """The folder of the release; a synthetic one is made first below `run`, whole or not at all."""
    if data.synthetic is None:
        return Path(data.root)
    from data_prep.synthetic import write_release

    release, unfinished = run / "release", run / "release.part"
    if not release.exists():
        shutil.rmtree(unfinished, ignore_errors=True)
        print(f"drawing a synthetic release of {data.synthetic.train_groups} training scenes", flush=True)
        write_release(
            unfinished,
            seed=data.synthetic.seed,
            train_groups=data.synthetic.train_groups,
            test_groups=data.synthetic.test_groups,
            tasks=data.tasks,
        )
        unfinished.replace(release)
    return release
