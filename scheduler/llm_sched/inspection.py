"""What a participant reads off a state without changing it: how full a bucket is, and whether a call of ours is stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_sched.calls import Call, Occupancy
from llm_sched.rules import admission, liveness, queueing

if TYPE_CHECKING:
    from llm_sched.model import State, Terms
    from llm_sched.roll import Roll


def occupancy(state: State, call: Call, own: Terms) -> Occupancy:
    """How full the bucket of a waiting call is, for messages; `own` are the terms under which it was made."""
    bucket = state.buckets[call.bucket]
    terms = admission.effective(bucket)
    index = queueing.find(bucket.queue, call.owner, call.number)
    oldest = ""
    if bucket.leases:
        lease = bucket.leases[0]  # they stand in the order of their grants
        owner = state.owners.get(lease.owner)
        if owner:
            oldest = f"pid {owner.pid}, user {owner.user}, for {state.clock - lease.since:.1f} s"
    return Occupancy(
        index if index >= 0 else len(bucket.queue) + sum(member.backlog for member in bucket.members.values()) - 1,
        len(bucket.leases),
        terms.max_in_flight,
        admission.waits_for(bucket, own, state.clock),
        oldest,
        tuple(lease.traceparent for lease in bucket.leases if lease.traceparent),
    )


def is_stuck(state: State, roll: Roll, now: float) -> bool:
    """Whether a call of ours is not where it should be, or could go on and does not."""
    listed: set[int] = set()
    for name in roll.waiting_buckets():
        bucket = state.buckets.get(name)
        if bucket is None:
            return True
        idle = bucket.queue and admission.decide(bucket, admission.effective(bucket), now).admit
        own = {ticket.number for ticket in bucket.queue if roll.owns(ticket)}
        stray = any(roll.owns(lease) and not roll.knows(lease.number) for lease in bucket.leases)
        if idle or stray or not own or roll.runs_low(name) or liveness.overdue(bucket, now):
            return True
        listed |= own
    return any(call.number not in listed for call in roll.published())
