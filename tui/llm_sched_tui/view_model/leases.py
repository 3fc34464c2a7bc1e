"""Which lease of one snapshot is which of the next.

A snapshot names holders by pid and how long they have held, and no more. Two leases of one process whose beginnings
differ by less than `SAME_S` are taken for one: reading takes a moment, and the moment is not in the snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llm_sched.snapshot import BucketView, Holder

SAME_S = 0.1


@dataclass(frozen=True, slots=True)
class Lease:
    """A slot that is held: a number of its own, and since when, in seconds of the monitor's clock."""

    number: int
    since: float
    holder: Holder


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one bucket's leases between two snapshots."""

    held: tuple[Lease, ...] = ()
    came: tuple[Lease, ...] = ()
    went: tuple[Lease, ...] = ()


class Leases:
    """Follows the leases of all buckets."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[Lease, ...]] = {}
        self._next = 1

    def held(self, bucket: str) -> tuple[Lease, ...]:
        """The leases of a bucket, longest held first."""
        return self._buckets.get(bucket, ())

    def copy(self) -> Leases:
        """The same leases, no longer followed."""
        other = Leases()
        other._buckets, other._next = dict(self._buckets), self._next
        return other

    def follow(self, at: float, buckets: Iterable[BucketView]) -> dict[str, Change]:
        """Take the next snapshot, read at `at` seconds; return what changed, by bucket."""
        before, self._buckets = self._buckets, {}
        changes: dict[str, Change] = {}
        for bucket in buckets:
            changes[bucket.name] = change = self._change(at, before.pop(bucket.name, ()), bucket.holders)
            self._buckets[bucket.name] = change.held
        for name, gone in before.items():
            changes[name] = Change(went=gone)
        return changes

    def _change(self, at: float, before: tuple[Lease, ...], holders: list[Holder]) -> Change:
        known: dict[int, list[Lease]] = {}
        for lease in reversed(before):
            known.setdefault(lease.holder.pid, []).append(lease)  # the longest held is the last: the first to be popped
        held: list[Lease] = []
        came: list[Lease] = []
        for holder in holders:
            since = at - holder.held_s
            mine = known.get(holder.pid, [])
            while mine and mine[-1].since < since - SAME_S:
                mine.pop()
            if mine and mine[-1].since <= since + SAME_S:
                old = mine.pop()
                held.append(Lease(old.number, old.since, holder))
            else:
                held.append(Lease(self._next, since, holder))
                came.append(held[-1])
                self._next += 1
        still = {lease.number for lease in held}
        return Change(tuple(held), tuple(came), tuple(lease for lease in before if lease.number not in still))
