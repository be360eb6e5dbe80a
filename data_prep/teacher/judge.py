"""The optional second model, which looks for evidence that only the hidden view can have given.

`teacher.judge` names a model of the same endpoint. It sees what the question shows and the text, never the
hidden view. Its tokens count at the teacher's prices.
"""

from data_prep.teacher.checks import Rejection
from data_prep.teacher.messages import Reply, Request

SYSTEM = (
    "You check solutions to questions about a place. The solver was sent the attached picture or pictures and"
    " nothing else, and had to infer how things look in a view that was withheld. Supposing how that view"
    " would look is the task and is allowed. Not allowed is a statement that only somebody who has seen"
    " the withheld view could make: a detail as fact which the attached pictures neither show nor imply.\n"
    "Reply with KEEP alone, or with REJECT: and the statement, quoted."
)


def judge_request(asked: Request, shown: int, text: str, model: str) -> Request:
    """What the judge is asked about a text; `shown` of the teacher's pictures are those of the question."""
    return Request(SYSTEM, f"The solution:\n\n{text}", asked.images[:shown], model=model)


def read_verdict(reply: Reply) -> Rejection | None:
    """The rejection in a judge's reply. A reply that is neither KEEP nor REJECT keeps nothing."""
    text = (reply.text or "").strip()
    if text.upper().startswith("KEEP"):
        return None
    if text.upper().startswith("REJECT"):
        statement = " ".join(text[len("REJECT") :].strip(": \n").split())[:120]
        return Rejection("judge", f"a second model finds evidence from the hidden view: {statement}")
    return Rejection("judge", f"a second model gave no verdict on the text ({reply.fault or text!r:.60})")
