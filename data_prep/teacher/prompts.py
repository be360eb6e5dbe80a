"""The teacher's eight prompts: two response formats, two directions, two kinds of pictures.

They follow the rules of CVSBench's appendix 0.B.2 in words of our own. Imagination shows the hidden view too,
as something to check against in silence; Structured shows what the question shows. That the teacher is told
the right option is our choice (`teacher.give_answer`): the paper does not say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from data_prep.errors import UserError
from data_prep.prompts import describe_images
from data_prep.rows import ImageRef, Row
from data_prep.teacher.messages import Request
from rewards import RESPONSE_FORMATS
from rewards.response_format import MAX_WORDS

MOST_VIEWS = 4  # pictures of each side that are sent; symmetry questions have four photographs or more

ROLE = (
    "You write worked solutions from which a small model will learn to answer questions about a place from"
    " one view of it, although another view decides them."
)
# What is shown and what is withheld, by task and subset.
VIEWS = {
    ("g2s", "cvusa"): (
        "a street-level panorama that turns once around the camera",
        "the satellite image of the same spot",
    ),
    ("g2s", "fov"): (
        "street-level photographs, one or several, of one building",
        "the satellite image of that building",
    ),
    ("s2g", "cvusa"): (
        "a satellite image whose centre is where a camera stands",
        "the panorama which that camera took",
    ),
    ("s2g", "fov"): (
        "a satellite image with a red arrow that stands for a camera",
        "the photograph which that camera took",
    ),
}
# How a direction in one view becomes one in the other.
MAPPINGS = {
    ("g2s", "cvusa"): (
        "The middle of the panorama looks to the top of the satellite image, its right quarter to"
        " the right, its left quarter to the left, and both of its ends to the bottom."
    ),
    ("g2s", "fov"): (
        "What the camera sees as depth becomes distance from the camera in the top-down view; what it"
        " sees as height is lost there."
    ),
    ("s2g", "cvusa"): (
        "The camera faces the top of the satellite image: what lies above the centre comes out in"
        " the middle of the panorama, what lies right or left of it in that quarter, what lies below at the"
        " ends."
    ),
    ("s2g", "fov"): (
        "The camera stands at the tail of the arrow and looks along it: say first where the arrow"
        " points, then which things lie ahead, to the left, to the right or behind."
    ),
}
# What the questions of a task are about, and the visible cues that bear on it.
CUES = {
    ("g2s", "cvusa"): (
        "The questions are about distance from the camera, area on the ground, whether buildings"
        " are joined, and forms of roofs. Cues that count: apparent size, overlap, where a base meets the"
        " ground, outline of eaves and ridges, gaps between walls."
    ),
    ("g2s", "fov"): (
        "The questions are about parts of a building that do or do not show from the sky, about its"
        " roof, and about left-right symmetry. Cues that count: which surfaces face upwards, overhangs,"
        " outline of the roof, repeated wings and openings."
    ),
    ("s2g", "cvusa"): (
        "The questions are about what stands in the way of a look, kinds of plants, which building"
        " is taller, and the part of the panorama in which a thing appears. Cues that count: shadows,"
        " crowns and textures, what lies on the straight line from the centre."
    ),
    ("s2g", "fov"): (
        "The questions are about what blocks the look ahead, the side on which a thing appears,"
        " colours of walls, the ground's material, heights and plants. Cues that count: the line from the"
        " arrow's tail, shadows, textures and colours of roofs and ground."
    ),
}
EVIDENCE = {
    "imagination_cot": (
        "You are sent {shown}, and after it {hidden}. Your readers will have the first"
        " alone. Write as somebody who has never had the second: whatever you state as seen must be in the"
        " first. Look at the second only to assure yourself that the answer holds, and leave no trace of"
        " it in the text: neither describe it nor refer to it as seen."
    ),
    "structured_cot": (
        "You are sent {shown}. Reason from what it shows and from nothing else; {hidden} is"
        " withheld from you and from your readers."
    ),
}
ALONE = (
    "You are sent {shown}. Write as somebody who has never seen {hidden}: whatever you state as seen must"
    " be in what you are sent."
)
HONESTY = (
    "Name concrete features that can be pointed at. Do not guess the names of places, shops or brands. Where"
    " something cannot be made out, say that it is uncertain, and do not make it up."
)
STYLE = (
    f"Stay below {MAX_WORDS} words in all; 120 to 160 are best. Before the answer tag, neither name an"
    f" option's letter nor announce which option is right. Write plain text, without JSON or code. Keep to"
    f" this picture: sentences that would fit any other one are rejected."
)
# What stands under each heading of the format.
SECTIONS = {
    "imagination_cot": (
        "two or three things in the picture on which the question turns, with where they are",
        "one sentence on what has to be carried over from this viewpoint to the other",
        "how these things would look from the other viewpoint, and what could deceive",
        "the argument that follows from the above, without its verdict",
    ),
    "structured_cot": (
        "one or two sentences on the scene, as far as the question needs it",
        "one to three objects, one a line: label, bbox: [x1, y1, x2, y2] in pixels of the picture, then"
        " what is seen of it that matters here",
        "how the objects lie to each other, how that carries over to the other viewpoint, and what"
        " perspective or occlusion leaves uncertain",
    ),
}
CLOSE = (
    "After the last section write, on a line of its own and with nothing after it, the letter of the right"
    " option in this form: <answer> X </answer>"
)
GIVEN = (
    "The right option is {answer}. Argue towards it from what is visible; its letter belongs in the answer"
    " tag alone."
)
AGAIN = "A text of yours for this question was not accepted:\n{reasons}\nWrite it anew without that fault."


@dataclass(frozen=True)
class TeacherPrompt:
    """How rows become requests. `own` is the user's text in place of ours, or None."""

    response_format: str
    give_answer: bool
    own: str | None = None

    def system(self, task: str, subset: str, sees_both: bool) -> str:
        """The system text; `sees_both` where the hidden view is sent along.

        Raises:
            UserError: there is no prompt for the format, the task or the subset.
        """
        if self.own is not None:
            return self.own
        place = (task, subset)
        if place not in VIEWS or self.response_format not in SECTIONS:
            raise UserError(
                f"There is no teacher prompt for {self.response_format} on {task} questions of {subset}. "
                f"Give one of your own with teacher.prompt_file=, or leave such rows out with data.tasks=."
            )
        shown, hidden = VIEWS[place]
        unseen = self.response_format == "imagination_cot" and not sees_both
        evidence = ALONE if unseen else EVIDENCE[self.response_format]
        headings = RESPONSE_FORMATS[self.response_format].headings
        sections = [
            f"{heading}\n({what})"
            for heading, what in zip(headings, SECTIONS[self.response_format], strict=True)
        ]
        return "\n".join(
            [
                ROLE,
                evidence.format(shown=shown, hidden=hidden),
                HONESTY,
                MAPPINGS[place],
                CUES[place],
                STYLE,
                "Use these headings as they stand, in this order, each on a line of its own, with text in"
                " place of the brackets:",
                *sections,
                CLOSE,
            ]
        )

    def request(
        self,
        row: Row,
        pictures: Path,
        hidden: Sequence[Path] = (),
        attempt: int = 0,
        reasons: Sequence[str] = (),
    ) -> Request:
        """The request for a row.

        Args:
            pictures: the folder of the row's image paths.
            hidden: files of the hidden view; sent where the format is Imagination.
            attempt: 0, or how many texts were rejected before.
            reasons: why the last one was.
        """
        shown = row.images[:MOST_VIEWS]
        sent = tuple(hidden[:MOST_VIEWS]) if self.response_format == "imagination_cot" else ()
        return Request(
            system=self.system(row.task, row.subset, bool(sent)),
            text="\n".join(self._lines(row, shown, len(sent), reasons)),
            images=(*(pictures / image.path for image in shown), *sent),
            attempt=attempt,
        )

    def _lines(self, row: Row, shown: Sequence[ImageRef], hidden: int, reasons: Sequence[str]) -> list[str]:
        lines = [describe_images(shown).replace("You see", "The question shows")]
        if self.response_format == "structured_cot":
            lines += [
                f"Picture {number} is {image.width} pixels wide and {image.height} high."
                for number, image in enumerate(shown, 1)
                if image.width
            ]
        if hidden:
            what = "picture is" if hidden == 1 else f"{hidden} pictures are"
            lines.append(f"The last {what} of the hidden view.")
        lines += ["", row.question, *(f"{letter}) {text}" for letter, text in (row.options or {}).items())]
        if self.give_answer:
            lines += ["", GIVEN.format(answer=row.answer)]
        if reasons:
            lines += ["", AGAIN.format(reasons="\n".join(f"- {reason}" for reason in reasons))]
        return lines


def load_teacher_prompt(response_format: str, give_answer: bool, prompt_file: str | None) -> TeacherPrompt:
    """The prompt of a configuration.

    Raises:
        UserError: `prompt_file` cannot be read as UTF-8 text, or is empty.
    """
    if prompt_file is None:
        return TeacherPrompt(response_format, give_answer)
    try:
        own = Path(prompt_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"teacher.prompt_file={prompt_file} cannot be read as text: {error}.") from error
    if not own:
        raise UserError(
            f"teacher.prompt_file={prompt_file} is empty. Write the teacher's instruction into it."
        )
    return TeacherPrompt(response_format, give_answer, own)
