"""Prepare MonoSR: read Omni3D, filter, ask, balance, clean the pictures, write the sets.

    index/, observed/, questions/   on the way there; removed in the end
    captions/, worded/, replies/    with a model for words (recipes/prep_wording.py); replies/ stays
    observability.{json,md}, observability/   what the filter did, with example pictures
    examples.html   pictures of every source with marks and boxes drawn, and what is asked about them
    images/, images.jsonl, rows/, rl.parquet, halves.json, quarantine.jsonl, manifest.json   as of any release

Annotations, images and files that cannot be used are set aside by file and id, and the rest goes on. The
files' own splits decide what is trained on and what is tested (`data.train_splits`, `data.test_splits`).
Memory grows with the number of images, not with that of questions; what an interrupted run has indexed,
asked or cleaned is kept.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from data_prep.atomic import digest, read_jsonl, sha256_file, write_json, write_jsonl
from data_prep.data_root import DataRoot
from data_prep.errors import UserError
from data_prep.monosr.auxiliary_rows import Item, all_with_auxiliary
from data_prep.monosr.chunks import Read
from data_prep.monosr.filter import Thresholds
from data_prep.monosr.filter_report import FilterTally, write_report
from data_prep.monosr.long_tail import marked, rare
from data_prep.monosr.observed import Observed, observe_all
from data_prep.monosr.options import Options
from data_prep.monosr.produce import produce, rows_of
from data_prep.monosr.reader import Release, find_annotations
from data_prep.monosr.scene import Scene
from data_prep.processes import cores
from data_prep.prompts import load_prompt
from data_prep.quarantine import Quarantined
from data_prep.rows import Row
from data_prep.sets import write_rl_parquet
from data_prep.splits import Half, assign_halves, read_halves
from data_prep.tally import Tally
from data_prep.teacher.files import read_taught
from recipes.monosr_examples import NAME as EXAMPLES
from recipes.monosr_examples import Examples, write_page
from recipes.prep_rows import ASIDE_FOR, clean_pictures, set_aside, with_pictures, with_reasoning, write_rows
from recipes.prep_wording import captioned, questions, reworded
from recipes.progress import StepProgress
from recipes.release import release_folder
from recipes.run_dir import RunDir

SIDES = ("train", "test")
SHAPE = 0.02  # by which the ratio of a picture's sides may be off; scaled pictures are fine
UNFINISHED = ("index", "observed", "captions", "questions", "worded")  # folders of a run on its way


def run(run: RunDir) -> None:
    """Fill the run directory.

    Raises:
        UserError: a file of annotations or the teacher's file is not there; or a set would be empty.
    """
    config = run.config
    for left in [*run.path.glob(".*.part"), *run.path.glob("rows/.*.part")]:
        left.unlink()  # half a file of an attempt that was killed
    root = DataRoot(release_folder(run.path, config.data))
    prompt = load_prompt(config.prompt, aux=config.data.aux)
    taught = read_taught(config.teacher, root, prompt.format)
    releases, observed, categories = _observed(run, root)
    tail = rare(categories, config.data.long_tail)
    wording, made = config.data.wording, {}
    for side in SIDES:
        size = len(releases[side])
        read, captions = captioned(run.path, wording, side, observed[side], size, root.path)
        balance = _ask(run.path, config, releases[side], read, side)
        words = reworded(run.path, wording, side, config.seed)
        made[side] = {"balance": balance, "captions": captions, "words": words}
    folders = {side: questions(run.path, wording, side) for side in SIDES}
    test_groups = {row.group for row in rows_of(folders["test"])}
    halves = _halves(run.path, config, folders["train"], test_groups)
    pictures = clean_pictures(run.path, root, _pictures(folders))
    examples = Examples(run.path / "images")

    def finish(item: Row | Quarantined, half: str) -> Row | Quarantined:
        if isinstance(item, Row):
            item = _as_annotated(item, with_pictures(item, pictures))
        if isinstance(item, Row) and half == "sft" and config.teacher.kind != "none":
            item = with_reasoning(item, taught, prompt.format)
        return item

    def items() -> Iterator[Item]:
        for fault in (fault for side in SIDES for fault in releases[side].faults()):
            yield "", fault, None
        for side in SIDES:
            for row, scene in _with_scenes(rows_of(folders[side]), releases[side], observed[side]):
                if side == "train" and row.group in test_groups:
                    yield "sft", set_aside(row, "its scene is also in the test files", "leak"), None
                    continue
                outcome = finish(row, half := halves.get(row.group, "sft") if side == "train" else "test")
                if isinstance(outcome, Row):
                    outcome = marked(outcome, scene, frozenset(tail))
                    examples.add(outcome, scene)
                yield half, outcome, scene

    told = all_with_auxiliary(items(), config.data.aux, run.path / "images", cores())
    tally = write_rows(run.path, told, lambda item, half: item)
    _check(run.path, config.data, tally)
    write_page(examples.chosen(), run.path / EXAMPLES)
    rows = (Row.from_json(record) for record in read_jsonl(run.path / "rows/rl.jsonl"))
    images = (run.path / "images").resolve()
    write_rl_parquet(run.path / "rl.parquet", rows, tally.option_letters["rl"], images, prompt)
    manifest = _manifest(run.path, config, root, releases, tally, made)
    manifest |= {"teacher": {"kind": config.teacher.kind, **taught.summary}}
    manifest |= {"prompt": {"format": config.prompt.format, "hash": prompt.hash}, "pictures": len(pictures)}
    manifest |= {"long_tail": {name: categories[name] for name in tail}}
    run.finish(manifest)
    for name in UNFINISHED:
        shutil.rmtree(run.path / name, ignore_errors=True)


def audit(run: RunDir) -> int:
    """Read and filter alone (`check=true`): the filter's report, and `findings.jsonl`, what is set aside.

    Returns:
        exit status: 1 where something cannot be used, else 0.

    Raises:
        UserError: a file of annotations is not there.
    """
    root = DataRoot(release_folder(run.path, run.config.data))
    releases, _, _ = _observed(run, root)
    found = Counter[str]()

    def records() -> Iterator[dict[str, Any]]:
        for fault in (fault for side in SIDES for fault in releases[side].faults()):
            found[fault.kind] += 1
            yield fault.to_json()

    write_jsonl(run.path / "findings.jsonl", records())
    print((run.path / "observability.md").read_text(encoding="utf-8").partition("\n## ")[0])
    counted = ", ".join(f"{count} {ASIDE_FOR[kind]}" for kind, count in sorted(found.items())) or "nothing"
    print(f"set aside: {counted}; every one: {run.path / 'findings.jsonl'}", flush=True)
    return 1 if found else 0


def _observed(run: RunDir, root: DataRoot) -> tuple[dict[str, Release], dict[str, Observed], Counter[str]]:
    """Index and filter both sides, and write the report; the last are the objects of each category that are
    left to train on, 0 of one that is only tested."""
    data = run.config.data
    limits = Thresholds(**data.observability)
    releases, observed, tally = {}, {}, FilterTally(data.questions.pixels)
    categories = Counter[str]()
    for side in SIDES:
        splits = data.train_splits if side == "train" else data.test_splits
        files = find_annotations(root, data.sources, splits)
        with StepProgress(f"annotations ({side})", len(files)) as progress:
            releases[side] = Release(
                root, files, run.path / "index", workers=cores(), on_file=progress.update
            )
        with StepProgress(f"observability ({side})", len(releases[side])) as progress:
            folder = run.path / "observed" / side
            observed[side], own = observe_all(
                releases[side],
                limits,
                folder,
                cores(),
                separation=data.questions.pixels,
                on_progress=progress.update,
            )
        tally.merge(own)
        for name, count in own.categories.items():
            categories[name] += count if side == "train" else 0
    left_out: dict[str, Counter[str]] = {}
    for release in releases.values():
        for path, index in zip(release.files, release.indexes, strict=True):
            left_out.setdefault(Path(path).stem.partition("_")[0], Counter()).update(
                index.summary["left_out"]
            )
    summary = tally.summary(limits, left_out)
    write_report(run.path, tally, summary, lambda name: root.path / name)
    return releases, observed, categories


def _ask(run: Path, config: DictConfig, release: Release, read: Read, side: str) -> dict[str, Any]:
    """The questions of one side, in `questions/<side>`; the report of their balance."""
    data = config.data
    section = OmegaConf.to_container(data.questions)
    assert isinstance(section, dict)
    stamps = [
        [path, index.summary["stamp"]] for path, index in zip(release.files, release.indexes, strict=True)
    ]
    with ExitStack() as stack:
        bars: dict[str, StepProgress] = {}

        def tell(step: str, done: int, of: int) -> None:
            if step not in bars:
                bars[step] = stack.enter_context(StepProgress(f"{step} ({side})", of))
            bars[step].update(done)

        return produce(
            read,
            len(release),
            run / "questions" / side,
            Options.of(section),
            config.seed,
            source=digest([stamps, asdict(Thresholds(**data.observability)), _namer(data)]),
            workers=cores(),
            total=data.max_train_questions if side == "train" else data.max_test_questions,
            progress=tell,
        )


def _namer(data: DictConfig) -> list[Any] | None:
    """Who names the objects in the questions: geometry, or a model with its options."""
    wording = data.wording
    asked = wording.model is not None and wording.captions
    return [wording.model, OmegaConf.to_container(wording.options)] if asked else None


def _halves(run: Path, config: DictConfig, folder: Path, test_groups: set[str]) -> dict[str, Half]:
    """The half of every scene that is trained on; all SFT without `data.rl_half`."""
    if not config.data.rl_half:
        write_json(run / "halves.json", {})
        return {}
    groups: dict[str, Counter[Any]] = {}
    for row in rows_of(folder):
        if row.group not in test_groups:
            groups.setdefault(row.group, Counter())[row.subset, row.task, row.category] += 1
    kept = read_halves(Path(config.data.halves)) if config.data.halves else {}
    halves = assign_halves(groups, config.seed, kept)
    write_json(run / "halves.json", dict(sorted(halves.items())))
    return halves


def _pictures(folders: dict[str, Path]) -> list[str]:
    rows = (row for folder in folders.values() for row in rows_of(folder))
    return list(dict.fromkeys(image.path for row in rows for image in row.images))


def _as_annotated(row: Row, shown: Row | Quarantined) -> Row | Quarantined:
    """`shown`, unless its picture has another shape than the annotations speak of: turned, or cut."""
    if isinstance(shown, Quarantined):
        return shown
    told, found = row.images[0], shown.images[0]
    if abs(told.width * found.height - told.height * found.width) <= SHAPE * told.width * found.height:
        return shown
    sizes = f"{found.width} x {found.height} pixels, its annotations speak of {told.width} x {told.height}"
    return set_aside(row, f"{told.path} has {sizes}", "picture")


def _with_scenes(rows: Iterator[Row], release: Release, observed: Observed) -> Iterator[tuple[Row, Scene]]:
    """Every row with its scene; both come in the order of the images."""
    scenes = observed(0, len(release))
    scene = None
    for row in rows:
        while scene is None or scene.id != row.group:
            scene, _ = next(scenes)
        yield row, scene


def _check(run: Path, data: DictConfig, tally: Tally) -> None:
    listed = f"Every one is listed in {run / 'quarantine.jsonl'}"
    if tally.quarantined:
        kinds = ", ".join(f"{count} {ASIDE_FOR[kind]}" for kind, count in sorted(tally.quarantined.items()))
        print(f"prep: {tally.quarantined.total()} set aside ({kinds}). {listed}.", flush=True)
    for name in ("sft", *(["rl"] if data.rl_half else []), "test"):
        if not tally.rows[name]:
            raise UserError(
                f"No question is left for the {name} set: {run / 'observability.md'} says what the filter "
                f"let through, and {tally.quarantined.total()} were set aside. {listed}."
            )


def _manifest(
    run: Path,
    config: DictConfig,
    root: DataRoot,
    releases: dict[str, Release],
    tally: Tally,
    made: dict[str, dict[str, dict[str, Any]]],
) -> dict[str, Any]:
    sources = [
        {"split": side, "path": path, "sha256": sha256_file(root.path / path), "images": len(index),
         "annotations": index.summary["annotations"], "broken": index.summary["broken"]}
        for side in SIDES
        for path, index in zip(releases[side].files, releases[side].indexes, strict=True)
    ]  # fmt: skip
    files = [f"rows/{name}.jsonl" for name in ("sft", "rl", "test")]
    files += ["rl.parquet", "quarantine.jsonl", "images.jsonl", "halves.json", "observability.json"]
    return {
        "benchmark": config.data.benchmark,
        "root": str(root.path),
        "sources": sources,
        "split": {"by": "the files' own", "seed": config.seed, "kept": config.data.halves},
        **tally.summary(),
        **{what: {side: made[side][what] for side in SIDES} for what in ("balance", "captions", "words")},
        "files": {name: sha256_file(run / name) for name in files},
    }
