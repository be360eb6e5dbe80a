"""Generate a release from image pairs: questions, grounding and viewpoints in CVSBench's layout.

    release/          what `launch prep data.root=` reads; here once it is whole
    set_aside.jsonl   every pair, box and question that was left out, with the step and the reason
    answers.json      right letters by category, before and after balancing
    replies/          every paid reply; the same command goes on from them
    manifest.json     counts, usage of the endpoint, hashes

Pictures are drawn first, then everything is asked at once, then what was kept is balanced and written. All
of it depends on pictures, configuration and replies alone, so an interrupted run ends like any other.
"""

import asyncio
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from data_prep.atomic import digest, sha256_file, write_json, write_jsonl
from data_prep.data_root import DataRoot
from data_prep.errors import UserError
from data_prep.generation import asks, grounding, viewpoints
from data_prep.generation.arrows import Rules
from data_prep.generation.asks import Made, vqa_rows
from data_prep.generation.balance import distribution, surplus
from data_prep.generation.pairs import Aside, Scene, read_pairs
from data_prep.generation.prompts import load_instructions
from data_prep.generation.release_folder import ReleaseFolder
from data_prep.generation.scene_pictures import Prepared, prepare
from data_prep.generation.session import Session
from data_prep.splits import sample
from recipes.progress import StepProgress
from recipes.run_dir import RunDir

SPLITS = ("train", "test")


def run(run: RunDir) -> None:
    """Fill the run directory of the generate stage.

    Raises:
        UserError: the pairs or the user's prompts cannot be read, a limit on requests or cost is reached, or
            requests were never answered and `teacher.allow_unanswered` is not set.
    """
    config, settings = run.config, run.config.generation
    scenes, aside = read_pairs(DataRoot(Path(settings.pairs)), settings.subsets)
    whole = run.path / "release"
    folder = ReleaseFolder(whole if whole.exists() else run.path / "release.part")
    prepared = _draw(scenes, Path(settings.pairs), config, folder, aside)
    session = Session(prepared, folder.path, settings, load_instructions(settings.prompts))
    if session.requests:
        asyncio.run(session.ask(config.teacher, run.path / "replies", StepProgress))
    aside += session.aside
    _check_answered(session, config.teacher)

    kept, dropped = _balance(session.made, settings.balance, config.seed)
    aside += dropped
    answers = {"before": _letters(session.made), "after": _letters(kept)}
    test = _test_scenes([p.scene for p in prepared], settings.test_share, config.seed)
    files = _write(folder, prepared, kept, session.descriptions, test, settings)
    folder.clear_rest()
    write_jsonl(run.path / "set_aside.jsonl", (item.to_json() for item in aside))
    write_json(run.path / "answers.json", answers)
    if folder.path != whole:
        folder.path.replace(whole)
    counts = Counter(item.step for item in aside)
    _report(len(prepared), len(session.made), len(kept), counts, run.path)
    run.finish(
        {
            "pairs": str(settings.pairs),
            "scenes": {"read": len(scenes), "used": len(prepared), "test": len(test)},
            "rows": {name: count for name, count in files.items()},
            "questions": {"generated": len(session.made), "kept": len(kept)},
            "set_aside": dict(sorted(counts.items())),
            "faults_sent_back": dict(sorted(session.sent_back.items())),
            "usage": session.usage,
            "prompts": digest(session.instructions)[:12],
            "files": {name: sha256_file(whole / name) for name in files},
        }
    )


def _draw(
    scenes: list[Scene], pairs: Path, config: DictConfig, folder: ReleaseFolder, aside: list[Aside]
) -> list[Prepared]:
    rules = Rules(**OmegaConf.to_container(config.generation.arrows))  # type: ignore[arg-type]
    prepared = []
    with StepProgress("pictures", len(scenes)) as progress:
        for done, scene in enumerate(scenes, 1):
            found = prepare(scene, pairs, config.generation.tasks, rules, config.seed, folder, aside)
            prepared += [found] if found else []
            progress.update(done)
    return prepared


def _check_answered(session: Session, teacher: DictConfig) -> None:
    if session.unanswered and not teacher.allow_unanswered:
        raise UserError(
            f"{session.unanswered} requests were never answered ({session.last_fault}). What is paid for is "
            "kept: give the same command again, or go on without them with teacher.allow_unanswered=true."
        )


def _balance(made: list[Made], most: float | None, seed: int) -> tuple[list[Made], list[Aside]]:
    if most is None:
        return made, []
    letters: dict[tuple[str, str, str], dict[str, str]] = {}
    for one in made:
        letters.setdefault(one.where, {})[one.id] = one.question.answer
    left_out = set().union(*(surplus(found, most, seed) for found in letters.values()))
    reason = f"its letter is more than {most:g} times as frequent in its category as the others are"
    dropped = [Aside(one.id, "balance", reason) for one in made if one.id in left_out]
    return [one for one in made if one.id not in left_out], dropped


def _letters(made: list[Made]) -> dict[str, dict[str, int]]:
    return distribution((*one.where, one.question.answer) for one in made)


def _test_scenes(scenes: list[Scene], share: float, seed: int) -> set[str]:
    """Groups of the test files: `share` of every subset's, chosen by the seed."""
    chosen: set[str] = set()
    for subset in sorted({scene.subset for scene in scenes}):
        groups = [scene.group for scene in scenes if scene.subset == subset]
        chosen |= sample(groups, round(share * len(groups)), seed)
    return chosen


def _write(
    folder: ReleaseFolder,
    prepared: list[Prepared],
    kept: list[Made],
    descriptions: dict[tuple[str, str, str], str],
    test: set[str],
    settings: DictConfig,
) -> dict[str, int]:
    """The release's JSON lines; file to number of rows."""
    files: dict[str, int] = {}
    arrows = {p.scene.name: p.arrows for p in prepared if p.scene.subset == "fov"}

    def write(subset: str, stem: str, split: str, rows: list[dict[str, Any]]) -> None:
        name = f"{subset}/{stem}_{split}.jsonl"
        files[name] = folder.rows(name, rows)

    for subset, split in product(settings.subsets, SPLITS):
        groups = {p.scene.group for p in prepared if (p.scene.group in test) == (split == "test")}
        here = [p for p in prepared if p.scene.subset == subset and p.scene.group in groups]
        for task, stem in asks.FILES.items():
            if task in settings.tasks:
                made = [m for m in kept if m.where[:2] == (subset, task) and m.ask.scene.group in groups]
                write(subset, stem, split, list(vqa_rows(made, arrows)))
        for direction, stem in grounding.FILES.items():
            if "gs_grounding" in settings.tasks:
                told = {
                    thing.image_id: descriptions.get((subset, thing.image_id, direction))
                    for p in here
                    for thing in p.things
                }
                rows = [
                    grounding.grounding_row(subset, thing, direction, told[thing.image_id])
                    for p in here
                    for thing in p.things
                ]
                write(subset, stem, split, rows)
        for kind, stem in viewpoints.FILES.items():
            if "gs_view" in settings.tasks and subset == "fov":
                write(subset, stem, split, [row for p in here for row in p.view_rows[kind]])
    return files


def _report(scenes: int, made: int, kept: int, counts: Counter[str], folder: Path) -> None:
    left = ", ".join(f"{count} at {step}" for step, count in sorted(counts.items())) or "nothing"
    print(
        f"generate: {made} questions on {scenes} scenes, {kept} of them kept. Set aside: {left}; every one is"
        f" listed in {folder / 'set_aside.jsonl'}.",
        flush=True,
    )
