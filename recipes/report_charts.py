"""The report's charts: inline SVG of our own, without scripts, coloured by the page's style sheet.

Every text that comes from data passes `Markup.format`, which escapes it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

HEIGHT = 170
LEFT, RIGHT, TOP, BOTTOM = 46, 48, 12, 30


class Mark(NamedTuple):
    """One accuracy with its interval, in [0, 1]; `style` names the stage in the style sheet."""

    style: str
    label: str
    accuracy: float
    low: float
    high: float


class Strip(NamedTuple):
    """One line of the interval chart: what was asked, how often, the two baselines, and the stages."""

    label: str
    n: int
    chance: float
    majority: float
    marks: Sequence[Mark]


def line_chart(
    name: str,
    points: Sequence[tuple[float, float]],
    bounds: tuple[float, float] | None = None,
    width: int = 300,
    limit: float | None = None,
) -> Markup:
    """A curve over steps: thin as measured, thick its running mean, whose last value is written out.

    `points` are (step, value); values that are not finite are left out. `bounds` fixes the value axis;
    `limit` is drawn as a dotted line.
    """
    points = [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)]
    if not points:
        return Markup('<p class="quiet">No values of {} were recorded.</p>').format(name)
    xs, ys = zip(*points, strict=True)
    x_ticks = ticks(min(xs), max(xs), 4)
    limits = [limit] if limit is not None and math.isfinite(limit) else []
    y_low, y_high = bounds or _padded(min([*ys, *limits]), max([*ys, *limits]))
    y_ticks = [tick for tick in ticks(y_low, y_high, 4) if y_low <= tick <= y_high]
    right = width - RIGHT
    span = max(xs) - min(xs) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - min(xs)) / span if len(set(xs)) > 1 else 0.5
        up = (y - y_low) / (y_high - y_low)
        return LEFT + across * (right - LEFT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    mean = running_mean(ys)
    end_x, end_y = place(xs[-1], mean[-1])
    parts = [
        *(_y_tick(place(min(xs), tick)[1], right, _number(tick)) for tick in y_ticks),
        *(_x_tick(place(tick, y_low)[0], _number(tick)) for tick in x_ticks if min(xs) <= tick <= max(xs)),
        _text(LEFT + (right - LEFT) / 2, HEIGHT - 2, "step", "middle"),
        *(_line("chance", LEFT, place(min(xs), y)[1], right, place(min(xs), y)[1]) for y in limits),
        _path("raw", [place(x, y) for x, y in points]),
        _path("mean", [place(x, y) for x, y in zip(xs, mean, strict=True)]),
        Markup('<circle class="end" cx="{:.1f}" cy="{:.1f}" r="3"/>').format(end_x, end_y),
        Markup('<text class="value" x="{:.1f}" y="{:.1f}">{}</text>').format(
            end_x + 6, end_y + 4, _number(mean[-1])
        ),
    ]
    label = f"{name} over {len(points)} steps, from {_number(mean[0])} to {_number(mean[-1])}"
    return _svg(width, HEIGHT, label, parts)


def interval_chart(strips: Sequence[Strip]) -> Markup:
    """Accuracies with their intervals, a line a category; ticks mark guessing and the best constant."""
    left, width, row, top = 250, 860, 46, 28
    height = top + row * len(strips) + 8

    def place(accuracy: float) -> float:
        return left + accuracy * (width - left - 24)

    parts = []
    for tenth in range(0, 11, 2):
        x = place(tenth / 10)
        parts.append(_line("grid", x, top - 6, x, height - 6))
        parts.append(_text(x, 14, f"{tenth * 10} %", "middle"))
    for index, strip in enumerate(strips):
        y = top + row * index + row / 2
        parts.append(_line("grid", 0, y + row / 2, width, y + row / 2))
        parts.append(_text(0, y, _clipped(strip.label), "start", "name"))
        parts.append(_text(0, y + 14, f"{strip.n:,} questions", "start"))
        for style, value in (("chance", strip.chance), ("majority", strip.majority)):
            parts.append(_line(style, place(value), y - 19, place(value), y + 19))
        for slot, mark in enumerate(strip.marks):
            level = y + (slot - (len(strip.marks) - 1) / 2) * 11
            parts.append(
                Markup('<g class="{}"><title>{}: {:.1%} ({:.1%} to {:.1%})</title>').format(
                    mark.style, mark.label, mark.accuracy, mark.low, mark.high
                )
            )
            parts.append(_line("whisker", place(mark.low), level, place(mark.high), level))
            parts.append(
                Markup('<circle cx="{:.1f}" cy="{:.1f}" r="4.5"/></g>').format(place(mark.accuracy), level)
            )
    return _svg(width, height, "accuracy by category with 95 % intervals", parts)


def answers_chart(shares: Mapping[str, Mapping[str, float]], labels: Mapping[str, str]) -> Markup:
    """How often each answer is given: a group of bars an answer, a bar a source.

    `shares`: answer -> style -> share in [0, 1]; `labels`: style -> what it stands for.
    """
    bar, gap, height, top = 22, 34, 210, 14
    group = bar * len(labels)
    width = 46 + len(shares) * (group + gap)
    highest = max((share for answer in shares.values() for share in answer.values()), default=0.0) or 1.0
    ceiling = math.ceil(highest * 10) / 10

    def place(share: float) -> float:
        return height - 26 - share / ceiling * (height - 26 - top)

    parts = []
    for share in (0.0, ceiling / 2, ceiling):
        parts.append(_line("grid", 40, place(share), width, place(share)))
        parts.append(_text(36, place(share) + 4, f"{share:.0%}", "end"))
    for index, (answer, given) in enumerate(shares.items()):
        x = 46 + index * (group + gap)
        for slot, (style, share) in enumerate((s, given.get(s, 0.0)) for s in labels):
            parts.append(
                Markup(
                    '<rect class="bar {}" x="{:.1f}" y="{:.1f}" width="{}" height="{:.1f}">'
                    "<title>{}, {}: {:.1%}</title></rect>"
                ).format(
                    style,
                    x + slot * bar,
                    place(share),
                    bar - 2,
                    place(0) - place(share),
                    answer,
                    labels[style],
                    share,
                )
            )
        parts.append(_text(x + group / 2, height - 8, answer, "middle"))
    return _svg(width, height, "how often each answer is given", parts)


def running_mean(values: Sequence[float]) -> list[float]:
    """Mean over a centred window of a tenth of the curve (three values at least), cut off at the ends."""
    reach = max(1, len(values) // 20)
    return [_mean(values[max(0, i - reach) : i + reach + 1]) for i in range(len(values))]


def ticks(low: float, high: float, wanted: int) -> list[float]:
    """About `wanted` round numbers (1, 2 or 5 times a power of ten apart) that enclose `low` and `high`."""
    if high <= low:
        return [low]
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _padded(low: float, high: float) -> tuple[float, float]:
    if high == low:
        room = abs(high) * 0.5 or 1.0
        return low - room, high + room
    marks = ticks(low, high, 4)
    return marks[0], marks[-1]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _clipped(label: str, most: int = 38) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _number(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:.3g}" if 1e-3 <= abs(value) < 1e4 else f"{value:.1e}"


def _svg(width: float, height: float, label: str, parts: Sequence[Markup]) -> Markup:
    return Markup('<svg viewBox="0 0 {} {}" width="{}" role="img" aria-label="{}">{}</svg>').format(
        width, height, width, label, Markup("").join(parts)
    )


def _text(x: float, y: float, text: str, anchor: str, style: str = "tick") -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        style, x, y, anchor, text
    )


def _line(style: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(
        style, x1, y1, x2, y2
    )


def _path(style: str, points: Sequence[tuple[float, float]]) -> Markup:
    return Markup('<path class="{}" d="M{}"/>').format(style, "L".join(f"{x:.1f} {y:.1f}" for x, y in points))


def _y_tick(y: float, right: float, text: str) -> Markup:
    return _line("grid", LEFT, y, right, y) + _text(LEFT - 6, y + 4, text, "end")


def _x_tick(x: float, text: str) -> Markup:
    return _text(x, HEIGHT - BOTTOM + 14, text, "middle")
