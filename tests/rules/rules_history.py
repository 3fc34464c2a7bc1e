"""What must be true of a ledger whatever has happened: an account of every call, kept apart from the rules."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from llm_sched.model import Terms
from llm_sched.rules import admission, token_bucket

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llm_sched.model import Bucket, Grant, State

USERS = {"1-a": "ann", "2-b": "bob", "3-c": "ann", "4-d": "cat"}
"""Owners and their users."""

SLACK_S = 1e-5
"""Times in the ledger are rounded to the microsecond."""


class Key(NamedTuple):
    """One call."""

    bucket: str
    owner: str
    number: int


@dataclass
class Rated:
    """What went through a bucket while it had a rate, and the most lenient rate and burst it ever had."""

    rate: float = 0.0
    burst: float = 0.0
    grants: list[tuple[float, Key]] = field(default_factory=list)


class Account:
    """Who waits and holds according to the answers of the rules, and what those answers must obey."""

    def __init__(self) -> None:
        self.waiting: dict[Key, float] = {}
        self.holding: dict[Key, float] = {}
        self.terms: dict[tuple[str, str], Terms] = {}
        self.totals: dict[str, Counter[str]] = {}
        self.rated: dict[str, Rated] = {}

    def calls(self, bucket: str) -> list[Key]:
        """All that hold or wait in a bucket."""
        return [key for key in (*self.holding, *self.waiting) if key.bucket == bucket]

    def in_force(self, bucket: str) -> Terms:
        """The strictest of each limit among those who are here."""
        here = [self.terms[bucket, owner] for owner in sorted({key.owner for key in self.calls(bucket)})]
        rates = [each for each in here if each.requests_per_minute]
        return Terms(
            max_in_flight=min((each.max_in_flight for each in here if each.max_in_flight), default=0),
            requests_per_minute=min((each.requests_per_minute for each in rates), default=0.0),
            burst=min((each.burst for each in rates), default=1.0),
            fair_by="user" if any(each.fair_by for each in here) else "",
        )

    def count(self, bucket: str, what: str, step: int = 1) -> None:
        """Note what the bucket's totals must say."""
        self.totals.setdefault(bucket, Counter())[what] += step

    # -- what grants must obey ---------------------------------------------------------------------------------------

    def take_grants(self, state: State, grants: Iterable[Grant]) -> None:
        """The rules have granted: were these calls next, is the cap kept, is the rate kept?"""
        last: dict[str, str] = {}
        for bucket, lease in ((grant.bucket, grant.lease) for grant in grants):
            key, terms = Key(bucket, lease.owner, lease.number), self.in_force(bucket)
            self._check_turn(key, terms, last.get(bucket, ""))
            self.holding[key] = state.clock
            del self.waiting[key]
            last[bucket] = USERS[key.owner]
            self.count(bucket, "granted")
            held = sum(other.bucket == bucket for other in self.holding)
            assert not terms.max_in_flight or held <= terms.max_in_flight, "the cap was exceeded"
            self._spend(key, terms, state.clock)

    def _check_turn(self, key: Key, terms: Terms, last_user: str) -> None:
        queue = sorted((at, other.owner, other.number) for other, at in self.waiting.items() if other.bucket == key.bucket)
        assert key in self.waiting, "only who waits can be granted"
        user = USERS[key.owner]
        mine = [entry for entry in queue if USERS[entry[1]] == user] if terms.fair_by else queue
        assert mine[0][1:] == key[1:], "somebody was overtaken"
        if terms.fair_by and len(mine) < len(queue):
            assert user != last_user, "a user had two turns in a row while others waited"

    def _spend(self, key: Key, terms: Terms, now: float) -> None:
        """However the terms change, never more goes than under the highest rate and burst of all alone."""
        if not terms.requests_per_minute:
            return
        rated = self.rated.setdefault(key.bucket, Rated())
        rated.rate, rated.burst = max(rated.rate, terms.requests_per_minute), max(rated.burst, terms.burst)
        rated.grants = [*rated.grants[-200:], (now, key)]
        for index, (since, _) in enumerate(rated.grants):
            allowed = rated.rate * (now - since) / 60 + rated.burst + 1 + SLACK_S
            assert len(rated.grants) - index <= allowed, "the rate was exceeded"

    # -- how calls end -----------------------------------------------------------------------------------------------

    def end(self, key: Key) -> None:
        """The call neither waits nor holds any more."""
        self.waiting.pop(key, None)
        self.holding.pop(key, None)

    def unspend(self, key: Key) -> None:
        """The call was granted but withdrawn: it counts nowhere."""
        if key in self.holding:
            self.count(key.bucket, "granted", -1)
            if rated := self.rated.get(key.bucket):
                rated.grants = [(at, other) for at, other in rated.grants if other != key]

    def end_owners(self, gone: Iterable[str]) -> None:
        """All that these owners had is taken."""
        for key in [key for key in (*self.holding, *self.waiting) if key.owner in gone]:
            if key in self.holding:
                self.count(key.bucket, "reclaimed")
            self.end(key)

    def forget_bucket(self, bucket: str) -> None:
        """The ledger dropped it: it must have been unused."""
        assert not self.calls(bucket), "a bucket in use was dropped"
        self.totals.pop(bucket, None)
        self.rated.pop(bucket, None)

    # -- what is true at any time ------------------------------------------------------------------------------------

    def check(self, state: State) -> None:
        """The ledger lists exactly the calls of this account, each once, and its counters say so."""
        for name in {key.bucket for key in (*self.holding, *self.waiting)}.difference(state.buckets):
            raise AssertionError(name)
        for name in state.buckets:
            self._check_lists(name, state.buckets[name])
            self._check_counters(name, state.buckets[name])

    def _check_lists(self, name: str, bucket: Bucket) -> None:
        leases = [Key(name, lease.owner, lease.number) for lease in bucket.leases]
        queue = [Key(name, ticket.owner, ticket.number) for ticket in bucket.queue]
        assert sorted(leases) == sorted(key for key in self.holding if key.bucket == name)
        assert sorted(queue) == sorted(key for key in self.waiting if key.bucket == name)
        assert not set(leases) & set(queue), "nothing both waits and holds"
        order = [(ticket.at, ticket.owner, ticket.number) for ticket in bucket.queue]
        assert all(one < other for one, other in pairwise(order)), "the queue is in order"

    def _check_counters(self, name: str, bucket: Bucket) -> None:
        held, waiting = (Counter(item.owner for item in items) for items in (bucket.leases, bucket.queue))
        for owner, member in bucket.members.items():
            assert (member.held, member.waiting) == (held[owner], waiting[owner]), "a member's counters are wrong"
            assert bucket.terms[member.terms] == self.terms[name, owner], "a member has somebody else's terms"
        assert set(held) | set(waiting) <= set(bucket.members), "a caller is no member"
        assert len(set(bucket.terms)) == len(bucket.terms)
        totals, counted = bucket.totals, self.totals.get(name, Counter())
        for what in ("granted", "reclaimed", "timed_out", "canceled"):
            assert getattr(totals, what) == counted[what], what
        assert sum(totals.waits) == totals.granted
        assert min(totals.waits, default=0) >= 0
        assert totals.wait_s >= 0

    def check_settled(self, name: str, state: State) -> None:
        """After a transaction: no slot idles while the head of the queue may go, and no token is in debt."""
        bucket, terms = state.buckets[name], self.in_force(name)
        tokens = 1.0
        if terms.requests_per_minute:
            tat = admission.tat_under(bucket, terms, state.clock)
            tokens = (state.clock - tat) / token_bucket.interval(terms) + terms.burst
            assert tokens >= -SLACK_S or not bucket.queue, "the token bucket is in debt"
            assert 0 <= token_bucket.available(tat, terms, state.clock) <= terms.burst
        if bucket.queue:
            full = terms.max_in_flight and len(bucket.leases) >= terms.max_in_flight
            assert full or tokens < 1.0, "a slot idles while somebody waits"
            if not full:
                due = state.clock + (1.0 - tokens) * token_bucket.interval(terms)
                assert any(0 < ticket.due <= due + 0.001 for ticket in bucket.queue), "nobody will look when the token is due"
