"""Every change that a ledger can undergo.

The law: a slot changes hands inside one transaction. Whoever frees something calls `settle`, which grants to the head
of the queue until cap or token says no; so no newcomer can barge in and no slot idles while somebody waits.
Each function updates the state it is given and notes in `out` what follows from it. May not know time, files or bells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from llm_sched.model import WAIT_BOUNDARIES, Bucket, Due, Event, Grant, Lease, Member, Terms, Ticket, Transition
from llm_sched.rules import admission, liveness, queueing, token_bucket

if TYPE_CHECKING:
    from collections.abc import Collection

    from llm_sched.model import Claim, EventKind, State

_TELL_S = 0.0005
"""A waiter whose known due time is later than the true one by more than this is told; less is not worth a wake-up."""


def advance(state: State, now: float) -> float:
    """Move the ledger's clock to `now`, never back, and return its time: a clock that steps back mints no tokens."""
    state.clock = max(state.clock, round(now, 6))
    if state.origin == "rebuilt" and not state.since:
        state.since = state.clock
    return state.clock


def bucket_for(state: State, name: str, keys: dict[str, str], now: float) -> Bucket:
    """The bucket of that name; made when it is new, and then the idle ones are dropped, so the ledger stays bounded."""
    bucket = state.buckets.get(name)
    if bucket is None:
        for gone in liveness.idle(state, now):
            del state.buckets[gone]
        bucket = Bucket(keys=keys, active=now)
        state.buckets[name] = bucket
    return bucket


def member_for(bucket: Bucket, owner: str, terms: Terms) -> Member:
    """The owner's membership in a bucket, under the terms it has now."""
    member = bucket.members.get(owner)
    if member is None:
        member = bucket.members[owner] = Member(terms=_index(bucket, terms))
    elif bucket.terms[member.terms] != terms:
        member.terms = _index(bucket, terms)
        _forget_unused_terms(bucket)
    return member


def _index(bucket: Bucket, terms: Terms) -> int:
    if terms not in bucket.terms:
        bucket.terms.append(terms)
    return bucket.terms.index(terms)


def _forget_unused_terms(bucket: Bucket) -> None:
    used = sorted({member.terms for member in bucket.members.values()})
    if len(used) == len(bucket.terms):
        return
    place = {old: new for new, old in enumerate(used)}
    bucket.terms = [bucket.terms[old] for old in used]
    for member in bucket.members.values():
        member.terms = place[member.terms]


def enqueue(state: State, name: str, ticket: Ticket, terms: Terms, out: Transition) -> None:
    """Put a ticket into the queue of an existing bucket. A ledger that was rebuilt starts new rates empty."""
    bucket = state.buckets[name]
    if state.origin == "rebuilt" and not bucket.tat and terms.requests_per_minute:
        # Before that loss, reset or boot all may have been spent.
        _tell_under(bucket, terms, token_bucket.empty(terms, state.since or state.clock))
    member = member_for(bucket, ticket.owner, terms)
    queueing.insert(bucket.queue, ticket)
    member.waiting += 1
    bucket.active = state.clock
    out.changed = True
    out.events.append(Event("queued", name, ticket.owner, ticket.number))


def settle(state: State, name: str, out: Transition) -> None:
    """Grant to the head of the queue as long as it may go; else see that the head knows when its token is due."""
    bucket = state.buckets[name]
    while bucket.queue:
        terms = admission.effective(bucket)
        if terms.requests_per_minute:
            _tell_under(bucket, terms, admission.tat_under(bucket, terms, state.clock))
        decision = admission.decide(bucket, terms, state.clock)
        index = queueing.head(state, bucket, terms)
        if not decision.admit:
            if decision.due:
                _tell(bucket, name, index, decision.due, out)
            return
        _grant(state, name, index, terms, out)


def _tell_under(bucket: Bucket, terms: Terms, tat: float) -> None:
    bucket.tat, bucket.rate, bucket.burst = tat, terms.requests_per_minute, terms.burst


def _tell(bucket: Bucket, name: str, index: int, due: float, out: Transition) -> None:
    ticket = bucket.queue[index]
    if ticket.due and ticket.due <= due + _TELL_S:
        return
    bucket.queue[index] = ticket = replace(ticket, due=round(due, 6))
    out.dues.append(Due(name, ticket))
    out.changed = True


def _grant(state: State, name: str, index: int, terms: Terms, out: Transition) -> None:
    bucket, now = state.buckets[name], state.clock
    ticket = bucket.queue.pop(index)
    waited = round(max(0.0, now - ticket.at), 6)
    paid = token_bucket.interval(terms) if terms.requests_per_minute else 0.0
    lease = Lease(ticket.owner, ticket.number, now, waited, ticket.cell, ticket.loop, ticket.traceparent, paid)
    bucket.leases.append(lease)
    if paid:
        bucket.tat = token_bucket.spend(bucket.tat, terms, now)
    bucket.active = now
    member = bucket.members[ticket.owner]
    member.waiting, member.held, member.granted = member.waiting - 1, member.held + 1, member.granted + 1
    _count_wait(bucket, waited, 1)
    if terms.fair_by == "user":
        bucket.turns[queueing.user_of(state, ticket)] = bucket.totals.granted
    out.changed = True
    out.grants.append(Grant(name, lease))
    out.events.append(Event("granted", name, ticket.owner, ticket.number, waited))


def _count_wait(bucket: Bucket, waited: float, step: int) -> None:
    totals = bucket.totals
    totals.granted += step
    totals.wait_s = max(0.0, round(totals.wait_s + step * waited, 6))
    if not totals.waits:
        totals.waits = [0] * (len(WAIT_BOUNDARIES) + 1)
    cell = next((i for i, bound in enumerate(WAIT_BOUNDARIES) if waited <= bound), len(WAIT_BOUNDARIES))
    totals.waits[cell] += step


def estimate(state: State, name: str, owner: str, number: int, out: Transition) -> None:
    """Tell a waiting ticket when its token will be due if all ahead of it go on time; nothing if it waits for a slot.

    So each waiter sleeps to its own moment, and a granted token costs one transaction and no extra wake-up.
    """
    bucket = state.buckets[name]
    index = queueing.find(bucket.queue, owner, number)
    if index < 0:
        return
    terms = admission.effective(bucket)
    decision = admission.decide(bucket, terms, state.clock)
    due = round(decision.due + index * token_bucket.interval(terms), 6) if decision.due else 0.0
    if due != bucket.queue[index].due:
        bucket.queue[index] = ticket = replace(bucket.queue[index], due=due)
        out.changed = True
        out.dues.append(Due(name, ticket))


def _take_lease(bucket: Bucket, owner: str, number: int) -> Lease | None:
    for index, lease in enumerate(bucket.leases):
        if lease.number == number and lease.owner == owner:
            bucket.members[owner].held -= 1
            return bucket.leases.pop(index)
    return None


def release(state: State, name: str, owner: str, number: int, out: Transition) -> bool:
    """Give a slot back and hand it on; False, and nothing changes, if the ledger does not know it (any more)."""
    bucket = state.buckets.get(name)
    lease = _take_lease(bucket, owner, number) if bucket else None
    if bucket is None or lease is None:
        return False
    bucket.active = state.clock
    out.changed = True
    out.events.append(Event("released", name, owner, number, max(0.0, state.clock - lease.since)))
    settle(state, name, out)
    return True


def withdraw(state: State, name: str, owner: str, number: int, kind: EventKind, out: Transition) -> None:
    """Take a call out, whether it still waits or was granted meanwhile; it has spent nothing, and the slot goes on.

    `kind` is why: `timed_out`, `canceled` or `refused` (did not want to wait).
    """
    bucket = state.buckets.get(name)
    if bucket is None:
        return
    index = queueing.find(bucket.queue, owner, number)
    if index >= 0:
        seconds = state.clock - bucket.queue.pop(index).at
        bucket.members[owner].waiting -= 1
    else:
        lease = _take_lease(bucket, owner, number)
        if lease is None:
            return
        seconds = lease.waited
        _unspend(bucket, lease)
    if kind == "canceled":
        bucket.totals.canceled += 1
    else:
        bucket.totals.timed_out += 1
    out.changed = True
    out.events.append(Event(kind, name, owner, number, max(0.0, seconds)))
    settle(state, name, out)


def _unspend(bucket: Bucket, lease: Lease) -> None:
    if lease.paid and bucket.rate:
        bucket.tat = token_bucket.refund(bucket.tat, Terms(requests_per_minute=bucket.rate, burst=bucket.burst))
    bucket.members[lease.owner].granted -= 1
    _count_wait(bucket, lease.waited, -1)


def give_up(state: State, name: str, ticket: Ticket, kind: EventKind, out: Transition) -> None:
    """Count a call that was withdrawn before its ticket was ever published."""
    bucket = state.buckets.get(name)
    if bucket is None:
        return
    if kind == "canceled":
        bucket.totals.canceled += 1
    else:
        bucket.totals.timed_out += 1
    out.changed = True
    out.events.append(Event(kind, name, ticket.owner, ticket.number, max(0.0, state.clock - ticket.at)))


def reap(state: State, gone: Collection[str], out: Transition) -> None:
    """Take back all that owners hold who are gone, and pass it on. `gone` are ids that the caller saw to be dead."""
    for name, bucket in list(state.buckets.items()):
        lost = [lease for lease in bucket.leases if lease.owner in gone]
        bucket.leases = [lease for lease in bucket.leases if lease.owner not in gone]
        bucket.queue = [ticket for ticket in bucket.queue if ticket.owner not in gone]
        bucket.totals.reclaimed += len(lost)
        for lease in lost:
            out.events.append(Event("reclaimed", name, lease.owner, lease.number, state.clock - lease.since))
        for owner in gone:
            if bucket.members.pop(owner, None):
                out.changed = True
        _forget_unused_terms(bucket)
        settle(state, name, out)
    for owner in gone:
        if state.owners.pop(owner, None):
            out.changed = True


def reboot(state: State, boot: str) -> None:
    """Nobody of another boot lives and its clock is void; only the buckets' totals last. Rates start empty."""
    state.boot, state.origin, state.clock, state.since = boot, "rebuilt", 0.0, 0.0
    for owner in list(state.owners):
        del state.owners[owner]
    for name, bucket in list(state.buckets.items()):
        bucket.totals.reclaimed += len(bucket.leases)
        state.buckets[name] = Bucket(keys=bucket.keys, totals=bucket.totals)


def clear(state: State, ident: str) -> None:
    """Empty the ledger. Living owners stay, and under its new identity find out that what waits must be queued again."""
    state.ident, state.origin, state.since = ident, "rebuilt", 0.0
    for name in list(state.buckets):
        del state.buckets[name]


def adopt(state: State, name: str, claim: Claim) -> None:
    """Put a call of a living owner, as its mailbox lists it, into a ledger that was lost."""
    bucket = bucket_for(state, name, claim.keys, state.clock)
    member = member_for(bucket, claim.owner, claim.terms)
    if claim.held:
        _count_wait(bucket, 0.0, 1)
        bucket.leases.append(Lease(claim.owner, claim.number, state.clock, 0.0, claim.cell, claim.loop))
        member.held, member.granted = member.held + 1, member.granted + 1
    else:
        queueing.insert(bucket.queue, Ticket(claim.owner, claim.number, claim.at, claim.cell, claim.loop))
        member.waiting += 1
    if claim.terms.requests_per_minute:
        _tell_under(bucket, claim.terms, token_bucket.empty(claim.terms, state.clock))


def expire(state: State, name: str, out: Transition) -> list[Lease]:
    """Take back what was held longer than its owner's own `max_hold_s`, pass it on, and return those leases."""
    bucket = state.buckets[name]
    late = liveness.overdue(bucket, state.clock)
    for lease in late:
        _take_lease(bucket, lease.owner, lease.number)
        bucket.totals.reclaimed += 1
        out.changed = True
        out.events.append(Event("overdue", name, lease.owner, lease.number, state.clock - lease.since))
    if late:
        settle(state, name, out)
    return late
