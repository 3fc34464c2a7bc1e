"""How badly off a bucket is, told by a word and a sign as well as by a colour.

The law: a bucket *starves* when somebody is about to be, or has just been, sent away: see `severity_of`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_sched.snapshot import BucketView
    from llm_sched_tui.view_model.cells import Role

STARVING_AFTER_S = 30.0
"""A wait that a person would call too long: a tenth of the default `timeout_s`."""

STARVING_BEFORE_S = 5.0
"""A deadline this near is as good as missed."""


class Severity(IntEnum):
    """From nothing to do to somebody suffers."""

    IDLE = 0
    BUSY = 1
    SATURATED = 2
    STARVING = 3

    @property
    def role(self) -> Role:
        """Its colour's name, which is also its word."""
        return _ROLES[self]

    @property
    def sign(self) -> str:
        """Its shape, for those who see no colour."""
        return _SIGNS[self]


_ROLES: dict[Severity, Role] = {
    Severity.IDLE: "idle",
    Severity.BUSY: "busy",
    Severity.SATURATED: "saturated",
    Severity.STARVING: "starving",
}
_SIGNS = {Severity.IDLE: "○", Severity.BUSY: "●", Severity.SATURATED: "▲", Severity.STARVING: "■"}


def severity_of(bucket: BucketView, elapsed_s: float, recent_timeouts: int) -> Severity:
    """Judge one bucket.

    Args:
        bucket: as it was read.
        elapsed_s: seconds since then.
        recent_timeouts: calls that gave up in the last minute.

    Returns:
        idle: no slot is held and nobody waits; busy: slots are held, nobody waits; saturated: somebody waits;
        starving: somebody has waited 30 s, has 5 s left (of a longer wait), or others gave up within the last minute.
    """
    if not bucket.waiting:
        return Severity.BUSY if bucket.in_flight else Severity.IDLE
    late = any(
        waiter.deadline_s is not None
        and waiter.deadline_s - elapsed_s < STARVING_BEFORE_S <= waiter.oldest_wait_s + waiter.deadline_s
        for waiter in bucket.waiters
    )
    if late or recent_timeouts or bucket.oldest_wait_s + elapsed_s >= STARVING_AFTER_S:
        return Severity.STARVING
    return Severity.SATURATED
