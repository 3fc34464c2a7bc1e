"""What happened between two snapshots.

The law: only what the two snapshots prove. Calls that came and went in between are told by the counters, as a number
without a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from llm_sched_tui.view_model import text
from llm_sched_tui.view_model.cells import Cell, Role, Words
from llm_sched_tui.view_model.tables import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from llm_sched.snapshot import BucketView, OwnerView, Snapshot
    from llm_sched_tui.view_model.leases import Change, Lease

EventKind: TypeAlias = Literal[
    "granted", "released", "reclaimed", "timed out", "canceled", "policy", "disagree", "joined", "left", "ledger"
]

_ROLES: dict[EventKind, Role] = {
    "granted": "busy",
    "released": "dim",
    "reclaimed": "saturated",
    "timed out": "starving",
    "canceled": "dim",
    "policy": "accent",
    "disagree": "saturated",
    "joined": "accent",
    "left": "dim",
    "ledger": "accent",
}
_SIGNS: dict[EventKind, str] = {
    "granted": "+",
    "released": "-",
    "reclaimed": "↺",
    "timed out": "✗",
    "canceled": "×",
    "policy": "~",
    "disagree": "▲",
    "joined": "»",
    "left": "«",
    "ledger": "▤",
}


@dataclass(frozen=True, slots=True)
class Event:
    """One fact: `count` of the same kind, bucket and process; pid 0 = nobody can tell whose they were."""

    kind: EventKind
    bucket: str = ""
    pid: int = 0
    user: str = ""
    count: int = 1
    detail: str = ""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event in the log, by its number; `time` is the time of day."""

    number: int
    time: str
    event: Event

    @property
    def key(self) -> str:
        """See `Record`."""
        return f"{self.number:012}"

    @property
    def bucket(self) -> str:
        """See `Record`."""
        return self.event.bucket

    @property
    def words(self) -> str:
        """See `Record`."""
        event = self.event
        who = f"{event.pid} {event.user}" if event.pid else ""
        parts = (self.time, event.kind, f"x{event.count}", event.bucket, who, event.detail)
        return " ".join(part for part in parts if part)


def differences(before: Snapshot, now: Snapshot, changes: dict[str, Change]) -> list[Event]:
    """What happened between two live snapshots; `changes` tells which leases came and went."""
    events = list(_owners(before.owners, now.owners))
    earlier = {bucket.name: bucket for bucket in before.buckets}
    living = {owner.pid for owner in now.owners if owner.alive}
    for bucket in now.buckets:
        old = earlier.get(bucket.name)
        if old is not None and bucket.totals.granted < old.totals.granted:
            events.append(Event("ledger", bucket.name, detail="the counters began anew"))
            old = None
        events += _policies(old, bucket)
        events += _calls(old, bucket, changes[bucket.name], living)
    return events


def _owners(before: Iterable[OwnerView], now: Iterable[OwnerView]) -> Iterator[Event]:
    earlier = {(owner.pid, owner.user, owner.command): owner for owner in before}
    later = {(owner.pid, owner.user, owner.command): owner for owner in now}
    for key, owner in later.items():
        if key not in earlier:
            yield Event("joined", "", owner.pid, owner.user, 1, owner.command)
        elif earlier[key].alive and not owner.alive:
            yield Event("left", "", owner.pid, owner.user, 1, f"died: {owner.command}")
    for key, owner in earlier.items():
        if key not in later:
            yield Event("left", "", owner.pid, owner.user, 1, owner.command)


def _policies(before: BucketView | None, now: BucketView) -> Iterator[Event]:
    if before is None:
        if now.policies:
            yield Event("policy", now.name, detail=_terms(now))
        return
    if before.policies and now.policies and _terms(before) != _terms(now):
        yield Event("policy", now.name, detail=f"{_terms(before)} -> {_terms(now)}")
    wishes, earlier = _wishes(now), _wishes(before)
    if len(wishes) > 1 and len(earlier) == 1:
        yield Event("disagree", now.name, detail=f"{len(wishes)} policies; the strictest holds: {_terms(now)}")


def _terms(bucket: BucketView) -> str:
    rate = f", {bucket.requests_per_minute:g}/min" if bucket.requests_per_minute else ""
    return f"{bucket.max_in_flight or 'no'} cap{rate}" if not bucket.max_in_flight else f"cap {bucket.max_in_flight}{rate}"


def _wishes(bucket: BucketView) -> set[tuple[int, float, float]]:
    return {(policy.max_in_flight, policy.requests_per_minute, policy.burst) for policy in bucket.policies}


def _calls(before: BucketView | None, now: BucketView, change: Change, living: set[int]) -> Iterator[Event]:
    # A bucket that is new: its counters before the first look are no news.
    granted = now.totals.granted - before.totals.granted if before else len(change.came)
    reclaimed = now.totals.reclaimed - before.totals.reclaimed if before else 0
    released = (before.in_flight if before else 0) + granted - now.in_flight - reclaimed
    dead = [lease for lease in change.went if lease.holder.pid not in living][:reclaimed]
    given = [lease for lease in change.went if lease not in dead]
    yield from _leases("released", now.name, given, released)
    yield from _leases("reclaimed", now.name, dead, reclaimed)
    yield from _leases("granted", now.name, change.came, granted)
    if before:
        for kind, count in (
            ("timed out", now.totals.timed_out - before.totals.timed_out),
            ("canceled", now.totals.canceled - before.totals.canceled),
        ):
            if count > 0:
                yield Event(kind, now.name, count=count)  # type: ignore[arg-type] # one of the two above


def _leases(kind: EventKind, bucket: str, leases: Iterable[Lease], total: int) -> Iterator[Event]:
    by_pid: dict[int, list[Lease]] = {}
    for lease in leases:
        by_pid.setdefault(lease.holder.pid, []).append(lease)
    for pid, same in by_pid.items():
        total -= len(same)
        yield Event(kind, bucket, pid, same[0].holder.user, len(same), _times(kind, same))
    if total > 0:
        yield Event(kind, bucket, count=total, detail="between two looks")


def _times(kind: EventKind, leases: list[Lease]) -> str:
    """How long they waited; of those that went, how long they had been held when they were last seen."""
    many = len(leases) > 1
    if kind == "granted":
        return f"waited {'up to ' if many else ''}{text.seconds(max(lease.holder.waited_s for lease in leases))}"
    held = text.seconds(max(lease.holder.held_s for lease in leases))
    return f"the longest was held {held} or more" if many else f"held {held} or more"


def columns(records: tuple[EventRecord, ...]) -> tuple[Column[EventRecord], ...]:
    """The columns, wide enough for these events."""
    user = max((len(record.event.user) for record in records), default=0)
    bucket = max((len(record.event.bucket) for record in records), default=0)
    return (
        Column("time", "time", lambda row: Words(row.time, "dim"), 8, rank=3),
        Column("kind", "event", _kind, 11),
        Column("count", "calls", _count, 5, rank=2, right=True),
        Column("bucket", "bucket", lambda row: Words(text.printable(row.event.bucket)), 12, max(12, min(48, bucket)), 1),
        Column("pid", "pid", _pid, 7, rank=5, right=True),
        Column("user", "user", lambda row: Words(text.printable(row.event.user), "strong"), 6, max(6, min(40, user)), 4),
        Column("detail", "", lambda row: Words(text.printable(row.event.detail), "dim"), 16, 80, 6),
    )


def _kind(row: EventRecord) -> Cell:
    kind = row.event.kind
    return Words(f"{_SIGNS[kind]} {kind}", _ROLES[kind])


def _count(row: EventRecord) -> Cell:
    return Words(f"{row.event.count}" if row.event.kind in _CALLS else "", "plain", right=True)


_CALLS = {"granted", "released", "reclaimed", "timed out", "canceled"}


def _pid(row: EventRecord) -> Cell:
    return Words(f"{row.event.pid}" if row.event.pid else "", "dim", right=True)
