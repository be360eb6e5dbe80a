"""The part of MonoSR's prep that has a model name objects and reword questions (`data.wording`).

captions/<side>/   phrases for objects, in files of a few hundred images; with `data.wording.captions`
worded/<side>/     the rows of questions/<side> in the model's words; rewriting.json is in the manifest
replies/           every paid reply; the same command goes on from them
"""

import asyncio
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from data_prep.monosr.captions import WithCaptions, caption
from data_prep.monosr.chunks import Read
from data_prep.monosr.produce import CHUNK
from data_prep.monosr.rewriting import rewrite
from recipes.progress import StepProgress

SECTION = "data.wording"


def captioned(
    run: Path, wording: DictConfig, side: str, read: Read, images: int, pictures: Path
) -> tuple[Read, dict[str, int]]:
    """`read` with the model's phrases for objects where it is asked for any, and what became of the objects.

    Args:
        images: how many `read` numbers. `pictures`: the folder below which their pictures lie.

    Raises:
        UserError: as `data_prep.monosr.captions.caption` does.
    """
    if wording.model is None or not wording.captions:
        return read, {}
    captions = WithCaptions(read, run / "captions" / side, CHUNK)
    with StepProgress(f"captions ({side})", images) as progress:
        found = asyncio.run(
            caption(captions, images, pictures, wording, run / "replies", SECTION, progress.update)
        )
    return captions, dict(sorted(found.items()))


def reworded(run: Path, wording: DictConfig, side: str, seed: int) -> dict[str, Any]:
    """Write `worded/<side>` where a model is asked, and return its report; nothing where none is.

    Raises:
        UserError: as `data_prep.monosr.rewriting.rewrite` does.
    """
    if wording.model is None:
        return {}
    source = run / "questions" / side
    with StepProgress(f"wording ({side})", len(list(source.glob("questions-*.jsonl")))) as progress:

        def tell(done: int, of: int) -> None:
            progress.update(done)

        return asyncio.run(
            rewrite(
                source, run / "worded" / side, wording, run / "replies", seed, wording.share, SECTION, tell
            )
        )


def questions(run: Path, wording: DictConfig, side: str) -> Path:
    """The folder of a side's rows: those in a model's words where one is asked."""
    return run / ("questions" if wording.model is None else "worded") / side
