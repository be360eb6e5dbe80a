"""English number words: "twenty-one", "one hundred and five", "two point five", "one and a half"."""

_ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
SMALL = {word: i for i, word in enumerate(_ONES)} | {word: 10 * i for i, word in enumerate(_TENS, 2)}
SCALES = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9}
WORDS = frozenset(SMALL) | frozenset(SCALES) | {"half", "point"}


def read_number_words(text: str) -> tuple[float, str] | None:
    """The number at the start of lower-case `text` and the rest, or None when the text starts with none.

    Two numbers side by side ("one two") are no number: the second stays in the rest.
    """
    tokens = text.replace("-", " ").split(" ")
    position = 1 if tokens[0] in ("a", "an") and len(tokens) > 1 and tokens[1] in {*SCALES, "half"} else 0
    total, group, last, used = 0.0, 1.0 if position else None, None, position
    while used < len(tokens):
        token = tokens[used]
        if token == "and" and last == "scale" and used + 1 < len(tokens) and tokens[used + 1] in SMALL:
            used += 1
        elif token in SMALL and _follows(last, group, SMALL[token]):
            group = (group or 0.0) + SMALL[token]
            last = "tens" if SMALL[token] >= 20 else "ones"
            used += 1
        elif token in SCALES and (group is not None or last == "scale"):
            if SCALES[token] <= 100:
                group = (1.0 if group is None else group) * SCALES[token]
            else:
                total += (group or 1.0) * SCALES[token]
                group = None
            last = "scale"
            used += 1
        else:
            break
    seen = last is not None
    value = total + (group or 0.0) if seen else 0.0
    rest = tokens[used:]
    if seen and rest[:1] == ["point"]:
        digits = []
        while len(digits) + 1 < len(rest) and SMALL.get(rest[len(digits) + 1], 10) < 10:
            digits.append(str(SMALL[rest[len(digits) + 1]]))
        if digits:
            return value + float("0." + "".join(digits)), " ".join(rest[len(digits) + 1 :])
    if seen and rest[:3] == ["and", "a", "half"]:
        return value + 0.5, " ".join(rest[3:])
    if rest[:1] == ["half"] and (not seen and used == position):
        after = rest[1:]
        return 0.5, " ".join(after[1:] if after[:1] in (["a"], ["an"]) else after)
    return (value, " ".join(rest)) if seen else None


def _follows(last: str | None, group: float | None, value: int) -> bool:
    """Whether a small number may continue the one read so far: after a scale, or ones after tens."""
    if last is None or last == "scale":
        return True
    return last == "tens" and 0 < value < 10
