"""The state of what is shown: live, quiet, stale, or why there is nothing; and the sums over all buckets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_sched_tui.view_model import text

if TYPE_CHECKING:
    from llm_sched_tui.view_model.cells import Role
    from llm_sched_tui.view_model.values import Reading

STALE_AFTER_S = 30.0
"""Nobody has written for this long although slots are held or waited for: a call takes that long seldom."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known beside the reading.

    `path` and `clock` (the time of day) are as they are shown; `progress`: where in a recording this is, empty for a
    ledger; `was_live`: whether there has been a readable ledger before.
    """

    path: str
    clock: str
    progress: str
    was_live: bool


@dataclass(frozen=True, slots=True)
class Status:
    """What the head of every screen tells. `advice` is empty unless there is nothing else to show."""

    facts: Facts
    word: str
    sign: str
    role: Role
    age: str
    runs: int
    in_flight: int
    waiting: int
    advice: tuple[str, ...] = ()


def status_of(reading: Reading, now: float, facts: Facts) -> Status:
    """Judge a reading, at `now` seconds on its source's clock."""
    snapshot = reading.snapshot
    runs = sum(owner.alive for owner in snapshot.owners)
    in_flight = sum(bucket.in_flight for bucket in snapshot.buckets)
    waiting = sum(bucket.waiting for bucket in snapshot.buckets)
    age_s = None if snapshot.age_s is None else snapshot.age_s + max(0.0, now - reading.taken)
    word, sign, role, advice = _judge(reading, age_s, runs, in_flight + waiting, was_live=facts.was_live)
    age = "" if age_s is None else text.seconds(age_s)
    return Status(facts, word, sign, role, age, runs, in_flight, waiting, advice)


_Judgement = tuple[str, str, "Role", tuple[str, ...]]


def _judge(reading: Reading, age_s: float | None, runs: int, busy: int, *, was_live: bool) -> _Judgement:
    if reading.refused:
        return "unreadable", "✗", "starving", ("The ledger may not be read.", reading.refused)
    state = reading.snapshot.state
    if state == "live":
        if busy and (not runs or (age_s or 0.0) > STALE_AFTER_S):
            return "stale", "◌", "saturated", ()
        return ("live", "●", "busy", ()) if busy else ("quiet", "○", "idle", ())
    if state == "absent" and was_live:
        return "removed", "✗", "starving", _REMOVED
    word, sign, role, advice = _FAULTS[state]
    return word, sign, role, advice


_REMOVED = (
    "The ledger was removed.",
    "The next call makes it again from what living processes hold; this screen will follow.",
)
_FAULTS: dict[str, _Judgement] = {
    "absent": (
        "no file yet",
        "○",
        "idle",
        (
            "No ledger here yet: nobody has asked for a slot.",
            "It appears with the first call; this screen will follow. To see one: llm-sched demo",
        ),
    ),
    "corrupt": (
        "unreadable",
        "✗",
        "starving",
        (
            "The ledger is damaged.",
            "The next call sets it aside and makes it again from what living processes hold; this screen will follow.",
        ),
    ),
    "newer": (
        "newer schema",
        "✗",
        "saturated",
        ("This ledger was written by a newer llm-sched.", "Upgrade this installation to watch it. Nothing was touched."),
    ),
    "foreign": (
        "foreign file",
        "✗",
        "saturated",
        (
            "This file is JSON, but no ledger of llm-sched.",
            "Give another path, or set MAS_LLM_SCHEDULER_STATE. Nothing was touched.",
        ),
    ),
}
