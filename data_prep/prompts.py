"""The one prompt builder: SFT, GRPO and evaluation all turn a row into chat messages here.

A message holds the pictures first, then one text: the instruction, what kind of view is shown, auxiliary
information where the row has it, the question, its options. The instructions follow the rules of the paper
(CVSBench 0.B.2) in words of our own; `prompt.file` takes a text file of yours in place of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from data_prep.atomic import digest
from data_prep.errors import UserError
from data_prep.monosr.auxiliary_words import WORDS as AUX_WORDS
from data_prep.rows import ImageRef, Row
from data_prep.single_view import check_single_view
from rewards import RESPONSE_FORMATS

EVIDENCE = (
    "Answer one question about a place from a single view of it.",
    "Every piece of evidence must come from the picture you are given; do not describe, assume or refer to"
    " details of the view that is withheld.",
    "Name concrete things that can be seen. Do not make anything up, and do not guess names of places,"
    " shops or brands.",
    "When something cannot be made out, say so in a few words and still settle on one option.",
)
STYLE = (
    "Stay within 200 words. Before the answer tag, give neither an option letter nor the verdict."
    " Plain text only."
)
INSTRUCTIONS: dict[str, tuple[str, ...]] = {
    "answer_only": (
        "Answer one question about a place from a single view of it.",
        "Reply with the answer alone.",
    ),
    "think_answer": (*EVIDENCE, STYLE, "Reason inside <think> </think> first."),
    "imagination_cot": (
        *EVIDENCE,
        STYLE,
        "Picture how what you see would look from the other viewpoint, in these four steps, each under"
        " its own heading:",
    ),
    "structured_cot": (
        *EVIDENCE,
        STYLE,
        "Write three sections, each under its own heading: the scene as far as the question needs it; one to"
        " three decisive objects, each with a label, bbox: [x1, y1, x2, y2] in pixels and what is seen of it;"
        " how they lie to each other and how that carries over to the other viewpoint, with what stays"
        " uncertain:",
    ),
}
ANSWER_LINES = {
    "choice": "Close with <answer> the letter of one option </answer>. Any other form counts as wrong.",
    "yes_no": "Close with <answer> yes or no </answer>. Any other form counts as wrong.",
    "number": "Close with <answer> one number, with its unit </answer>. Any other form counts as wrong.",
    "box": "Close with <answer> [x_min, y_min, x_max, y_max] </answer>. Any other form counts as wrong.",
}
VIEWS = {
    "street": "a street-level photo",
    "panorama": "a street-level panorama",
    "satellite": "a satellite image",
    "composite": "a composite of several views",
}
# Roles and sentences of tasks that show both views (grounding, viewpoint localisation).
MARKED = {"marked": "the same place with one thing in a red box"}
# An auxiliary view beside the picture that is asked about (CVSBench 4.4): what it is, and to use it.
TWO_PICTURES = "Two pictures are given; use both."
HINTS = {
    "depth": f"{TWO_PICTURES} The second one is a depth map of the first: bright is near, dark is far.",
    "miniature": f"{TWO_PICTURES} The second one is a miniature of the place as it may look from above at an"
    " angle, made from the first by an image generator. It can be wrong in its details.",
    "map": f"{TWO_PICTURES} The second one is a map of the place.",
}
# The photos of a symmetry question, which an auxiliary view replaces by one picture of all of them.
STRIP = {"strip": "street-level photos of one place side by side"}
# A picture of a question that hides nothing (MonoSR), with marks on it or without.
PHOTOS = {"frame": "a photo", "numbered": "a photo with numbered marks"}
BOTH_VIEWS = "Nothing is withheld here: both views are shown."
BOX_PIXELS = "The four numbers are pixels of {picture}{size}, counted from its top left corner."
_SIZE = ", which is {width} wide and {height} high"
_PLACES = ("", "the picture", "the second picture", "the third picture", "the fourth picture")


@dataclass(frozen=True)
class PromptSpec:
    """Which response is asked for (`format`, a key of `rewards.RESPONSE_FORMATS`) and in which words.

    `views` is the kind of auxiliary view whose hint the words hold, or none; `aux` the variant of auxiliary
    information (`data.aux`), or None for a benchmark that has none to give.
    """

    format: str
    instruction: str
    views: str = "none"
    aux: str | None = None

    @property
    def hash(self) -> str:
        """Identifies the wording; stored with every set and every score."""
        words: list[Any] = [
            self.format,
            self.instruction,
            ANSWER_LINES,
            VIEWS,
            MARKED,
            BOTH_VIEWS,
            BOX_PIXELS,
        ]
        words += [] if self.views == "none" else [HINTS[self.views], STRIP]
        words += [] if self.aux is None else [PHOTOS]
        words += [] if self.aux in (None, "none") else [self.aux, AUX_WORDS]
        return digest(words)[:12]


def load_prompt(config: DictConfig, views: str = "none", aux: str | None = None) -> PromptSpec:
    """The prompt of `config` (the `prompt` section) for rows with an auxiliary view or information.

    Args:
        views: the kind of view (`data.views`).
        aux: the variant of information (`data.aux`), or None for a benchmark without.

    The text that a row gets follows from its own pictures and `meta`; both are a part of the hash alone.

    Raises:
        UserError: unknown response format, or `prompt.file` cannot be read as UTF-8 text.
    """
    if config.format not in INSTRUCTIONS:
        raise UserError(f"prompt.format={config.format} is unknown; take one of {', '.join(INSTRUCTIONS)}.")
    if config.file is not None:
        try:
            words = Path(config.file).read_text(encoding="utf-8").strip()
            return PromptSpec(config.format, words, views, aux)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"prompt.file={config.file} cannot be read as text: {error}.") from error
    return PromptSpec(config.format, default_instruction(config.format), views, aux)


def prompt_of_set(config: DictConfig) -> PromptSpec:
    """The prompt of a prepared set, by the configuration of its run; one from before views has none."""
    views = OmegaConf.select(config, "data.views", default="none")
    return load_prompt(config.prompt, views, OmegaConf.select(config, "data.aux", default=None))


def default_instruction(response_format: str) -> str:
    """Our instruction for a response format, a sentence a line, then the headings it must use."""
    return "\n".join([*INSTRUCTIONS[response_format], *RESPONSE_FORMATS[response_format].headings])


def describe_images(images: Sequence[ImageRef]) -> str:
    """One sentence on what is shown, for example "You see a satellite image."."""
    named = {**VIEWS, **MARKED, **STRIP, **PHOTOS}
    roles = [named.get(image.role, f"a {image.role} image") for image in images]
    if len(roles) == 1:
        return f"You see {roles[0]}."
    if len(set(roles)) == 1:
        return f"You see {len(roles)} pictures of one place, each {roles[0]}."
    return "You see, in this order, " + ", then ".join(roles) + "."


def answer_line(row: Row) -> str:
    """How the answer is to be given; for a box also in whose pixels: those of the row's last picture."""
    line = ANSWER_LINES[row.answer_type]
    if row.answer_type != "box" or not row.images:
        return line
    target, count = row.images[-1], len(row.images)
    place = _PLACES[count] if count < len(_PLACES) else "the last picture"
    size = _SIZE.format(width=target.width, height=target.height) if target.width else ""
    return f"{line} {BOX_PIXELS.format(picture=place, size=size)}"


def shows_both_views(row: Row) -> bool:
    """Whether the row hides no view: it asks for a box in another picture, or shows a composite."""
    return (row.answer_type == "box" and len(row.images) > 1) or any(
        i.role == "composite" for i in row.images
    )


def prompt_text(row: Row, prompt: PromptSpec) -> str:
    """The text of the user message, without the pictures.

    Raises:
        UserError: the row shows a view that its task hides.
    """
    check_single_view(row)
    views = describe_images(row.images)
    if shows_both_views(row):
        views += f" {BOTH_VIEWS}"
    if len(row.images) > 1 and row.images[-1].role in HINTS:
        views += f" {HINTS[row.images[-1].role]}"
    told = [row.meta["aux"]["text"]] if "aux" in row.meta else []
    lines = [prompt.instruction, answer_line(row), "", views, *told, row.question]
    if row.options is not None:
        lines += [f"{letter}) {text}" for letter, text in row.options.items()]
    return "\n".join(lines)


def build_messages(row: Row, prompt: PromptSpec) -> list[dict[str, Any]]:
    """Chat messages of one row: pictures in the row's order, then the text; no answer."""
    pictures = [{"type": "image"} for _ in row.images]
    return [{"role": "user", "content": [*pictures, {"type": "text", "text": prompt_text(row, prompt)}]}]


def placeholder_prompt(row: Row, prompt: PromptSpec) -> list[dict[str, str]]:
    """The same messages in the form verl's dataset reads: one `<image>` a picture, then the text."""
    return [{"role": "user", "content": "<image>" * len(row.images) + prompt_text(row, prompt)}]


def fixed_sentences() -> list[str]:
    """Every sentence that our prompts repeat word for word (a small tokenizer gives each a token)."""
    lines = [line for key in INSTRUCTIONS for line in default_instruction(key).split("\n")]
    return sorted({*lines, *ANSWER_LINES.values(), *(f"You see {view}." for view in VIEWS.values())})
