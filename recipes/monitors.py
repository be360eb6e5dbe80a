"""Watches a GRPO run for the ways in which it is known to go wrong, and calls each by its name.

A monitor is a number made of the last few records of metrics.jsonl (`recipes.monitor_readings`); above its
limit (`grpo.monitors`) it is an alarm. A monitor in `grpo.monitors.stop_on` ends the run. Only the records
count, so a run that is taken up again, and the report, come to the same alarms. Standard library only.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from recipes.monitor_readings import MEMORY, MONITORS, Seen


@dataclass(frozen=True)
class Alarm:
    """A monitor above its limit, from `step` on."""

    monitor: str
    step: int
    value: float
    limit: float
    detail: str

    def __str__(self) -> str:
        monitor = MONITORS[self.monitor]
        detail = f" ({self.detail})" if self.detail else ""
        return (
            f"{self.monitor}: {monitor.says} {self.value:.2f}, limit {self.limit:g}{detail}. {monitor.advice}"
        )


class Watch:
    """Reads every monitor on the last `window` records. Feed the records in the order of their steps.

    `values` are the monitors' present values, `active` the alarms of those above their limits.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings` is the section `grpo.monitors`: window, stop_on, and a limit for every monitor."""
        self._settings = settings
        self._first: list[Mapping[str, Any]] = []
        self._last: deque[Mapping[str, Any]] = deque(maxlen=MEMORY * settings["window"])
        self._known: dict[str, tuple[Alarm, int]] = {}
        self.values: dict[str, float] = {}
        self.active: dict[str, Alarm] = {}

    def see(self, record: Mapping[str, Any]) -> list[Alarm]:
        """Take a step in and return the alarms that begin with it; a record without answers is no step.

        A monitor that comes back above its limit within a window goes on with the alarm that it had.
        """
        if "accuracy" not in record:
            return []
        window = self._settings["window"]
        self._last.append(record)
        if len(self._first) < window:
            self._first.append(record)
        last = list(self._last)
        seen = Seen(self._first, last[-window:], last)
        step, begun = record["step"], []
        readings = {
            # A number that is none says so at once; everything else takes a whole window.
            name: monitor.read(seen) if len(last) >= window or name == "not_finite" else None
            for name, monitor in MONITORS.items()
        }
        self.values = {name: reading.value for name, reading in readings.items() if reading}
        self.active = {}
        for name, reading in readings.items():
            if not reading or reading.value <= self._settings[name]:
                continue
            alarm, ended = self._known.get(name, (None, step))
            if alarm is None or step - ended > window:
                alarm = Alarm(name, step, reading.value, self._settings[name], reading.detail)
                begun.append(alarm)
            self.active[name] = alarm
            self._known[name] = (alarm, step)
        return begun

    @property
    def stopping(self) -> Alarm | None:
        """The alarm that ends the run."""
        return next((self.active[name] for name in self._settings["stop_on"] if name in self.active), None)


class Review(NamedTuple):
    """A run as a whole: every monitor's values by step, and its alarms, each with its last step."""

    values: dict[str, list[tuple[int, float]]]
    alarms: list[tuple[Alarm, int]]


def review(records: Iterable[Mapping[str, Any]], settings: Mapping[str, Any]) -> Review:
    """What `Watch` has to say of the records of a run."""
    watch = Watch(settings)
    values: dict[str, list[tuple[int, float]]] = {name: [] for name in MONITORS}
    spans: dict[tuple[str, int], tuple[Alarm, int]] = {}
    for record in records:
        watch.see(record)
        for name, value in watch.values.items():
            values[name].append((record["step"], value))
        for alarm in watch.active.values():
            spans[alarm.monitor, alarm.step] = (alarm, record["step"])
    return Review({name: points for name, points in values.items() if points}, list(spans.values()))
