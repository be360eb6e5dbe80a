"""Prepare a release: read, check, clean the pictures, halve, attach reasoning, write the sets.

    images/           clean pictures, named by content
    images.jsonl      which file of the release each came from
    halves.json       the half, sft or rl, of every training scene
    rows/{sft,rl,test}.jsonl
    rl.parquet        the RL half in verl's form
    missing_views.jsonl, comparable.txt, views/   with data.views=: rows without a view, ids of the others
    teacher/, teacher_report.{md,json}   with teacher=openai: replies, reasoning, what was rejected
    quarantine.jsonl  every question set aside, with file, line and reason
    manifest.json     counts, hashes, and the proof that no scene is on two sides

The release is read twice, once to choose and once to write, so no row is kept in memory (a model that teaches
and auxiliary views take another reading each; the SFT half, and the rows with views, are kept). The pictures
and the teacher are the long part; what an interrupted run has cleaned or paid for is not cleaned or paid for
again.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from data_prep.atomic import read_jsonl, sha256_file, write_json
from data_prep.cvsbench import find_files, normalise_category, read_release
from data_prep.cvsbench.layout import Split
from data_prep.data_root import DataRoot
from data_prep.errors import UserError
from data_prep.images import Picture, PictureError
from data_prep.prompts import load_prompt
from data_prep.quarantine import Quarantined
from data_prep.rows import Row
from data_prep.scoring import deal_letters
from data_prep.selection import Selection, select
from data_prep.sets import write_rl_parquet
from data_prep.splits import Half, assign_halves, read_halves
from data_prep.tally import Tally
from data_prep.teacher.files import Taught, read_taught
from data_prep.views.book import Book
from recipes.prep_rows import (
    ASIDE_FOR,
    SETS,
    clean_pictures,
    set_aside,
    with_pictures,
    with_reasoning,
    write_rows,
)
from recipes.prep_views import gather, only, only_ids
from recipes.release import release_folder
from recipes.run_dir import RunDir


def run(run: RunDir) -> None:
    """Fill the run directory of the prep stage.

    Raises:
        UserError: the release or the teacher's file is incomplete or broken; pictures cannot be read and
            `data.allow_unreadable` is not set; or a set would be empty.
    """
    if run.config.data.benchmark == "monosr":
        from recipes import prep_monosr

        return prep_monosr.run(run)
    config = run.config
    for left in [*run.path.glob(".*.part"), *run.path.glob("rows/.*.part")]:
        left.unlink()  # half a file of an attempt that was killed
    root = DataRoot(release_folder(run.path, config.data))
    prompt = load_prompt(config.prompt, config.data.views)
    taught = None if config.teacher.kind == "openai" else read_taught(config.teacher, root, prompt.format)
    ids = only_ids(config.data.only_rows)

    def read(split: Split) -> Iterator[Row | Quarantined]:
        return only(read_release(root, config.data.subsets, config.data.tasks, split), ids)

    selection = select(
        test=read("test"),
        train=read("train"),
        categories=_categories(config.data),
        max_test_rows=config.data.max_test_rows,
        max_train_groups=config.data.max_train_groups,
        seed=config.seed,
    )
    kept = read_halves(Path(config.data.halves)) if config.data.halves else {}
    halves = assign_halves(selection.train_groups, config.seed, kept)
    write_json(run.path / "halves.json", dict(sorted(halves.items())))
    pictures = clean_pictures(run.path, root, selection.pictures)
    if taught is None:
        taught = _teach(run.path, config, root, _chosen(read, selection, halves), pictures)

    book, views = None, None
    if config.data.views != "none":
        sound = _sound(_chosen(read, selection, halves), pictures, taught, prompt.format)
        book, views = gather(run.path, config, root, sound)
    shuffle = config.data.shuffle_options

    def finish(item: Row | Quarantined, half: str) -> Row | Quarantined:
        if isinstance(item, Row):
            item = with_pictures(item, pictures)
        if isinstance(item, Row) and book is not None:
            item = _with_view(item, book)
        if isinstance(item, Row) and half == "sft" and config.teacher.kind != "none":
            item = with_reasoning(item, taught, prompt.format)
        if isinstance(item, Row) and shuffle:
            item = deal_letters(item, config.seed)
        return item

    tally = write_rows(run.path, _chosen(read, selection, halves), finish)
    _check(run.path, config.data, selection, tally)
    rows = (Row.from_json(record) for record in read_jsonl(run.path / "rows/rl.jsonl"))
    images = (run.path / "images").resolve()
    write_rl_parquet(run.path / "rl.parquet", rows, tally.option_letters["rl"], images, prompt)
    run.finish(_manifest(run.path, config, root, taught, prompt.hash, len(pictures), tally, views))


def _categories(data: DictConfig) -> set[str] | None:
    if data.categories is None:
        return None
    return {normalise_category(name, subset) for name in data.categories for subset in data.subsets}


def _chosen(
    read: Callable[[Any], Iterator[Row | Quarantined]], selection: Selection, halves: dict[str, Half]
) -> Iterator[tuple[str, Row | Quarantined]]:
    """Every chosen question with the set it belongs to."""
    for item in read("train"):
        if not selection.takes_train(item):
            continue
        if isinstance(item, Row) and selection.leaks(item):
            item = set_aside(item, "its scene is also in the test files", "leak")
        yield halves.get(item.group, "sft"), item
    for item in read("test"):
        if selection.takes_test(item):
            yield "test", item


def _teach(
    run: Path,
    config: DictConfig,
    root: DataRoot,
    chosen: Iterator[tuple[str, Row | Quarantined]],
    pictures: dict[str, Picture | PictureError],
) -> Taught:
    """The SFT rows' reasoning from a model. Nothing is paid for where `_check` will refuse the pictures."""
    rows, broken = [], False
    for name, item in chosen:
        shown = with_pictures(item, pictures) if isinstance(item, Row) else item
        if isinstance(shown, Quarantined):
            broken |= shown.kind == "picture"
        elif name == "sft":
            rows.append(shown)
    if not rows or (broken and not config.data.allow_unreadable):
        return Taught({}, {}, {})
    from recipes.prep_teacher import teach

    return teach(run, config, root, rows)


def _sound(
    chosen: Iterator[tuple[str, Row | Quarantined]],
    pictures: dict[str, Picture | PictureError],
    taught: Taught,
    response_format: str,
) -> Iterator[tuple[Row, Row]]:
    """Every row that a set will hold if it has a view, as it came and with its clean pictures."""
    for name, item in chosen:
        shown = with_pictures(item, pictures) if isinstance(item, Row) else item
        if name == "sft" and isinstance(shown, Row):
            shown = with_reasoning(shown, taught, response_format)
        if isinstance(item, Row) and isinstance(shown, Row):
            yield item, shown


def _with_view(row: Row, book: Book) -> Row | Quarantined:
    with_view = book.apply(row)
    return set_aside(row, with_view, "view") if isinstance(with_view, str) else with_view


def _check(run: Path, data: DictConfig, selection: Selection, tally: Tally) -> None:
    listed = f"Every one is listed in {run / 'quarantine.jsonl'}"
    if tally.quarantined:
        kinds = ", ".join(f"{count} {ASIDE_FOR[kind]}" for kind, count in sorted(tally.quarantined.items()))
        print(f"prep: {tally.quarantined.total()} questions set aside ({kinds}). {listed}.", flush=True)
    if tally.quarantined["picture"] and not data.allow_unreadable:
        raise UserError(
            f"{tally.quarantined['picture']} questions have a picture that is missing or cannot be read. "
            f"{listed}. Mend the release and give the same command, or leave them out with "
            "data.allow_unreadable=true."
        )
    for name in SETS:
        if not tally.rows[name]:
            seen = ", ".join(selection.categories_seen) or "none"
            raise UserError(
                f"No question is left for the {name} set (data.categories={data.categories}; the release has "
                f"{seen}; {tally.quarantined.total()} set aside). {listed}."
            )


def _manifest(
    run: Path,
    config: DictConfig,
    root: DataRoot,
    taught: Taught,
    prompt_hash: str,
    pictures: int,
    tally: Tally,
    views: dict[str, Any] | None,
) -> dict[str, Any]:
    sources = [
        {**asdict(source), "sha256": sha256_file(root.path / source.path)}
        for split in ("train", "test")
        for source in find_files(root, config.data.subsets, config.data.tasks, split)
    ]
    made = [f"rows/{name}.jsonl" for name in SETS]
    made += ["rl.parquet", "quarantine.jsonl", "images.jsonl", "halves.json"]
    return {
        "benchmark": config.data.benchmark,
        "root": str(root.path),
        "sources": sources,
        "teacher": {"kind": config.teacher.kind, **taught.summary},
        "prompt": {"format": config.prompt.format, "hash": prompt_hash},
        "split": {"by": "image group", "seed": config.seed, "kept": config.data.halves},
        **tally.summary(),
        "pictures": pictures,
        **({"views": views} if views else {}),
        "files": {name: sha256_file(run / name) for name in made},
    }
