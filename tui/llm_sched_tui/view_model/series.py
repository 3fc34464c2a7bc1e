"""History with an end: a few windows of equally long steps, each step remembered once.

The law: memory depends on the number of buckets and runs that exist, never on how long the monitor has run or how
often the ledger changes. Steps lie on an absolute grid of time, so that a plot slides and does not shimmer.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WINDOWS_S = (60.0, 300.0, 900.0, 3600.0)
"""Lengths of the windows that a user can choose, in seconds."""

STEPS = 240
"""Steps of a window: more columns than that no plot has."""

_PATIENCE = 4


class Sample(Protocol):
    """What one step remembers."""

    def merged(self, later: Self) -> Self:
        """What to remember of a step in which this was followed by `later`."""
        ...


S = TypeVar("S", bound=Sample)


@dataclass(frozen=True, slots=True)
class Series:
    """Equally spaced values, oldest first, None where nobody looked; `last` is the number of the newest step."""

    values: tuple[float | None, ...]
    last: int

    def columns(self, width: int) -> tuple[float | None, ...]:
        """At most `width` values, as many as that if there are steps enough.

        Each is the largest of a group of steps that begins at a fixed moment, and which groups are two columns wide
        depends on that moment too: so a plot slides and does not shimmer.
        """
        if width <= 0 or not self.values:
            return ()
        size = math.ceil(len(self.values) / width)
        stretch = width / math.ceil(len(self.values) / size)
        drawn: list[float | None] = []
        for number, value in self._groups(size):
            drawn += [value] * (math.floor((number + 1) * stretch) - math.floor(number * stretch))
        return tuple(drawn[-width:])

    def _groups(self, size: int) -> Iterator[tuple[int, float | None]]:
        """The largest value of each group of steps, by the group's number."""
        steps = enumerate(self.values, self.last - len(self.values) + 1)
        for number, group in groupby(steps, key=lambda step: step[0] // size):
            yield number, max((value for _, value in group if value is not None), default=None)

    def largest(self) -> float:
        """The largest value; 0 when there is none."""
        return max((value for value in self.values if value is not None), default=0.0)


@dataclass(frozen=True, slots=True)
class Base(Generic[S]):
    """What a change is counted from: a sample, and until when (s) it was the case."""

    until: float
    sample: S


class Ring(Generic[S]):
    """The samples of one window, one a step.

    Args:
        length_s: the window's length in seconds.
        steps: how many steps it has.
    """

    __slots__ = ("_samples", "length_s", "step_s", "steps")

    def __init__(self, length_s: float, steps: int = STEPS) -> None:
        self.length_s = length_s
        self.steps = steps
        self.step_s = length_s / steps
        # One more than is shown: what is in the first step is told by its difference to the one before.
        self._samples: deque[tuple[int, S]] = deque(maxlen=steps + 1)

    def copy(self) -> Ring[S]:
        """The same history, which no longer grows."""
        other: Ring[S] = Ring(self.length_s, self.steps)
        other._samples.extend(self._samples)
        return other

    def add(self, at: float, sample: S) -> None:
        """Remember what was seen at the time `at`, in seconds; times never run backwards."""
        index = int(at // self.step_s)
        if self._samples and self._samples[-1][0] >= index:
            self._samples[-1] = (self._samples[-1][0], self._samples[-1][1].merged(sample))
        else:
            self._samples.append((index, sample))

    def before(self, at: float) -> Base[S] | None:
        """The newest sample of a step that ended by `at`, else the oldest there is; None when there is none."""
        index = int(at // self.step_s)
        found: tuple[int, S] | None = None
        for found in reversed(self._samples):
            if found[0] < index:
                break
        return Base((found[0] + 1) * self.step_s, found[1]) if found else None

    def level(self, at: float, value: Callable[[S], float]) -> Series:
        """What was the case in each step of the window that ends at `at`."""
        return self._series(at, ((index, value(sample)) for index, sample in self._samples))

    def change(self, at: float, value: Callable[[S, S, float], float | None], over: int = 1) -> Series:
        """What the steps of the window that ends at `at` brought.

        Args:
            at: seconds.
            value: of a sample, a later one, and the seconds between them.
            over: how many steps back to compare each with: more make it smoother.
        """
        return self._series(at, self._changes(value, over))

    def _changes(self, value: Callable[[S, S, float], float | None], over: int) -> Iterator[tuple[int, float | None]]:
        earlier: deque[tuple[int, S]] = deque()
        for index, sample in self._samples:
            while len(earlier) > 1 and earlier[1][0] <= index - over:
                earlier.popleft()
            if earlier:
                yield index, value(earlier[0][1], sample, (index - earlier[0][0]) * self.step_s)
            earlier.append((index, sample))

    def _series(self, at: float, points: Iterator[tuple[int, float | None]]) -> Series:
        last = int(at // self.step_s)
        # A moment of which nothing is known yet, because the next look is still to come, is not shown as a gap.
        if self._samples and last - _PATIENCE <= self._samples[-1][0] < last:
            last = self._samples[-1][0]
        first = last - self.steps + 1
        values: list[float | None] = [None] * self.steps
        for index, value in points:
            if first <= index <= last:
                values[index - first] = value
        return Series(tuple(values), last)
