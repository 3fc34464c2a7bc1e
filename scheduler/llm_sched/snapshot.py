"""The public read model: one moment of a ledger, for `status`, monitors and scripts. Takes no lock, changes nothing.

A snapshot is computed from the file alone, plus a look whether each owner lives. May not be used to decide anything.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
from typing import Any, Literal, TypeAlias

import msgspec

from llm_sched import codec, host
from llm_sched.config import OVERDUE_S, resolved_state_path
from llm_sched.errors import LedgerError
from llm_sched.mailroom import FileMailroom
from llm_sched.model import FOREVER_S, SCHEMA, WAIT_BOUNDARIES, Bucket, LimitKind, Owner, State, Terms
from llm_sched.rules import admission, token_bucket
from llm_sched.store.file import folder_of, read_ledger
from llm_sched.store.location import local_path

SnapshotState: TypeAlias = Literal["live", "absent", "corrupt", "newer", "foreign"]


EXPLAINED: dict[SnapshotState, str] = {
    "absent": "no ledger yet: nobody has asked for a slot",
    "corrupt": "unreadable; the next call sets it aside and makes it again from what the living hold",
    "newer": "a ledger that a newer llm-sched has written, which this one does not touch",
    "foreign": "JSON, but no ledger of llm-sched, which does not touch it",
}
"""What a state other than `live` means, for people."""


class Holder(msgspec.Struct, frozen=True):
    """Who holds a slot. `overdue`: longer than `max_hold_s`, or than 600 s where that is 0."""

    pid: int
    user: str
    command: str
    held_s: float
    waited_s: float
    overdue: bool


class Waiters(msgspec.Struct, frozen=True):
    """One process's calls that wait in a bucket: `count` of them, the oldest at `position` (1 = next).

    `deadline_s`: seconds until the oldest gives up; null = never.
    """

    pid: int
    user: str
    command: str
    count: int
    oldest_wait_s: float
    position: int
    waiting_for: LimitKind
    deadline_s: float | None


class BucketTotals(msgspec.Struct, frozen=True):
    """Counters since the bucket's first call. `wait_histogram`: cumulative counts by upper bound in seconds."""

    granted: int
    timed_out: int
    canceled: int
    reclaimed: int
    wait_s: float
    wait_histogram: list[tuple[float | None, int]]


class PolicyView(msgspec.Struct, frozen=True):
    """What one owner's policy says for a bucket, and where its values came from. `timeout_s`: null = for ever."""

    pid: int
    max_in_flight: int
    requests_per_minute: float
    burst: float
    timeout_s: float | None
    source: str


class BucketView(msgspec.Struct, frozen=True):
    """One bucket and the limits in force; `rate_available` (tokens) and `rate_next_s` (seconds) are null without a rate."""

    name: str
    max_in_flight: int
    requests_per_minute: float
    burst: float
    rate_available: float | None
    rate_next_s: float | None
    in_flight: int
    waiting: int
    oldest_wait_s: float
    holders: list[Holder]
    waiters: list[Waiters]
    totals: BucketTotals
    policies: list[PolicyView]


class OwnerView(msgspec.Struct, frozen=True):
    """One process that takes part in the ledger; `granted` sums its grants over all buckets."""

    pid: int
    user: str
    command: str
    alive: bool
    in_flight: int
    waiting: int
    granted: int


class Snapshot(msgspec.Struct, frozen=True):
    """One moment of a ledger; `to_dict()` is the JSON of `llm-sched status --json`.

    `age_s`: seconds since the last write. `state`: `live` (also when nobody lives in it), `absent`, or why it cannot be read.
    """

    path: str
    schema: int
    seq: int
    updated_at: str | None
    age_s: float | None
    state: SnapshotState
    buckets: list[BucketView] = []
    owners: list[OwnerView] = []

    def to_dict(self) -> dict[str, Any]:
        """The snapshot as plain dicts and lists, ready for `json.dumps`."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def read_snapshot(path: str | os.PathLike[str] | None = None) -> Snapshot:
    """Read one moment of a ledger.

    Args:
        path: the ledger; None = `MAS_LLM_SCHEDULER_STATE`, else the default path.

    Returns:
        A snapshot; what cannot be read is one of `state` absent, corrupt, newer or foreign, without buckets.

    Raises:
        LedgerError: the file may not be read (permissions, a folder).
    """
    where = local_path(resolved_state_path(path))
    try:
        state = read_ledger(where)
    except LedgerError as error:
        return Snapshot(str(where), SCHEMA, 0, None, None, _fault(error))
    if state.origin == "absent":
        return Snapshot(str(where), SCHEMA, 0, None, None, "absent")
    return view(state, str(where), FileMailroom(folder_of(where)), host.Clock())


def _fault(error: LedgerError) -> SnapshotState:
    cause = error.__cause__
    if not isinstance(cause, codec.UnreadableError):
        raise error
    faults: dict[codec.Fault, SnapshotState] = {"newer": "newer", "foreign": "foreign"}
    return faults.get(cause.fault, "corrupt")


def view(state: State, path: str, mailroom: FileMailroom, clock: host.Clock) -> Snapshot:
    """Turn a ledger's state into a snapshot.

    Args:
        state: as read.
        path: to show.
        mailroom: tells who lives; closed afterwards.
        clock: the ledger's clock.
    """
    boot = state.boot == host.boot_id()
    now = max(state.clock, clock.now()) if boot else state.clock
    alive = {owner: boot and mailroom.is_alive(owner, state.owners[owner]) for owner in state.owners}
    mailroom.drop()
    written = dt.datetime.fromtimestamp(state.updated_at, dt.UTC)
    return Snapshot(
        path=path,
        schema=SCHEMA,
        seq=state.seq,
        updated_at=written.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        age_s=round(max(0.0, clock.wall() - state.updated_at), 3),
        state="live",
        buckets=[_bucket(name, state.buckets[name], state, now) for name in sorted(state.buckets)],
        owners=[_owner(owner, state, living=alive[owner]) for owner in state.owners],
    )


def _owner(owner_id: str, state: State, *, living: bool) -> OwnerView:
    owner = state.owners[owner_id]
    members = [bucket.members[owner_id] for bucket in state.buckets.values() if owner_id in bucket.members]
    return OwnerView(
        owner.pid,
        owner.user,
        owner.command,
        living,
        sum(member.held for member in members),
        sum(member.waiting + member.backlog for member in members),
        sum(member.granted for member in members),
    )


def _bucket(name: str, bucket: Bucket, state: State, now: float) -> BucketView:
    terms = admission.effective(bucket)
    if not any(member.held or member.waiting for member in bucket.members.values()):
        terms = admission.strictest(bucket.terms)
    rated = bool(terms.requests_per_minute)
    tat = admission.tat_under(bucket, terms, now) if rated else 0.0
    waiters = _waiters(bucket, state, now)
    return BucketView(
        name=name,
        max_in_flight=terms.max_in_flight,
        requests_per_minute=terms.requests_per_minute,
        burst=terms.burst,
        rate_available=round(token_bucket.available(tat, terms, now), 3) if rated else None,
        rate_next_s=round(max(0.0, token_bucket.due(tat, terms) - now), 3) if rated else None,
        in_flight=len(bucket.leases),
        waiting=sum(each.count for each in waiters),
        oldest_wait_s=max((each.oldest_wait_s for each in waiters), default=0.0),
        holders=_holders(bucket, state, now),
        waiters=waiters,
        totals=_totals(bucket),
        policies=[
            _policy(_who(state, owner).pid, bucket.terms[member.terms])
            for owner, member in bucket.members.items()
            if member.held or member.waiting
        ],
    )


def _who(state: State, owner: str) -> Owner:
    return state.owners.get(owner) or Owner(int(owner.partition("-")[0] or 0), "?", "?")


def _holders(bucket: Bucket, state: State, now: float) -> list[Holder]:
    holders: list[Holder] = []
    for lease in bucket.leases:
        who, member = _who(state, lease.owner), bucket.members.get(lease.owner)
        limit = (bucket.terms[member.terms].max_hold_s if member else 0.0) or OVERDUE_S
        held = round(max(0.0, now - lease.since), 3)
        holders.append(Holder(who.pid, who.user, who.command, held, round(lease.waited, 3), held > limit))
    return sorted(holders, key=lambda holder: -holder.held_s)


def _waiters(bucket: Bucket, state: State, now: float) -> list[Waiters]:
    first: dict[str, int] = {}
    for index, ticket in enumerate(bucket.queue):
        first.setdefault(ticket.owner, index)
    waiters: list[Waiters] = []
    for owner, index in first.items():
        who, ticket, member = _who(state, owner), bucket.queue[index], bucket.members[owner]
        waiters.append(
            Waiters(
                who.pid,
                who.user,
                who.command,
                member.waiting + member.backlog,
                round(max(0.0, now - ticket.at), 3),
                index + 1,
                admission.waits_for(bucket, bucket.terms[member.terms], now),
                round(ticket.deadline - now, 3) if ticket.deadline else None,
            )
        )
    return waiters


def _totals(bucket: Bucket) -> BucketTotals:
    totals = bucket.totals
    counts = itertools.accumulate(totals.waits or [0] * (len(WAIT_BOUNDARIES) + 1))
    histogram = list(zip((*WAIT_BOUNDARIES, None), counts, strict=True))
    return BucketTotals(totals.granted, totals.timed_out, totals.canceled, totals.reclaimed, totals.wait_s, histogram)


def _policy(pid: int, terms: Terms) -> PolicyView:
    timeout_s = terms.timeout_s if terms.timeout_s < FOREVER_S else None
    return PolicyView(pid, terms.max_in_flight, terms.requests_per_minute, terms.burst, timeout_s, terms.source)
