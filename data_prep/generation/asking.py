"""Ask until a reply keeps to the rules, or the tries are used up; and ask without pictures."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from data_prep.generation.prompts import SOLVER, retry_text, solver_text
from data_prep.generation.validate import Fault, Question, Verdict
from data_prep.teacher.client import Client
from data_prep.teacher.messages import Reply, Request
from rewards import parse_answer, shuffle_options


class UnansweredError(Exception):
    """The endpoint never answered a request; the message says what it did instead."""


@dataclass(frozen=True)
class Answered:
    """The verdict on the best reply, and the faults of those that were sent back."""

    verdict: Verdict
    sent_back: tuple[Fault, ...]


async def ask_until_sound(
    client: Client, request: Request, check: Callable[[str], Verdict], retries: int
) -> Answered:
    """Send the request, and again with the faults of the last reply, at most `retries` times more.

    Where no reply is without a fault, the one of which most can be kept counts, the later of equals.

    Raises:
        UnansweredError: the endpoint gave no reply at all.
        UserError: as `Client.ask` does.
    """
    sent_back: list[Fault] = []
    best = Verdict((), ())
    attempt = request
    for number in range(retries + 1):
        reply = await _answered(client, attempt)
        if reply.text is None:
            verdict = Verdict((), (Fault("reply", f"there is no usable reply ({reply.fault})."),))
        else:
            verdict = check(reply.text)
        if not verdict.faults:
            return Answered(verdict, tuple(sent_back))
        if len(verdict.kept) >= len(best.kept):
            best = verdict
        sent_back += verdict.faults
        text = retry_text(request.text, reply.text, verdict.sentences)
        attempt = replace(request, text=text, attempt=number + 1)
    return Answered(best, tuple(sent_back))


async def answered_blind(
    client: Client, question_id: str, question: Question, times: int, share: float
) -> bool:
    """Whether a model without pictures finds the right option in at least `share` of `times` tries.

    Every try deals the options anew onto the letters, so that a liking for a letter is no knowledge. The
    asking ends as soon as the outcome is sure.

    Raises:
        UnansweredError, UserError: as `ask_until_sound` does.
    """
    options = dict(zip(question.category.letters, question.category.options, strict=True))
    needed = share * times
    right = 0
    for number in range(times):
        dealt, answer, _ = shuffle_options(options, question.answer, question_id, number)
        reply = await _answered(client, Request(SOLVER, solver_text(question.text, dealt), attempt=number))
        right += parse_answer(reply.text or "", "choice", mode="flexible", options=dealt).value == answer
        if right >= needed or right + times - number - 1 < needed:
            break
    return right >= needed


async def _answered(client: Client, request: Request) -> Reply:
    reply = await client.ask(request)
    if reply.given_up:
        raise UnansweredError(reply.fault)
    return reply
