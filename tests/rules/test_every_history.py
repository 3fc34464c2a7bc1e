"""Whatever happens in whatever order, the promises hold: a state machine over the real rules and the real codec."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from rules_history import USERS, Account, Key

from llm_sched import codec
from llm_sched.model import Claim, EventKind, Owner, Terms, Ticket, Transition
from llm_sched.rules import transitions

BUCKETS = ("p/m", "p/n")
POLICIES = (
    Terms(max_in_flight=1),
    Terms(max_in_flight=3),
    Terms(max_in_flight=0),
    Terms(max_in_flight=2, max_hold_s=5.0),
    Terms(max_in_flight=2, fair_by="user"),
    Terms(max_in_flight=0, requests_per_minute=60.0, burst=1.0),
    Terms(max_in_flight=3, requests_per_minute=30.0, burst=4.0),
    Terms(max_in_flight=0, requests_per_minute=600.0, burst=2.0, fair_by="user", max_hold_s=3.0),
)
owners = st.sampled_from(sorted(USERS))
buckets = st.sampled_from(BUCKETS)
picks = st.integers(0, 10**6)
pauses = st.one_of(st.floats(0.0, 5.0), st.floats(0.0, 0.02), st.sampled_from((60.0, 3700.0)))


class EveryHistory(RuleBasedStateMachine):
    """Owners call, end, die and change their minds in two buckets."""

    def __init__(self) -> None:
        super().__init__()
        self.state = codec.new_state("ident", "boot", "machine")
        self.account = Account()
        self.policies: dict[str, Terms] = {}
        self.numbers = itertools.count(1)
        self.machine_now = 1000.0
        self.adopted: set[Key] = set()

    # -- one transaction -----------------------------------------------------------------------------------------------

    def begin(self) -> Transition:
        """A transaction starts: the ledger's clock moves on, never back."""
        before = self.state.clock
        transitions.advance(self.state, self.machine_now)
        assert self.state.clock >= before
        return Transition()

    def end(self, out: Transition, *settled: str) -> None:
        """A transaction ends: the account follows its answer."""
        self.account.take_grants(self.state, out.grants)
        for name in settled:
            self.account.check_settled(name, self.state)

    # -- what can happen -----------------------------------------------------------------------------------------------

    @initialize(policies=st.lists(st.sampled_from(POLICIES), min_size=len(USERS), max_size=len(USERS)))
    def policies_of_owners(self, policies: list[Terms]) -> None:
        """Everybody has a policy, not all the same."""
        self.policies = dict(zip(USERS, policies, strict=True))

    @rule(name=buckets, owner=owners, late=st.floats(0.0, 2.0), count=st.integers(1, 3))
    def call(self, name: str, owner: str, late: float, count: int) -> None:
        """An owner makes calls, perhaps a while before it gets the lock."""
        out = self.begin()
        self.state.owners.setdefault(owner, Owner(1, USERS[owner]))
        before = set(self.state.buckets)
        transitions.bucket_for(self.state, name, {"model": name}, self.state.clock)
        for gone in before.difference(self.state.buckets):
            self.account.forget_bucket(gone)
        for _ in range(count):
            number, at = next(self.numbers), round(self.machine_now - late, 6)
            transitions.enqueue(self.state, name, Ticket(owner, number, at, number), self.policies[owner], out)
            self.account.waiting[Key(name, owner, number)] = at
        self.account.terms[name, owner] = self.policies[owner]
        transitions.settle(self.state, name, out)
        self.end(out, name)

    @precondition(lambda self: self.account.holding)
    @rule(pick=picks)
    def release(self, pick: int) -> None:
        """A call ends; a second release of it frees nothing."""
        key = pick_from(self.account.holding, pick)
        out = self.begin()
        assert transitions.release(self.state, *key, out)
        assert not transitions.release(self.state, *key, out)
        self.account.end(key)
        self.end(out, key.bucket)

    @precondition(lambda self: self.account.waiting)
    @rule(pick=picks, kind=st.sampled_from(("canceled", "timed_out", "refused")))
    def give_up(self, pick: int, kind: EventKind) -> None:
        """A waiting call times out or is cancelled; a second time changes nothing, and it has spent nothing."""
        key = pick_from(self.account.waiting, pick)
        self.withdraw(key, kind)

    @precondition(lambda self: self.account.holding)
    @rule(pick=picks)
    def give_up_too_late(self, pick: int) -> None:
        """A call is cancelled whose slot has come meanwhile."""
        key = pick_from(self.account.holding, pick)
        if key in self.adopted:
            return
        self.account.unspend(key)
        self.withdraw(key, "canceled")

    def withdraw(self, key: Key, kind: EventKind) -> None:
        """Take a call out, twice."""
        out = self.begin()
        transitions.withdraw(self.state, *key, kind, out)
        transitions.withdraw(self.state, *key, kind, out)
        self.account.end(key)
        self.account.count(key.bucket, "canceled" if kind == "canceled" else "timed_out")
        self.end(out, key.bucket)

    @rule(gone=st.sets(owners, max_size=3))
    def die(self, gone: set[str]) -> None:
        """Owners die, and somebody notices."""
        out = self.begin()
        transitions.reap(self.state, gone, out)
        self.account.end_owners(gone)
        assert not gone.intersection(self.state.owners)
        self.end(out, *self.state.buckets)

    @rule(name=buckets)
    def look_for_the_overdue(self, name: str) -> None:
        """Whoever held longer than its own policy allows loses that slot, and nobody else does."""
        if name not in self.state.buckets:
            return
        out = self.begin()
        late = [
            key
            for key, since in self.account.holding.items()
            if key.bucket == name and 0 < self.account.terms[name, key.owner].max_hold_s < self.state.clock - since
        ]
        taken = [Key(name, lease.owner, lease.number) for lease in transitions.expire(self.state, name, out)]
        assert sorted(taken) == sorted(late)
        for key in late:
            self.account.end(key)
            self.account.count(name, "reclaimed")
        self.end(out, *([name] if late else []))

    @rule(owner=owners, policy=st.sampled_from(POLICIES))
    def change_policy(self, owner: str, policy: Terms) -> None:
        """From the next call on another policy holds."""
        self.policies[owner] = policy

    @rule(seconds=pauses)
    def time_passes(self, seconds: float) -> None:
        """The clock goes on, and whoever waits for a token looks."""
        self.machine_now += seconds
        out = self.begin()
        for name in self.state.buckets:
            transitions.settle(self.state, name, out)
        self.end(out, *self.state.buckets)

    @rule(seconds=pauses)
    def clock_steps_back(self, seconds: float) -> None:
        """A clock steps back: no time passes in the ledger, so nobody who waits for a token gets one."""
        before = self.state.clock
        self.machine_now -= seconds
        out = self.begin()
        for name in self.state.buckets:
            transitions.settle(self.state, name, out)
        if self.machine_now <= before:
            assert (self.state.clock, out.grants) == (before, [])
        self.end(out, *self.state.buckets)

    @rule()
    def write_and_read(self) -> None:
        """The ledger goes through its file."""
        data = codec.encode(self.state)
        self.state = codec.decode(data + b" \n\0\0")
        assert codec.encode(self.state) == data

    @rule(now=st.floats(1.0, 100.0))
    def reboot(self, now: float) -> None:
        """The machine restarts: nobody lives, and the clock starts again."""
        for key in self.account.holding:
            self.account.count(key.bucket, "reclaimed")
        transitions.reboot(self.state, "another boot")
        totals = self.account.totals
        self.account = Account()
        self.account.totals, self.machine_now = totals, now

    @rule()
    def lose_the_ledger(self) -> None:
        """The file is lost and made again from what the living hold and wait for; totals start again."""
        clock = self.state.clock
        self.state = codec.new_state("other ident", "boot", "machine", "rebuilt")
        transitions.advance(self.state, clock)
        account, out = self.account, self.begin()
        account.totals = {}
        calls = [(key, at, False) for key, at in account.waiting.items()] + [(key, 0.0, True) for key in account.holding]
        for key, at, held in calls:
            self.state.owners.setdefault(key.owner, Owner(1, USERS[key.owner]))
            claim = Claim(key.owner, account.terms[key[:2]], {"model": key.bucket}, key.number, 0, at, key.number, held)
            transitions.adopt(self.state, key.bucket, claim)
            if held:
                account.holding[key] = self.state.clock
                self.adopted.add(key)
        for name in self.state.buckets:
            account.count(name, "granted", self.state.buckets[name].totals.granted)
            transitions.settle(self.state, name, out)
        self.end(out, *self.state.buckets)

    # -- what is true at any time --------------------------------------------------------------------------------------

    @invariant()
    def the_ledger_is_in_order(self) -> None:
        """See `Account.check`."""
        self.account.check(self.state)


def pick_from(calls: dict[Key, float], pick: int) -> Key:
    """One of the calls."""
    return sorted(calls)[pick % len(calls)]


EveryHistory.TestCase.settings = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=150,
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestEveryHistory = EveryHistory.TestCase
