"""The reward of GRPO by step, ours beside the paper's figure, as one SVG that needs no style sheet.

Drawn through: our running mean, over the reward as logged (thin). Broken: the paper's curve, smoothed by them
and read off the figure.
"""

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from recipes.grid import Planned
from recipes.report_charts import running_mean, ticks
from recipes.run_dir import RunDir
from recipes.tables_published import published_curves

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 16, 44
COLOURS = {"structured_cot": "#b8442c", "imagination_cot": "#2f6fbf"}
MORE = ("#2c7d4f", "#8a5bb0", "#b98a1c")  # of further cells beside the same published curve
LABELS = {"structured_cot": "paper, Structured Scene", "imagination_cot": "paper, Spatial Imagination"}
Points = Sequence[tuple[float, float]]


def curve_of(work: Sequence[Planned]) -> Markup | None:
    """The chart of a grid's cells that name a published curve; None where no cell has one."""
    named = [planned for planned in work if planned.cell.curve is not None]
    if not named:
        return None
    published = {name: published_curves()[name] for name in dict.fromkeys(p.cell.curve for p in named)}
    return chart(published, {p.cell.name: (p.cell.curve, rewards(p)) for p in named})


def rewards(planned: Planned) -> list[tuple[float, float]]:
    """(step, mean reward of the step's answers) of the cell's GRPO, as far as it has come."""
    grpo = planned.stage.inputs.get("grpo")
    if grpo is None:
        return []
    records = RunDir(grpo.path).metrics()
    found = [(r["step"], r["reward"]) for r in records if isinstance(r.get("reward"), int | float)]
    return sorted((step, reward) for step, reward in found if math.isfinite(reward))


def chart(published: Mapping[str, Points], ours: Mapping[str, tuple[str, Points]]) -> Markup:
    """`published`: name -> points; `ours`: cell -> (the published curve that it stands beside, points)."""
    values = [y for points in [*published.values(), *(p for _, p in ours.values())] for _, y in points]
    steps = [x for points in [*published.values(), *(p for _, p in ours.values())] for x, _ in points]
    marks = ticks(min(values), max(values), 5)
    low, high, last = marks[0], marks[-1], max(steps)

    def place(step: float, value: float) -> tuple[float, float]:
        across = (step - 1) / max(1, last - 1)
        up = (value - low) / ((high - low) or 1.0)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = [_grid(place(1, tick)[1], f"{tick:g}") for tick in marks]
    for tick in ticks(1, last, 6):
        if 1 <= tick <= last:
            parts.append(_text(place(tick, low)[0], HEIGHT - BOTTOM + 18, f"{tick:g}", "middle"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "step of GRPO", "middle"))
    keys: list[tuple[str, str, str]] = []
    for name, points in published.items():
        parts.append(_line([place(x, y) for x, y in points], COLOURS[name], 2, "6 4"))
        keys.append((LABELS[name], COLOURS[name], "6 4"))
    further = iter(MORE * len(ours))
    used: set[str] = set()
    for cell, (beside, points) in ours.items():
        colour = next(further) if beside in used else COLOURS[beside]
        used.add(beside)
        if not points:
            continue
        smooth = running_mean([y for _, y in points])
        parts.append(_line([place(x, y) for x, y in points], colour, 1, "", opacity=0.35))
        parts.append(_line([place(x, y) for (x, _), y in zip(points, smooth, strict=True)], colour, 2.5, ""))
        keys.append((f"ours, {cell.replace('_', ' ')}", colour, ""))
    for number, (label, colour, dash) in enumerate(keys):
        y = HEIGHT - BOTTOM - 16 * (len(keys) - number)
        parts.append(_line([(WIDTH - 270, y - 4), (WIDTH - 240, y - 4)], colour, 2.5, dash))
        parts.append(_text(WIDTH - 232, y, label, "start"))
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" width="{}" role="img" '
        'aria-label="reward of GRPO by step, ours and the paper\'s" '
        'style="background:#fff;font:12px system-ui,sans-serif">{}</svg>'
    ).format(WIDTH, HEIGHT, WIDTH, Markup("").join(parts))


def _line(
    points: Sequence[tuple[float, float]], colour: str, width: float, dash: str, opacity: float = 1.0
) -> Markup:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return Markup(
        '<path d="M{}" fill="none" stroke="{}" stroke-width="{}" stroke-dasharray="{}" opacity="{}"/>'
    ).format(path, colour, width, dash or "none", opacity)


def _grid(y: float, text: str) -> Markup:
    line = Markup('<line x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}" stroke="#e3e1dc"/>')
    return line.format(LEFT, WIDTH - RIGHT, y, y) + _text(LEFT - 8, y + 4, text, "end")


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}" fill="#4a5159">{}</text>').format(
        x, y, anchor, text
    )
