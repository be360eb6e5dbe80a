"""Everything that one run asks of the endpoint, and what came of it."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from data_prep.cvsbench.grounding import SIDES
from data_prep.generation.asking import UnansweredError, answered_blind, ask_until_sound
from data_prep.generation.asks import Ask, Made, asks_of, made_of
from data_prep.generation.grounding import Thing, description_request, judge_description
from data_prep.generation.pairs import Aside
from data_prep.generation.scene_pictures import Prepared
from data_prep.generation.validate import Fault, Verdict, judge
from data_prep.teacher.client import Client

VQA_TASKS = ("g2s", "s2g")


class Session:
    """The requests of a run. After `ask`:

    - `made`: questions that keep to the rules and are not answered blind, in the order of the scenes;
    - `descriptions`: (subset, thing, direction) to text;
    - `aside`: what was left out; `sent_back`: faults of replies by kind;
    - `unanswered`: requests that never had a reply, and the `last_fault` of those.
    """

    def __init__(
        self,
        prepared: Sequence[Prepared],
        release: Path,
        settings: DictConfig,
        instructions: Mapping[str, str],
    ) -> None:
        self.instructions = dict(instructions)
        self._release, self._settings = release, settings
        self._asks = [
            ask
            for scene in prepared
            for ask in asks_of(
                scene.scene, scene.arrows, settings.tasks, release, instructions, settings.spread_letters
            )
        ]
        self._things = [
            (scene.scene.subset, thing, direction)
            for scene in prepared
            for thing in scene.things
            for direction in SIDES
        ]
        self.made: list[Made] = []
        self.descriptions: dict[tuple[str, str, str], str] = {}
        self.aside: list[Aside] = []
        self.sent_back: Counter[str] = Counter()
        self.unanswered = 0
        self.last_fault = ""
        self.usage: dict[str, Any] = {}

    @property
    def requests(self) -> int:
        """First requests for questions and descriptions; retries and the blind filter come on top."""
        return len(self._asks) + len(self._things)

    async def ask(
        self,
        teacher: DictConfig,
        replies: Path,
        progress: Callable[[str, int], AbstractContextManager[Any]],
    ) -> None:
        """Ask for all of it, many at once.

        Args:
            teacher: the configuration's section, which the client is made from.
            replies: the folder of the paid replies.
            progress: makes the display of a title and a number of steps.

        Raises:
            UserError: as `Client` does.
        """
        print(f"generate: {self._estimate(teacher.retries)}", flush=True)
        async with Client(teacher, replies) as client:
            with progress("questions", self.requests) as bar:
                done = 0

                def count() -> None:
                    nonlocal done
                    done += 1
                    bar.update(done, f"{client.usage.sent} requests")

                work: list[Work] = [
                    *(partial(self._question, client, ask, teacher.retries) for ask in self._asks),
                    *(partial(self._describe, client, *one, teacher.retries) for one in self._things),
                ]
                outcomes = await work_through(work, teacher.concurrency, count)
        for made, aside, sent_back in outcomes:
            self.made += made
            self.aside += aside
            self.sent_back.update(fault.kind for fault in sent_back)
        usage = client.usage
        self.usage = {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "dollars": usage.cost,
        }

    def _estimate(self, retries: int) -> str:
        blind = self._settings.blind.times
        most = sum(ask.variant.most for ask in self._asks)
        return (
            f"{len(self._asks)} requests for questions and {len(self._things)} for descriptions, each up to "
            f"{retries} times more where a reply breaks a rule; up to {most * blind} short ones without"
            " pictures."
        )

    async def _question(self, client: Client, ask: Ask, retries: int) -> "Outcome":
        check = partial(judge, variant=ask.variant, spread_letters=self._settings.spread_letters)
        try:
            answered = await ask_until_sound(client, ask.request, check, retries)
            made = made_of(ask, answered.verdict.kept)
            blind = [await self._is_blind(client, one) for one in made]
        except UnansweredError as error:
            return self._without_reply(ask.id, error)
        kept = [one for one, known in zip(made, blind, strict=True) if not known]
        aside = _refused(ask.id, answered.verdict)
        reason = "a model without pictures finds the answer"
        aside += [
            Aside(one.id, "blind filter", reason) for one, known in zip(made, blind, strict=True) if known
        ]
        return kept, aside, answered.sent_back

    async def _is_blind(self, client: Client, one: Made) -> bool:
        """Without words of the generator's own a question cannot give its answer away: it is not asked."""
        blind = self._settings.blind
        if not blind.times or not one.question.category.free_slots:
            return False
        return await answered_blind(client, one.id, one.question, blind.times, blind.share)

    async def _describe(
        self, client: Client, subset: str, thing: Thing, direction: str, retries: int
    ) -> "Outcome":
        request = description_request(thing, direction, self._release)
        check = partial(judge_description, side=SIDES[direction][0])
        name = f"{subset}/gs_grounding/{direction}/{thing.image_id}"
        try:
            answered = await ask_until_sound(client, request, check, retries)
        except UnansweredError as error:
            return self._without_reply(name, error)
        for text in answered.verdict.kept:
            self.descriptions[subset, thing.image_id, direction] = text
        return [], _refused(name, answered.verdict), answered.sent_back

    def _without_reply(self, name: str, error: UnansweredError) -> "Outcome":
        self.unanswered += 1
        self.last_fault = str(error)
        return [], [Aside(name, "unanswered", str(error))], ()


Outcome = tuple[list[Made], list[Aside], tuple[Fault, ...]]
Work = Callable[[], Awaitable[Outcome]]


def _refused(name: str, verdict: Verdict) -> list[Aside]:
    """An entry for every question at fault, and one for the faults of the reply as a whole."""
    by_index: dict[int | None, list[Fault]] = {}
    for fault in verdict.faults:
        by_index.setdefault(fault.index, []).append(fault)
    return [
        Aside(
            name if index is None else f"{name}.reply{index + 1}",
            "rules",
            " ".join(fault.sentence for fault in faults),
            tuple(dict.fromkeys(fault.kind for fault in faults)),
        )
        for index, faults in by_index.items()
    ]


async def work_through(work: Sequence[Work], workers: int, count: Callable[[], None]) -> list[Outcome]:
    """The outcomes in order, `workers` at a time.

    After an error nothing further is begun; what is under way has been paid for, so it is waited for.
    """
    outcomes: dict[int, Outcome] = {}
    waiting = iter(enumerate(work))
    stopped = False

    async def worker() -> None:
        for index, begin in waiting:
            if stopped:
                return
            outcomes[index] = await begin()
            count()

    tasks = [asyncio.create_task(worker()) for _ in range(min(workers, len(work)))]
    _, under_way = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    stopped = True
    if under_way:
        await asyncio.wait(under_way)
    for task in tasks:
        task.result()
    return [outcomes[index] for index in range(len(work))]
