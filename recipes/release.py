"""Where the release of a configuration lies: the user's folder, or a synthetic one that is drawn here."""

import shutil
from pathlib import Path

from omegaconf import DictConfig

from recipes.progress import StepProgress


def release_folder(run: Path, data: DictConfig) -> Path:
    """The folder of the release; a synthetic one is made first below `run`, whole or not at all."""
    if data.synthetic is None:
        return Path(data.root)
    release, unfinished = run / "release", run / "release.part"
    if not release.exists():
        shutil.rmtree(unfinished, ignore_errors=True)
        _draw(unfinished, data)
        unfinished.replace(release)
    return release


def _draw(folder: Path, data: DictConfig) -> None:
    made = data.synthetic
    if data.benchmark == "monosr":
        from data_prep.monosr.synthetic import write_release as write_omni3d

        pictures = {"train": made.train_pictures, "test": made.test_pictures}
        with StepProgress("synthetic release", sum(pictures.values())) as progress:
            write_omni3d(folder, made.seed, pictures, data.sources, made.side, on_progress=progress.update)
        return
    from data_prep.synthetic import write_release

    print(f"drawing a synthetic release of {made.train_groups} training scenes", flush=True)
    write_release(folder, made.seed, made.train_groups, made.test_groups, data.tasks)
