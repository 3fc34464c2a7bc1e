"""What outlives its time: owners of another boot, leases held too long, buckets nobody uses.

The law: only these are taken away without their owner's word, besides owners that the caller has seen to be gone.
May not look for itself whether anybody lives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_sched.model import Bucket, Lease, State

IDLE_BUCKET_S = 3600.0
"""A bucket without leases and tickets is dropped, with its totals, after this long, once its tokens are full again."""


def overdue(bucket: Bucket, now: float) -> list[Lease]:
    """Leases held longer than their owner's own `max_hold_s` (0 = for ever)."""
    if not any(terms.max_hold_s for terms in bucket.terms):
        return []
    return [lease for lease in bucket.leases if 0 < _max_hold(bucket, lease) < now - lease.since]


def _max_hold(bucket: Bucket, lease: Lease) -> float:
    member = bucket.members.get(lease.owner)
    return bucket.terms[member.terms].max_hold_s if member else 0.0


def idle(state: State, now: float) -> list[str]:
    """Names of the buckets that nobody has used for an hour."""
    return [
        name
        for name, bucket in state.buckets.items()
        if not bucket.leases and not bucket.queue and now - bucket.active > IDLE_BUCKET_S and now >= bucket.tat
    ]
