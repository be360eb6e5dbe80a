"""English number words: "twenty-one", "a hundred and five", "two point five", "two and a half"."""

import re

_ONES = "one|two|three|four|five|six|seven|eight|nine"
_TEENS = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
SMALL = {
    word: value
    for words, values in (
        (_ONES, range(1, 10)),
        (_TEENS, range(10, 20)),
        (_TENS, range(20, 100, 10)),
        ("zero", [0]),
    )
    for word, value in zip(words.split("|"), values, strict=True)
}
SCALES = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
WORDS = frozenset({*SMALL, *SCALES, "half", "point"})
"""Every word that can be part of a number."""

_BELOW_100 = rf"(?:(?:{_TENS})(?:[ -](?:{_ONES}))?|{_TEENS}|{_ONES}|zero)"
_BELOW_1000 = rf"(?:(?:a|{_BELOW_100}) (?:hundred|dozen)(?: (?:and )?{_BELOW_100})?|{_BELOW_100})"
_LARGE = rf"(?:a|{_BELOW_1000}) (?:thousand|million|billion)"
_WHOLE = rf"{_LARGE}(?: {_LARGE})*(?: (?:and )?{_BELOW_1000})?|{_BELOW_1000}"
_NUMBER = re.compile(
    rf"(?:(?P<half>(?:(?:a|one) )?half(?: an?)?)"
    rf"|(?P<whole>{_WHOLE})(?:(?P<decimals> point(?: (?:zero|{_ONES}))+)|(?P<and_half> and a half))?)(?!\w)"
)


def read_number_words(text: str) -> tuple[float, str] | None:
    """The number at the start of lower-case `text` and what follows it; None when it starts with none.

    Two numbers side by side ("one two") are not joined: the second stays in the rest.
    """
    match = _NUMBER.match(text)
    if not match:
        return None
    rest = text[match.end() :]
    if match["half"]:
        return 0.5, rest
    value = _whole(re.split("[ -]", match["whole"]))
    if match["decimals"]:
        digits = "".join(str(SMALL[word]) for word in match["decimals"].split()[1:])
        return float(f"{value}.{digits}"), rest
    return value + (0.5 if match["and_half"] else 0.0), rest


def _whole(words: list[str]) -> int:
    total = group = 0
    for word in words:
        if word == "and":
            continue
        if word == "a":
            group = 1
        elif word in SMALL:
            group += SMALL[word]
        elif SCALES[word] < 1000:
            group *= SCALES[word]
        else:
            total, group = total + group * SCALES[word], 0
    return total + group
