# What the figures mean. Pure: it knows time stamps only, and neither peers nor processes nor clocks.
"""Hand-off times, use of the slots, order and fairness, computed from the merged time stamps of all threads."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.benchmarks.calls import NOT_YET

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.benchmarks.calls import Call

ORDER_TOLERANCE_NS = 1_000_000
"""Calls that started within one millisecond of each other have no order worth keeping."""

WAKE_UP_NS = 5_000_000
"""Python's switch interval: so long a busy process can keep a granted thread from noticing."""


@dataclass(frozen=True, slots=True)
class Window:
    """The steady part of a loop, in monotonic nanoseconds."""

    start: int
    end: int

    def has(self, instant: int) -> bool:
        """Whether `instant` lies inside."""
        return self.start <= instant <= self.end


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest-rank percentile; not a number when there are no values."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


@dataclass(frozen=True, slots=True)
class HandOffs:
    """The `gaps` of all hand-offs in nanoseconds, and which share of the slots was `snatched` by newcomers."""

    gaps: list[int]
    snatched: float


def hand_offs(calls: Iterable[Call], cap: int, window: Window) -> HandOffs:
    """Follow the slots that were released inside `window` to their next holders.

    Slots are interchangeable, so each grant is taken to use the slot that has been free for longest: the k-th
    grant follows the k-th release (the first `cap` grants use slots that were free from the start). Any other
    pairing has the same sum of gaps and a wider spread. A gap runs from the start of the release call to the
    return of the acquire call, and counts as a hand-off if that acquire was already waiting when the release
    began. What a newcomer got instead was not handed over; a peer where that happens a lot shows the gaps of its few
    lucky waiters, so the share belongs beside them.
    """
    ordered = list(calls)
    changes = [(call.releasing, 0, call.releasing) for call in ordered if call.releasing != NOT_YET]
    changes += [(call.granted, 1, call.started) for call in ordered if call.granted != NOT_YET]
    freed: deque[int] = deque([NOT_YET] * cap)
    gaps, snatched = [], 0
    for instant, is_grant, since in sorted(changes):
        if not is_grant:
            freed.append(instant)
        elif freed and window.has(released := freed.popleft()):
            if since <= released:
                gaps.append(instant - released)
            else:
                snatched += 1
    taken = len(gaps) + snatched
    return HandOffs(gaps, snatched / taken if taken else math.nan)


def in_use(calls: Iterable[Call], cap: int, window: Window) -> float:
    """Return the share (0 to 1) of slots x time in `window` during which somebody held."""
    held = sum(
        max(0, min(call.held_until(window.end), window.end) - max(call.granted, window.start))
        for call in calls
        if call.granted != NOT_YET
    )
    return held / (cap * (window.end - window.start))


def overtaken(calls: Sequence[Call], window: Window) -> float:
    """Return the share of grants in `window` that overtook somebody.

    A grant overtakes if a call that had started more than a millisecond before it was granted later, or not at
    all. Seen from outside: a grantee that the machine woke up late counts as overtaken too.
    """
    bad, grants = _overtaken(calls, window, 0)
    return bad / grants if grants else math.nan


def overtaken_within_workers(calls: Iterable[Call], window: Window) -> float:
    """Return the same share where only calls of the same process count, and only if granted over 5 ms later."""
    by_worker: dict[int, list[Call]] = {}
    for call in calls:
        by_worker.setdefault(call.worker, []).append(call)
    counts = [_overtaken(mine, window, WAKE_UP_NS) for mine in by_worker.values()]
    grants = sum(granted for _, granted in counts)
    return sum(bad for bad, _ in counts) / grants if grants else math.nan


def _overtaken(calls: Sequence[Call], window: Window, late_ns: int) -> tuple[int, int]:
    """Count the grants in `window` that overtook a call granted over `late_ns` later, and all grants in it."""
    waiting = [call for call in calls if call.granted == NOT_YET]
    late_first = sorted((call for call in calls if call.granted != NOT_YET), key=lambda call: call.granted, reverse=True)
    earliest_start = min((call.started for call in waiting), default=math.inf)
    grants = bad = victims = 0
    for call in late_first:
        while late_first[victims].granted > call.granted + late_ns:
            earliest_start = min(earliest_start, late_first[victims].started)
            victims += 1
        if window.has(call.granted):
            grants += 1
            bad += call.started - ORDER_TOLERANCE_NS > earliest_start
    return bad, grants


def grants_by_thread(calls: Iterable[Call], window: Window) -> list[int]:
    """Return how many grants each thread that called at all got in `window`."""
    grants: Counter[tuple[int, int]] = Counter()
    for call in calls:
        grants[call.worker, call.thread] += window.has(call.granted)
    return list(grants.values())


def longest_gap(calls: Iterable[Call], begin: int, end: int) -> int:
    """Return the longest time without any grant between `begin` and `end`, in nanoseconds: a stall shows here."""
    instants = sorted([begin, *(call.granted for call in calls if begin < call.granted < end), end])
    return max(later - earlier for earlier, later in pairwise(instants))


def jain(shares: Sequence[int]) -> float:
    """Return Jain's index of fairness: 1 when all are equal, 1/n when one has everything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else math.nan


def peak(holds: Iterable[tuple[int, int]]) -> int:
    """Return how many of the `holds` (start, end) overlapped at most; one that ends when another starts does not."""
    changes = [change for start, end in holds for change in ((start, 1), (end, -1))]
    held = highest = 0
    for _, change in sorted(changes):
        held += change
        highest = max(highest, held)
    return highest
