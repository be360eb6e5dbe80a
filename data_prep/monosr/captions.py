"""Phrases for objects from a teacher that sees the picture, each shown to fit one object (paper, section
3.1).

The teacher gets the picture with one object in a red frame and writes a short noun phrase. A phrase that
breaks a rule of `fault` is asked for again. Then the phrase is tried the other way round: the picture comes
with every object of the category in a numbered frame, and a phrase stays only where the teacher finds the one
that it was written for. An object without a phrase has its names from geometry
(`data_prep.monosr.references`).
"""

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from PIL import Image, ImageDraw, ImageFont

from data_prep.atomic import read_jsonl, replacing, write_jsonl
from data_prep.errors import UserError
from data_prep.generation.asking import UnansweredError, ask_until_sound
from data_prep.generation.session import work_through
from data_prep.generation.validate import Fault, Verdict
from data_prep.monosr.chunks import Captions, Read
from data_prep.monosr.references import NAMELESS, noun
from data_prep.monosr.scene import Scene
from data_prep.teacher.client import Client, Request

MOST_WORDS = 8
RED = (230, 20, 20)
WRITER = (
    "You name one object of a picture, the one in the red frame. Reply with a noun phrase of at most eight"
    " words, without an article, that fits this object and no other one of the picture: its kind, and its"
    " colour, material or form, or what is on it. Use the noun that you are given. Do not mention the frame,"
    " where the object is in the picture, how far or how large it is, and use no digits."
)
FINDER = (
    "The picture shows objects in numbered frames. Reply with the number of the one object that the phrase"
    " fits, or with 0 where it fits none or more than one. Nothing else."
)
_BANNED = re.compile(
    r"\b(?:left|right|above|below|front|behind|near(?:er|est)?|close(?:r|st)?|far(?:ther|thest)?|middle|cent(?:re|er)"
    r"|large(?:r|st)?|small(?:er|est)?|tall(?:er|est)?|big(?:ger|gest)?|frame|red box|picture|image|photo)\b"
    r"|\d|[^\w\s,'-]",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"^(?:the|a|an|this|that)\s+", re.IGNORECASE)


@dataclass(frozen=True)
class Captioned:
    """A scene's phrases by annotation id, without article; and what was wrong with replies, by kind."""

    phrases: dict[str, str]
    faults: Counter[str]


def fault(phrase: str, word: str) -> Fault | None:
    """What is wrong with a phrase for an object of the noun `word`, or None."""
    if not phrase:
        return Fault("empty", "the reply is empty.")
    if len(phrase.split()) > MOST_WORDS:
        return Fault("length", f"the phrase has more than {MOST_WORDS} words.")
    if found := _BANNED.search(phrase):
        return Fault("words", f"the phrase holds {found[0]!r}, which it may not.")
    if not re.search(rf"\b{re.escape(word.split()[-1])}\b", phrase, re.IGNORECASE):
        return Fault("noun", f"the phrase does not use the noun {word!r}.")
    if phrase.casefold() == word.casefold():
        return Fault("bare", f"the phrase is the bare noun {word!r}; say what sets the object apart.")
    return None


def judge(reply: str, word: str) -> Verdict:
    """The phrase of a reply, lower case at its start and without article, or what is wrong with it."""
    phrase = _ARTICLE.sub("", " ".join(reply.split()).strip(" .\"'"))
    phrase = phrase[:1].lower() + phrase[1:]
    found = fault(phrase, word)
    return Verdict((), (found,)) if found else Verdict((phrase,), ())


def found_number(reply: str, most: int) -> int:
    """The number that the finder gives; 0 where it is none of the frames'."""
    numbers = re.findall(r"\d+", reply)
    return int(numbers[0]) if len(numbers) == 1 and int(numbers[0]) <= most else 0


def framed(picture: Path, target: Path, boxes: Sequence[Sequence[float]], numbered: bool) -> Path:
    """Write the picture with red frames around boxes x1, y1, x2, y2 (pixels), numbered from 1 where asked.

    Raises:
        UserError: the picture cannot be read.
    """
    if target.exists():
        return target
    try:
        with Image.open(picture) as opened:
            image = opened.convert("RGB")
    except OSError as error:
        raise UserError(f"{picture} cannot be read ({error}); it is wanted for captions.") from error
    draw = ImageDraw.Draw(image)
    width = max(2, round(max(image.size) / 250))
    font = ImageFont.load_default(max(12, round(max(image.size) / 40)))
    for number, (x1, y1, x2, y2) in enumerate(boxes, 1):
        draw.rectangle((x1, y1, max(x2, x1 + 1), max(y2, y1 + 1)), outline=RED, width=width)
        if numbered:
            ends = draw.textbbox((x1, y1), str(number), font=font, stroke_width=1)
            draw.rectangle(ends, fill=RED)
            draw.text((x1, y1), str(number), fill="white", font=font)
    with replacing(target) as temporary:
        image.save(temporary, "PNG")
    return target


class Captioning:
    """Asks for the phrases of scenes.

    Args:
        images: the folder of the scenes' pictures. `work`: where framed pictures are written; they may be
        removed
            afterwards.
        retries: times that a phrase with a fault is asked for again.
    """

    def __init__(self, client: Client, images: Path, work: Path, retries: int) -> None:
        self._client, self._images, self._work, self._retries = client, images, work, retries

    async def of(self, scene: Scene, full: Scene | None = None) -> Captioned:
        """The phrases of the objects of `scene` that share their category with another one of `full`.

        An object that is the only one of its category needs none.

        Raises:
            UserError: as `Client.ask` does, or the picture cannot be read.
        """
        full = scene if full is None else full
        words = [noun(category) for category in full.categories]
        count = Counter(words)
        places = {name: place for place, name in enumerate(full.ids)}
        faults: Counter[str] = Counter()
        phrases: dict[str, str] = {}
        for name in scene.ids:
            word = words[places[name]]
            if count[word] > 1 and word not in NAMELESS:
                alike = [place for place, other in enumerate(words) if other == word]
                phrase = await self._phrase(full, places[name], alike, word, faults)
                if phrase:
                    phrases[name] = phrase
        shared = Counter(phrase.casefold() for phrase in phrases.values())
        kept = {name: phrase for name, phrase in phrases.items() if shared[phrase.casefold()] == 1}
        faults["shared"] += len(phrases) - len(kept)
        return Captioned(kept, +faults)

    async def _phrase(
        self, full: Scene, place: int, alike: list[int], word: str, faults: Counter[str]
    ) -> str | None:
        own = self._framed(full, [place], f"{place}", numbered=False)
        request = Request(WRITER, f"The noun is: {word}", (own,))
        try:
            written = await ask_until_sound(self._client, request, partial(judge, word=word), self._retries)
        except UnansweredError:
            faults["unanswered"] += 1
            return None
        faults.update(one.kind for one in written.sent_back)
        if not written.verdict.kept:
            return None
        phrase = written.verdict.kept[0]
        every = self._framed(full, alike, word.replace("/", " "), numbered=True)
        reply = await self._client.ask(Request(FINDER, f"The phrase is: {phrase}", (every,)))
        if reply.given_up:
            faults["unanswered"] += 1
            return None
        if found_number(reply.text or "", len(alike)) != alike.index(place) + 1:
            faults["not found"] += 1
            return None
        return phrase

    def _framed(self, full: Scene, places: list[int], name: str, numbered: bool) -> Path:
        target = self._work / full.id / f"{name}.png"
        boxes = [full.box2d[place].tolist() for place in places]
        return framed(self._images / full.image, target, boxes, numbered)


@dataclass(frozen=True)
class WithCaptions:
    """Reads as `read` does, and gives each scene its phrases from `folder` too. `chunk`: images a file.

    It is asked for ranges that begin at a file's first image and end in the same file.
    """

    read: Read
    folder: Path
    chunk: int

    def file(self, start: int) -> Path:
        return self.folder / f"captions-{start // self.chunk:05d}.jsonl"

    def __call__(self, start: int, stop: int) -> Iterator[tuple[Scene, Scene | None, Captions]]:
        known = {record["scene"]: record["phrases"] for record in read_jsonl(self.file(start))}
        for scene, full, *_ in self.read(start, stop):
            yield scene, full, known.get(scene.id, {})


async def caption(
    captions: WithCaptions,
    images: int,
    pictures: Path,
    teacher: DictConfig,
    replies: Path,
    section: str = "teacher",
    progress: Callable[[int], None] = lambda done: None,
) -> Counter[str]:
    """Write the files of `captions` that are not there, and return what became of the objects, by kind.

    Replies are kept in `replies`, so a killed run goes on. Memory holds the scenes of one file.

    Args:
        images: how many images there are. `pictures`: the folder below which the scenes' pictures lie.
        teacher: the configuration's section named `section`, which the client is made from.
        progress: told the images done.

    Raises:
        UserError: as `Client` does; a picture cannot be read; or requests were never answered and
            `allow_unanswered` is not set.
    """
    found: Counter[str] = Counter()
    async with Client(teacher, replies, section) as client:
        asking = Captioning(client, pictures, captions.folder / "framed", teacher.retries)
        for start in range(0, images, captions.chunk):
            stop, path = min(start + captions.chunk, images), captions.file(start)
            if not path.exists():
                scenes = [(scene, full) for scene, full, *_ in captions.read(start, stop)]
                made = await _all(asking, scenes, teacher.concurrency)
                if (lost := sum(one.faults["unanswered"] for one in made)) and not teacher.allow_unanswered:
                    raise UserError(
                        f"{lost} requests for captions were never answered. What is paid for is kept: give"
                        f" the same command again, or go on without them: {section}.allow_unanswered=true."
                    )
                records = (
                    {"scene": scene.id, "phrases": one.phrases, "faults": dict(one.faults)}
                    for (scene, _), one in zip(scenes, made, strict=True)
                )
                write_jsonl(path, records)
                shutil.rmtree(captions.folder / "framed", ignore_errors=True)
            for record in read_jsonl(path):
                found.update(record["faults"])
                found["kept"] += len(record["phrases"])
            progress(stop)
    return found


async def _all(
    asking: Captioning, scenes: Sequence[tuple[Scene, Scene | None]], workers: int
) -> list[Captioned]:
    jobs: list[Any] = [partial(asking.of, *pair) for pair in scenes]
    return await work_through(jobs, workers, lambda: None) if jobs else []  # type: ignore[return-value]
