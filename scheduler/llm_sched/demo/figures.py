"""Figures from times: peaks, percentiles, hand-off gaps, how busy the slots were."""

# Law: pure. Lists of times in seconds of one clock in, numbers out; it may not know who measured them.

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import deque
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Interval = tuple[float, float]
"""Begin and end; the end does not belong to it, so what begins when another ends does not overlap it."""

MINUTE_S = 60.0


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The smallest value that `percent` % of all values do not exceed (nearest rank); None without values."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def peak(intervals: Iterable[Interval]) -> int:
    """How many intervals overlapped at most."""
    return max(accumulate(step for _, step in _steps(intervals)), default=0)


def busy_share(intervals: Sequence[Interval], slots: int) -> float | None:
    """The share of `slots` that were in use, from 0 to 1, while there still was work to begin.

    Measured from the first begin to the last: after it nobody was left who could have used a free slot.
    None when that is no time at all.
    """
    if not intervals:
        return None
    first, last = min(begin for begin, _ in intervals), max(begin for begin, _ in intervals)
    if last <= first:
        return None
    steps = [(first, 0), *((min(at, last), step) for at, step in _steps(intervals)), (last, 0)]
    used = inside = 0.0
    for (at, step), (until, _) in pairwise(steps):
        inside += step
        used += min(inside, slots) * (until - at)
    return used / (slots * (last - first))


def handoffs(freed: Iterable[float], taken: Iterable[float], waits: Sequence[Interval], slots: int) -> list[float]:
    """How long each slot that was freed while somebody waited stayed unused.

    Args:
        freed: when a slot became free.
        taken: when a slot was in use again; slots are taken in the order in which they became free.
        waits: from when to when somebody waited for a slot.
        slots: how many slots there are, all free at the beginning.
    """
    begins, ends = sorted(begin for begin, _ in waits), sorted(end for _, end in waits)
    free: deque[float | None] = deque([None] * slots)
    gaps: list[float] = []
    for at, is_free in sorted([*((at, 0) for at in freed), *((at, 1) for at in taken)]):
        if not is_free:
            somebody_waits = bisect_right(begins, at) > bisect_right(ends, at)
            free.append(at if somebody_waits else None)
        elif free and (since := free.popleft()) is not None:
            gaps.append(at - since)
    return gaps


def busiest_minute(arrivals: Iterable[float]) -> int:
    """The most arrivals within any 60 seconds."""
    times = sorted(arrivals)
    return max((number + 1 - bisect_left(times, _after(at)) for number, at in enumerate(times)), default=0)


def _after(at: float) -> float:
    return math.nextafter(at - MINUTE_S, math.inf)  # an arrival exactly a minute ago is outside


def _steps(intervals: Iterable[Interval]) -> list[tuple[float, int]]:
    # (time, -1) sorts before (time, +1): at one instant, ends come first.
    return sorted(event for begin, end in intervals for event in ((begin, 1), (end, -1)))
