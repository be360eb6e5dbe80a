"""Reasoning of the SFT rows from a teacher at an endpoint: asked, checked, asked again, kept or set aside.

    replies.jsonl     every reply that was paid for (`data_prep.teacher.cache`)
    reasoning.jsonl   {"id", "reasoning"} of the rows that may be taught, in their order; teacher=file reads
    it rejected.jsonl    every other row, with its rejected texts and the reasons
    prompts.md        three requests as they are sent

The work goes in rounds. In a round every open row is asked, many at once, until a text passes the checks that
need that text alone. Then, in the order of the rows, near-copies of kept texts are rejected, and their rows
stay open for the next round. So the outcome does not depend on the order in which replies come, and a run
that was killed ends as one that was not.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from omegaconf import DictConfig

from data_prep.atomic import write_jsonl, write_text
from data_prep.errors import UserError
from data_prep.teacher.checks import Rejection, check_text, strip_thinking
from data_prep.teacher.client import Client, Request
from data_prep.teacher.drafts import Draft, Lesson
from data_prep.teacher.estimate import Estimate
from data_prep.teacher.judge import judge_request, read_verdict
from data_prep.teacher.limits import Usage
from data_prep.teacher.overlap import CopyIndex, shingles
from data_prep.teacher.preview import PREVIEWS, render
from data_prep.teacher.prompts import MOST_VIEWS, load_teacher_prompt


class Progress(Protocol):
    """What is told how many rows are settled."""

    def update(self, done: int, note: str = "") -> None: ...


Bar = Callable[[str, int, int], AbstractContextManager[Progress]]
"""Makes a progress bar of a title, the number of rows and how many an earlier attempt has settled."""


def write_reasoning(
    config: DictConfig,
    response_format: str,
    lessons: Sequence[Lesson],
    pictures: Path,
    folder: Path,
    bar: Bar,
) -> tuple[list[Draft], Usage]:
    """Have every lesson answered and checked, and write the files above into `folder`.

    Takes up what an earlier attempt has paid for.

    Args:
        config: the `teacher` section.
        pictures: the folder of the rows' image paths.

    Returns:
        a draft for each lesson, in their order, kept or with the reasons why not; what was used.

    Raises:
        Stopped: `max_requests` or `max_cost` is reached.
        UserError: the endpoint refuses or is down, or left rows unanswered and `allow_unanswered` is not set.
    """
    school = _School(config, response_format, lessons, pictures)
    requests = [render(d.row.id, school.request(d), pictures) for d in school.drafts[:PREVIEWS]]
    write_text(folder / "prompts.md", "\n".join(requests))
    usage = asyncio.run(school.run(folder, bar))
    _check_answered(school.drafts, config.allow_unanswered)
    kept = ({"id": draft.row.id, "reasoning": draft.text} for draft in school.drafts if draft.kept)
    write_jsonl(folder / "reasoning.jsonl", kept)
    write_jsonl(folder / "rejected.jsonl", (draft.to_json() for draft in school.drafts if not draft.kept))
    return school.drafts, usage


class _School:
    """The lessons of a run on their way through the rounds."""

    def __init__(
        self, config: DictConfig, response_format: str, lessons: Sequence[Lesson], pictures: Path
    ) -> None:
        self._config, self._format, self._pictures = config, response_format, pictures
        self._prompt = load_teacher_prompt(response_format, config.give_answer, config.prompt_file)
        self._copies = CopyIndex(config.max_overlap)
        self.drafts = [Draft(lesson) for lesson in lessons]

    def request(self, draft: Draft) -> Request:
        """The next request for a draft; it follows from the row and from what was rejected before."""
        lesson, attempt = draft.lesson, len(draft.attempts)
        return self._prompt.request(lesson.row, self._pictures, lesson.hidden or (), attempt, draft.reasons)

    async def run(self, folder: Path, bar: Bar) -> Usage:
        """All rounds, until every draft is kept, unanswered, or out of retries."""
        async with Client(self._config, folder) as client:
            estimate = Estimate()
            for draft in self.drafts:
                request = self.request(draft)
                estimate.add(request, client.is_paid(request), self._config.judge is not None)
            print(estimate.sentence(self._config.model, self._config.retries, client.usage), flush=True)
            with bar("teacher", estimate.rows, estimate.answered) as progress:
                self._progress, self._settled = progress, 0
                pending = self.drafts
                while pending:
                    await self._round(client, pending)
                    pending = [draft for draft in pending if self._reopens(draft)]
                    self._settled = len(self.drafts) - len(pending)
            print(_spent(client.usage), flush=True)
            return client.usage

    async def _round(self, client: Client, pending: Sequence[Draft]) -> None:
        """Bring every pending draft to a text that passes its own checks, or to its end."""
        waiting = iter(pending)
        workers = [
            asyncio.create_task(self._work(client, waiting))
            for _ in range(min(self._config.concurrency, len(pending)))
        ]
        # What is under way when one fails has been paid for: it is waited for, and kept by the client.
        ended = await asyncio.gather(*workers, return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException):
                raise error

    async def _work(self, client: Client, waiting: Iterator[Draft]) -> None:
        for draft in waiting:
            try:
                await self._write(client, draft)
            except BaseException:
                for _ in waiting:  # the other workers begin nothing more
                    pass
                raise
            self._settled += 1
            note = f"({client.concurrency} at once)"
            self._progress.update(min(self._settled, len(self.drafts)), note)

    async def _write(self, client: Client, draft: Draft) -> None:
        while len(draft.attempts) <= self._config.retries:
            request = self.request(draft)
            reply = await client.ask(request)
            if reply.given_up:
                draft.unanswered = reply.fault
                return
            if reply.text is None:
                draft.reject(None, Rejection("reply", f"the model's reply was {reply.fault}"))
                continue
            text = strip_thinking(reply.text)
            rejections = check_text(draft.row, text, self._format)
            if not rejections and self._config.judge:
                shown = len(draft.row.images[:MOST_VIEWS])
                verdict = await client.ask(judge_request(request, shown, text, self._config.judge))
                if verdict.given_up:
                    draft.unanswered = verdict.fault
                    return
                rejections = [found] if (found := read_verdict(verdict)) else []
            if not rejections:
                draft.text = text
                return
            draft.reject(text, *rejections)

    def _reopens(self, draft: Draft) -> bool:
        """Keep the draft's text unless it is a near-copy; whether the draft goes into another round."""
        if draft.text is None:
            return False
        found = shingles(draft.text)
        near = self._copies.nearest(found)
        if near is None:
            draft.kept = True
            self._copies.add(draft.row.id, found)
            return False
        other, share = near
        reason = f"{share:.0%} of its word triples are those of the text for {other}"
        draft.reject(draft.text, Rejection("near_copy", reason))
        return len(draft.attempts) <= self._config.retries


def _check_answered(drafts: Sequence[Draft], allowed: bool) -> None:
    unanswered = [draft for draft in drafts if draft.unanswered]
    if unanswered and not allowed:
        first = unanswered[0]
        raise UserError(
            f"The teacher's endpoint left {len(unanswered)} of {len(drafts)} rows without an answer (the "
            f"first is {first.row.id}: {first.unanswered}). What is paid for is kept: give the same "
            f"command again to ask for these alone, or set them aside with teacher.allow_unanswered=true."
        )


def _spent(usage: Usage) -> str:
    faults = ", ".join(f"{count} {name}" for name, count in sorted(usage.faults.items()))
    cost = "" if usage.cost is None else f", {usage.cost:,.2f} dollars"
    return (
        f"teacher: {usage.sent:,} requests sent, {usage.cached:,} answered before; "
        f"{usage.prompt_tokens:,} prompt and {usage.completion_tokens:,} completion tokens in all{cost}"
        f"{f'. Waited out or given up: {faults}' if faults else ''}."
    )
