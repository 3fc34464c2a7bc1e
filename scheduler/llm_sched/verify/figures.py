"""Numbers from calls: how many held at once, what was proven about order and rate, what waits and kills cost."""

# Law: pure, and on the safe side: where the times leave open what happened, nobody is accused.

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_sched.demo import figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llm_sched.verify.account import Call

ORDER_TOLERANCE_S = 0.003
"""Who came less than this before another may be overtaken by him."""

RATE_TOLERANCE_S = 0.01
"""By how much a window may be longer than it looks: a token that is used 5 ms late still counts as used in time."""

_RELEASE, _GRANT = 0, 1


@dataclass(frozen=True, slots=True)
class Span:
    """How many grants fell into a window of that many seconds at most, and how many were allowed."""

    seconds: float
    grants: int
    allowed: float


@dataclass(frozen=True, slots=True)
class Order:
    """Grants, how many of them overtook an older waiter, and how many one of their own process."""

    grants: int
    overtaking: int
    within_process: int

    @property
    def share(self) -> float:
        """Of the grants, those that overtook."""
        return self.overtaking / self.grants if self.grants else 0.0


def peak(calls: Iterable[Call]) -> int:
    """How many surely held at the same instant, at most."""
    return figures.peak(_holds(calls))


def _holds(calls: Iterable[Call]) -> list[tuple[float, float]]:
    return [
        (call.granted, call.held_until)
        for call in calls
        if call.granted is not None and call.held_until is not None and call.held_until > call.granted
    ]


# -- order ---------------------------------------------------------------------------------------------------------------


def order(calls: Sequence[Call], cap: int) -> Order:
    """Count proven overtakings in one bucket.

    A grant overtook if somebody else was in the queue before the overtaker even asked, and still was when the overtaker
    held. It is known that somebody had no slot yet as long as `cap` others held, and if he timed out in the end.
    """
    waits = _sure_waits(calls, cap)
    granted = [call for call in calls if call.granted is not None]
    own: defaultdict[str, list[_Wait]] = defaultdict(list)
    for wait in waits:
        own[wait.process].append(wait)
    grants = {process: [call for call in granted if call.process == process] for process in own}
    within = sum(_overtaking(grants[process], own[process]) for process in own)
    return Order(len(granted), _overtaking(granted, waits), within)


@dataclass(frozen=True, slots=True)
class _Wait:
    process: str
    since: float
    until: float


def _sure_waits(calls: Sequence[Call], cap: int) -> list[_Wait]:
    ends = sorted(_full_ends(calls, cap))
    waits: list[_Wait] = []
    for call in calls:
        until = call.waited_until
        if call.end != "timed_out":
            # The ledger may have granted it before it noticed, or before it was cancelled, interrupted or killed.
            until = _last_before(ends, until if call.granted is None else call.granted)
        if call.queued is not None and until is not None and until > call.queued:
            waits.append(_Wait(call.process, call.queued, until))
    return waits


def _last_before(times: Sequence[float], limit: float | None) -> float | None:
    before = 0 if limit is None else bisect_right(times, limit)
    return times[before - 1] if before else None


def _full_ends(calls: Iterable[Call], cap: int) -> list[float]:
    """The instants at which a full bucket ceased to be full."""
    ends: list[float] = []
    inside = 0
    for at, step in sorted(step for begin, end in _holds(calls) for step in ((begin, 1), (end, -1))):
        if step < 0 and inside == cap:
            ends.append(at)
        inside += step
    return ends


def _overtaking(granted: Iterable[Call], waits: Iterable[_Wait]) -> int:
    """How many of the grants overtook one of the waits."""
    left = sorted(waits, key=lambda wait: wait.until)
    oldest, found = math.inf, 0
    for call in sorted(granted, key=lambda call: call.granted or 0.0, reverse=True):
        while left and left[-1].until >= (call.granted or 0.0):
            oldest = min(oldest, left.pop().since)
        found += oldest + ORDER_TOLERANCE_S < call.asked
    return found


# -- rate ----------------------------------------------------------------------------------------------------------------


def spans(calls: Iterable[Call], seconds: Sequence[float], requests_per_minute: float, burst: float) -> list[Span]:
    """The worst window of each length, against what the rate allows within it."""
    waits = _grant_times(calls)
    rate = requests_per_minute / 60.0
    return [Span(length, _most_within(waits, length), burst + rate * (length + RATE_TOLERANCE_S)) for length in seconds]


def excess(calls: Iterable[Call], requests_per_minute: float, burst: float) -> float:
    """By how many grants the worst of all windows exceeded what the rate allows; not above 0 when it holds.

    A call was granted at some time between asking and holding. It counts as granted in a window when both are in it.
    """
    waits = _grant_times(calls)
    rate = requests_per_minute / 60.0
    worst = -math.inf
    for begin, _ in waits:
        inside = sorted(held for asked, held in waits if asked >= begin)
        for count, end in enumerate(inside, 1):
            worst = max(worst, count - burst - rate * (end - begin + RATE_TOLERANCE_S))
    return worst


def _grant_times(calls: Iterable[Call]) -> list[tuple[float, float]]:
    return sorted((call.asked, call.granted) for call in calls if call.granted is not None)


def _most_within(waits: Sequence[tuple[float, float]], length: float) -> int:
    most = 0
    for begin, _ in waits:
        most = max(most, sum(asked >= begin and held <= begin + length for asked, held in waits))
    return most


# -- waits and kills -----------------------------------------------------------------------------------------------------


def waits(calls: Iterable[Call]) -> list[float]:
    """Seconds from asking to holding, of all that got a slot."""
    return [call.granted - call.asked for call in calls if call.granted is not None]


def lateness(calls: Iterable[Call]) -> list[float]:
    """By how many seconds each wait went beyond its timeout; negative: it ended before."""
    ends = [(call, call.gave_up if call.granted is None else call.granted) for call in calls]
    return [end - call.asked - call.timeout_s for call, end in ends if end is not None]


def hand_offs(calls: Sequence[Call], cap: int) -> list[float]:
    """Seconds for which a slot that somebody waited for stayed unused, for each hand-off."""
    holds = _holds(calls)
    waiting = [(call.asked, end) for call in calls if (end := _wait_end(call)) is not None]
    return figures.handoffs([end for _, end in holds], [begin for begin, _ in holds], waiting, cap)


def _wait_end(call: Call) -> float | None:
    return call.waited_until if call.granted is None else call.granted


def recoveries(calls: Iterable[Call], cap: int, *, unless_below_s: float) -> list[float]:
    """Seconds from the kill of a holder until `cap` slots were in use again, so his slot was too.

    Where nobody waits any more before that, nothing is known, and the kill is left out; unless that took longer
    than `unless_below_s`: whoever waited so long could have had the slot.
    """
    steps: list[tuple[float, int, int, int]] = []  # when, kind, change of the holding, change of the waiting
    killed: list[float] = []
    for call in calls:
        steps.append((call.asked, _GRANT, 0, 1))
        steps.append((end, _RELEASE, 0, -1) if (end := _wait_end(call)) is not None else (call.asked, _GRANT, 0, -1))
        if call.granted is not None and call.held_until is not None and call.held_until > call.granted:
            steps += [(call.granted, _GRANT, 1, 0), (call.held_until, _RELEASE, -1, 0)]
            if call.end == "killed":
                killed.append(call.held_until)
    return _refilled(sorted(steps), sorted(killed), cap, unless_below_s)


def _refilled(
    steps: Sequence[tuple[float, int, int, int]], killed: Sequence[float], cap: int, unless_below_s: float
) -> list[float]:
    found: list[float] = []
    holding = waiting = done = 0
    for number, (at, _, holds, waits) in enumerate(steps):
        holding, waiting = holding + holds, waiting + waits
        if number + 1 < len(steps) and steps[number + 1][0] == at:
            continue
        seen = bisect_right(killed, at)
        if holding >= cap:
            found += [at - kill for kill in killed[done:seen]]
        elif waiting <= 0:
            found += [at - kill for kill in killed[done:seen] if at - kill > unless_below_s]
        else:
            continue
        done = seen
    return found
