"""The part of prep that gives rows their auxiliary view, and leaves out those that have none.

missing_views.jsonl   every row without one: id, subset, task, category, reason
comparable.txt        the ids of all other rows: what `data.only_rows` of the variants to compare takes
views/                maps and miniatures made here (a `cache` of `data.views_*` puts them elsewhere), strips
views.jsonl           which file each view's clean picture came from
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from data_prep.atomic import sha256_file, write_jsonl, write_text
from data_prep.data_root import DataRoot
from data_prep.errors import UserError
from data_prep.images import Picture, PictureError, clean_all
from data_prep.quarantine import Quarantined
from data_prep.rows import Row
from data_prep.views.book import Book, Want
from data_prep.views.layouts import ViewFiles, takes_view
from data_prep.views.settings import paths
from recipes.progress import StepProgress

MISSING, COMPARABLE = "missing_views.jsonl", "comparable.txt"


def only_ids(only_rows: Any) -> set[str] | None:
    """The ids that stand in every file of `data.only_rows`; None where it names no file.

    A file has one id a line; of a row that is an object in JSON, `id` counts.

    Raises:
        UserError: a file cannot be read, or no id is in all of them.
    """
    files = paths(only_rows)
    if not files:
        return None
    ids = set.intersection(*(_ids(Path(file)) for file in files))
    if not ids:
        raise UserError(
            f"data.only_rows={only_rows}: no row id is in {'all of these' if files[1:] else 'it'}."
        )
    return ids


def only(items: Iterable[Row | Quarantined], ids: set[str] | None) -> Iterator[Row | Quarantined]:
    """The questions of these ids; all where `ids` is None."""
    return (item for item in items if ids is None or item.id in ids)


def gather(
    run: Path, config: DictConfig, root: DataRoot, chosen: Iterable[tuple[Row, Row]]
) -> tuple[Book, dict[str, Any]]:
    """Find or make the view of every row, and write the files above.

    Args:
        chosen: each sound row as the release has it, and with its clean pictures.

    Returns:
        the book that gives rows their views, and what the manifest says of them.

    Raises:
        UserError: `data.views_root`, the depth model or the endpoint of miniatures cannot be used.
    """
    kind, data = config.data.views, config.data
    folders = [Path(folder) for folder in paths(data.views_root)] or [root.path]
    files, store = ViewFiles(folders, kind), run / "images"
    book, without_need = Book(kind, store), []
    rows: dict[str, Row] = {}
    for row, shown in chosen:
        if takes_view(row):
            book.want(row, shown, files)
            rows[row.id] = row
        else:
            without_need.append(row.id)
    from_files = len(book.wants) - len(book.to_make)
    used = _make(run, data, book)
    with StepProgress("views", len(book.wants)) as progress:

        def clean(names: Sequence[Path]) -> Mapping[Path, Picture | PictureError]:
            found = clean_all(Path("/"), [str(p.absolute()) for p in names], store, run / "views.jsonl")
            return {path: found[str(path.absolute())] for path in names}

        book.settle(clean, run / "views" / "strips")
        progress.update(len(book.wants))
    missing = [want for want in book.wants.values() if want.fault]
    write_jsonl(
        run / MISSING,
        (
            {
                "id": want.id,
                "subset": rows[want.id].subset,
                "task": want.task,
                "category": rows[want.id].category,
                "reason": want.fault,
            }
            for want in missing
        ),
    )
    whole = [*without_need, *(want.id for want in book.wants.values() if not want.fault)]
    write_text(run / COMPARABLE, "".join(f"{row_id}\n" for row_id in whole))
    summary = {
        "kind": kind,
        "rows": len(book.wants),
        "from_files": from_files,
        "missing": len(missing),
        "missing_by_category": dict(sorted(Counter(rows[w.id].category for w in missing).items())),
        "comparable_sha256": sha256_file(run / COMPARABLE),
        **({"made": used} if used else {}),
    }
    return book, summary


def _make(run: Path, data: DictConfig, book: Book) -> dict[str, Any]:
    """Make what no file supplies, where the configuration names who makes it."""
    if not book.to_make:
        return {}
    if data.views == "depth" and data.views_depth.model is not None:
        return _depth(run, data.views_depth, book)
    if data.views == "miniature" and data.views_miniature.api is not None:
        return _miniatures(run, data.views_miniature, book)
    return {}


def _depth(run: Path, config: DictConfig, book: Book) -> dict[str, Any]:
    import recipes.torch_setup  # noqa: F401  before transformers
    from data_prep.views.depth import DepthMaps

    wanted = {i.sha256: book.store / i.path for want in book.to_make for i in want.pictures}
    maps = DepthMaps(config, Path(config.cache) if config.cache else run / "views" / "depth")
    with StepProgress("depth maps", len(wanted)) as progress:
        made = maps.make(wanted, progress.update)
    for want in book.to_make:
        want.files = [made[image.sha256] for image in want.pictures]
    return {"model": config.model, "maps": len(made)}


def _miniatures(run: Path, config: DictConfig, book: Book) -> dict[str, Any]:
    from data_prep.views.miniature import make_miniatures

    wanted = {_key(want): [book.store / i.path for i in want.pictures] for want in book.to_make}
    made, used = make_miniatures(config, wanted, run / "views" / "miniature", StepProgress)
    for want in book.to_make:
        one = made[_key(want)]
        want.files, want.fault = ([one.path], "") if one.path else (None, one.fault)
    return {"model": config.model, **used}


def _key(want: Want) -> tuple[str, ...]:
    kind = "streets" if want.symmetry else "satellite" if want.task == "s2g" else "street"
    return (kind, *(image.sha256 for image in want.pictures))


def _ids(file: Path) -> set[str]:
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"data.only_rows: {file} cannot be read ({error}). Give a file of row ids."
        ) from error
    ids = set()
    for number, line in enumerate(filter(None, lines), start=1):
        if not line.startswith("{"):
            ids.add(line)
            continue
        try:
            ids.add(str(json.loads(line)["id"]))
        except (ValueError, LookupError, TypeError) as error:
            raise UserError(f"data.only_rows: {file}, line {number} has no id. Mend the line.") from error
    return ids
