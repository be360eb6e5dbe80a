"""An endpoint for the tests of generation: questions, descriptions and blind answers, some of them flawed."""

import json
import random
from typing import Any

from stub_endpoint import Stub

from data_prep.generation.templates import VARIANTS, Category, Variant

FLAWS = ("options", "banned", "stem", "count", "no JSON", "margin", "refusal")
FLAWED = 0.15
HOPELESS = "roof"  # a category that it never gets right
LEAKY = "tell-tale"  # a word by which the blind solver knows the answer
COUNTS = ("twin", "triple", "lone", "deep", "slim", "rounded", "stepped", "angled", "framed", "plain")


class Generator(Stub):
    """What it writes depends on the request alone, as in `Stub`."""

    def complete(self, body: dict[str, Any], rng: random.Random) -> dict[str, Any]:
        content = body["messages"][1]["content"]
        text = content[-1]["text"]
        if len(content) == 1:
            message = self._solve(text, rng)
        elif "response_format" in body:
            message = self._write(body["response_format"]["json_schema"]["schema"], text, rng)
        else:
            message = describe(text, rng, self.flawed)
        tokens = {"prompt_tokens": 900, "completion_tokens": len(message) // 4}
        if message == "refusal":
            reply: dict[str, Any] = {"role": "assistant", "content": None, "refusal": "No."}
        else:
            reply = {"role": "assistant", "content": message}
        return {"choices": [{"index": 0, "message": reply, "finish_reason": "stop"}], "usage": tokens}

    def _write(self, schema: dict[str, Any], text: str, rng: random.Random) -> str:
        names = schema["properties"]["questions"]["items"]["properties"]["category"]["enum"]
        variant = next(v for v in VARIANTS.values() if set(names) <= {c.name for c in v.categories})
        asked = [c for c in variant.categories if c.name in names]
        count = int(text.split("exactly ")[1].split()[0]) if "exactly " in text else rng.randint(1, 3)
        chosen = rng.sample(asked, min(count, len(asked)))
        chosen += [asked[-1]] * (count - len(chosen))
        questions = [question(variant, category, rng) for category in chosen]
        flaw = rng.choice(FLAWS) if self.flawed and rng.random() < FLAWED else "none"
        for one in questions if self.flawed else []:
            if one["category"] == HOPELESS:
                one["options"] = one["options"][::-1]
        return spoil(questions, flaw, rng)

    def _solve(self, text: str, rng: random.Random) -> str:
        """The option that is true of leaky questions by the tests' own rule, else one by lot."""
        lines = text.splitlines()
        options = {line[0]: line[3:] for line in lines[1:]}
        if LEAKY in lines[0]:
            return next(letter for letter, option in options.items() if option in first_options())
        return rng.choice(list(options))


def first_options() -> set[str]:
    return {category.options[0] for variant in VARIANTS.values() for category in variant.categories}


def question(variant: Variant, category: Category, rng: random.Random) -> dict[str, Any]:
    """A question that keeps to every rule. Leaky ones have the first option for their answer."""
    filled = {}
    leaky = bool(category.free_slots) and rng.random() < 0.2
    for slot in category.slots:
        filled[slot.name] = rng.choice(slot.choices) if slot.choices else description(variant, rng)
    if leaky:
        slot = category.free_slots[0].name
        filled[slot] = f"{filled[slot]} with the {LEAKY} notch"
    answers = category.answers or category.letters
    return {
        "question": category.stem.format(**filled),
        "options": category.labelled,
        "answer": "A" if leaky else rng.choice(answers),
        "category": category.name,
        "margin": category.margin and rng.uniform(category.margin, 5),
    }


def description(variant: Variant, rng: random.Random) -> str:
    one, other = rng.sample(COUNTS, 2)
    number = rng.choice(("first", "second", "third", "fourth"))
    if variant.name == "g2s_fov":
        return f"the {number} {one} window band beside the {other} recessed bay"
    if variant.name == "g2s_cvusa":
        return f"the {number} house with the {one} porch and {other} chimney in the {rng.choice(PLACES)}"
    return f"the {number} {one} footprint beside the {other} intersection"


PLACES = ("left quarter", "right quarter", "center", "far edge")


def spoil(questions: list[dict[str, Any]], flaw: str, rng: random.Random) -> str:
    victim = questions[0] if questions else {}
    match flaw:
        case "options" if victim:
            victim["options"] = ["A) Yes", "B) No"]
        case "banned" if victim:
            victim["question"] = victim["question"].replace(" the ", " the north ", 1)
        case "stem" if victim:
            victim["question"] = "What is this?"
        case "count":
            questions = questions * 3
        case "margin" if victim:
            victim["margin"] = 1.2 if victim["margin"] else victim["margin"]
        case "no JSON":
            return "Here they are: [{"
        case "refusal":
            return "refusal"
    fence = rng.random() < 0.3
    written = json.dumps({"questions": questions})
    return f"```json\n{written}\n```" if fence else written


def describe(text: str, rng: random.Random, flawed: bool) -> str:
    if "two or three" in text:
        first = f"A {rng.choice(COUNTS)} building with a grey shingled roof and a simple outline."
        return f"{first} A {rng.choice(COUNTS)} annex adjoins it on one side."
    if flawed and rng.random() < FLAWED:
        return "A van in front of a house."
    words = [rng.choice(COUNTS) for _ in range(15)]
    return f"A house with {' '.join(words)} windows and doors under a narrow eave."
