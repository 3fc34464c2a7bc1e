"""May the head of a bucket's queue go now?

The law: the strictest terms of those who hold or wait in the bucket count, 0 being the least strict. The cap comes first,
then the token. May not know which ticket is the head, nor change anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_sched.model import Decision, LimitKind, Terms
from llm_sched.rules import token_bucket

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llm_sched.model import Bucket

_EPSILON_S = 1e-6
"""Times in the ledger are rounded to the microsecond; a token may not be missed by rounding."""


def effective(bucket: Bucket) -> Terms:
    """The terms in force: of each limit the strictest among the owners that hold or wait here."""
    if len(bucket.terms) == 1:
        return bucket.terms[0]
    live = {member.terms for member in bucket.members.values() if member.held or member.waiting}
    if len(live) == 1:
        return bucket.terms[live.pop()]
    return strictest([bucket.terms[index] for index in sorted(live)])


def strictest(terms: list[Terms]) -> Terms:
    """Join several terms into the strictest of each limit; no terms at all mean no limit."""
    rated = [each for each in terms if each.requests_per_minute]
    return Terms(
        max_in_flight=int(_least(each.max_in_flight for each in terms)),
        requests_per_minute=_least(each.requests_per_minute for each in rated),
        burst=_least(each.burst for each in rated) or 1.0,
        fair_by=max((each.fair_by for each in terms), default=""),
    )


def _least(values: Iterable[float]) -> float:
    return min((value for value in values if value), default=0)


def tat_under(bucket: Bucket, terms: Terms, now: float) -> float:
    """The bucket's `tat` as it is told under `terms`, which have a rate."""
    if bucket.rate == terms.requests_per_minute and bucket.burst == terms.burst:
        return bucket.tat
    return token_bucket.restate(bucket.tat, Terms(requests_per_minute=bucket.rate, burst=bucket.burst), terms, now)


def decide(bucket: Bucket, terms: Terms, now: float) -> Decision:
    """Decide for whoever is the head of the queue, under `terms`."""
    if terms.max_in_flight and len(bucket.leases) >= terms.max_in_flight:
        return Decision(admit=False, limit="in_flight")
    if terms.requests_per_minute:
        due = token_bucket.due(tat_under(bucket, terms, now), terms)
        if due > now + _EPSILON_S:
            return Decision(admit=False, limit="rate", due=due)
    return Decision(admit=True)


def waits_for(bucket: Bucket, own: Terms, now: float) -> LimitKind:
    """What a waiter with terms of its `own` waits for: a slot, a token, or somebody else's stricter policy."""
    decision = decide(bucket, effective(bucket), now)
    if decision.admit:
        return "none"
    return decision.limit if not decide(bucket, own, now).admit else "policy"
