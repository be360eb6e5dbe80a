"""Requests in a form to read: for `dry_run=true`, and for the record of a run."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from omegaconf import DictConfig

from data_prep.cvsbench import read_release
from data_prep.data_root import DataRoot
from data_prep.rows import Row
from data_prep.teacher.messages import Request
from data_prep.teacher.prompts import load_teacher_prompt

PREVIEWS = 3


def render(title: str, request: Request, root: Path) -> str:
    """A request as text: a line a picture (its path below `root`) in place of its bytes."""
    pictures = (
        f"[picture {path.relative_to(root) if path.is_relative_to(root) else path}]"
        for path in request.images
    )
    return "\n".join(
        [f"## {title}\n\n### system\n", request.system, "\n### user\n", *pictures, request.text, ""]
    )


def preview(data: DictConfig, teacher: DictConfig, response_format: str, root: Path) -> Iterator[str]:
    """The requests for the first training row of each task and subset under `root`, at most `PREVIEWS`.

    The pictures are those of the release, as they are before they are cleaned, so Structured's prompt lacks
    their sizes.

    Raises:
        UserError: the release cannot be read, or there is no prompt for its rows.
    """
    prompt = load_teacher_prompt(response_format, teacher.give_answer, teacher.prompt_file)
    release = DataRoot(root)
    shown = 0
    for subset, task in product(data.subsets, data.tasks):
        items = read_release(release, [subset], [task], "train")
        row = next((item for item in items if isinstance(item, Row)), None)
        if row is None or shown == PREVIEWS:
            continue
        shown += 1
        hidden = [release.path / image["path"] for image in row.meta["hidden_images"]]
        yield render(row.id, prompt.request(row, release.path, hidden), release.path)
