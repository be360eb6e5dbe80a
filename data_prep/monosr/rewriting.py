"""Questions in a teacher's words; answers stay the geometry's (paper, section 3.1: paraphrasing, situations).

Every row of a folder of `data_prep.monosr.produce` is put to the teacher with its template question alone: no
picture, no answer. A reply that fails a check of `data_prep.monosr.wording` is asked for again with the
reason; where none passes, the template's words stay. `meta["words"]` says which: teacher or template.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from data_prep.atomic import read_jsonl, write_json, write_jsonl
from data_prep.errors import UserError
from data_prep.generation.asking import UnansweredError, ask_until_sound
from data_prep.generation.session import work_through
from data_prep.monosr.balance import rank
from data_prep.monosr.wording import judge, open_part, reworded
from data_prep.rows import Row
from data_prep.teacher.client import Client, Request

PLAIN = (
    "You reword questions about what a picture shows. Ask the same thing in other, natural words, as a"
    " person would. Keep every name of an object word for word and in the same order. Keep every number,"
    " the unit that the answer is wanted in, and the relation or size that is asked for (left stays left,"
    " above stays above). Do not answer, do not hint at an answer, do not add facts. Reply with the"
    " question alone, in one paragraph."
)
SITUATION = (
    "You write questions that a professional asks about the place in a picture. You get a plain draft with"
    " a role, a reason and a question. Write it anew in one or two natural sentences: who asks, in which"
    " concrete situation, why the answer matters, then the question itself. Keep every name of an object"
    " word for word and in the same order. Keep every number, the unit that the answer is wanted in, and"
    " the relation or size that is asked for; use no other word of place or size in the story. Do not"
    " answer, do not hint at an answer. Reply with that text alone, in one paragraph."
)
SCENARIOS = {
    "compliance": "The scenario is compliance: someone checks a rule or standard.",
    "planning": "The scenario is planning: someone prepares work, a move or a layout.",
    "safety": "The scenario is safety: someone looks for hazards.",
    "navigation": "The scenario is navigation: someone or some robot has to find its way.",
}
REPORT = "rewriting.json"


def request_of(row: Row) -> Request:
    """What the teacher is asked for a row."""
    names = "; ".join(dict.fromkeys(row.meta["names"]))
    lines = [f"Question: {open_part(row)}", f"Names to keep: {names}"]
    if row.task == "situational":
        return Request(f"{SITUATION} {SCENARIOS[row.meta['scenario']]}", "\n".join(lines))
    return Request(PLAIN, "\n".join(lines))


class Rewriting:
    """Rewrites rows. After it: `faults` of replies by kind, `unanswered` requests and their `last_fault`.

    Args:
        share: of all rows that are reworded, chosen by seed and id; situational ones all are.
    """

    def __init__(self, client: Client, retries: int, share: float, seed: int) -> None:
        self._client, self._retries, self._share, self._seed = client, retries, share, seed
        self.faults: Counter[str] = Counter()
        self.unanswered = 0
        self.last_fault = ""

    async def of(self, row: Row) -> Row:
        """The row in the teacher's words where a reply keeps what is asked, else in its own.

        Raises:
            UserError: as `Client.ask` does.
        """
        if row.task != "situational" and rank(f"words/{row.id}", self._seed) >= self._share * 2**64:
            return _worded(row, row.question, "template")
        try:
            found = await ask_until_sound(self._client, request_of(row), partial(judge, row), self._retries)
        except UnansweredError as error:
            self.unanswered += 1
            self.last_fault = str(error)
            return _worded(row, row.question, "template")
        self.faults.update(fault.kind for fault in found.sent_back)
        if not found.verdict.kept:
            return _worded(row, row.question, "template")
        return _worded(row, reworded(row, found.verdict.kept[0]), "teacher")


def _worded(row: Row, question: str, words: str) -> Row:
    return replace(row, question=question, meta={**row.meta, "words": words})


async def rewrite(
    source: Path,
    folder: Path,
    teacher: DictConfig,
    replies: Path,
    seed: int,
    share: float = 1.0,
    section: str = "teacher",
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, Any]:
    """Write the rows of `source`, file by file, into `folder`, and return the report of `rewriting.json`.

    Memory holds the rows of one file. A file that is there is taken as it is, and every reply is kept in
    `replies`, so a killed run goes on.

    Args:
        teacher: the configuration's section named `section`, which the client is made from.
        share: of the rows that are reworded; situational ones all are.
        progress: told the files done, and how many there are.

    Raises:
        UserError: as `Client` does; or requests were never answered and `allow_unanswered` is not set.
    """
    paths = sorted(source.glob("questions-*.jsonl"))
    words: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    async with Client(teacher, replies, section) as client:
        for done, path in enumerate(paths, 1):
            target, faulty = folder / path.name, folder / f"{path.stem}.faults.json"
            if not target.exists():
                work = Rewriting(client, teacher.retries, share, seed)
                rows = [Row.from_json(record) for record in read_jsonl(path)]
                made = await _all(work, rows, teacher.concurrency)
                _check_answered(work, teacher, section)
                write_json(faulty, {**work.faults, "unanswered": work.unanswered})
                write_jsonl(target, (row.to_json() for row in made))
            words.update(record["meta"]["words"] for record in read_jsonl(target))
            faults.update(json.loads(faulty.read_text(encoding="utf-8")))
            progress(done, len(paths))
        usage = client.usage
    report = {
        "rows": words.total(),
        "words": dict(sorted(words.items())),
        "unanswered": faults.pop("unanswered", 0),
        "faults_sent_back": dict(sorted(faults.items())),
        "usage": {
            "requests": usage.sent, "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens, "dollars": usage.cost,
        },
    }  # fmt: skip
    write_json(folder / REPORT, report)
    return report


async def _all(work: Rewriting, rows: list[Row], workers: int) -> list[Row]:
    if not rows:
        return []
    return await work_through([partial(work.of, row) for row in rows], workers, lambda: None)


def _check_answered(work: Rewriting, teacher: DictConfig, section: str) -> None:
    if work.unanswered and not teacher.allow_unanswered:
        raise UserError(
            f"{work.unanswered} requests were never answered ({work.last_fault}). What is paid for is kept:"
            f" give the same command again, or keep the templates' words: {section}.allow_unanswered=true."
        )
