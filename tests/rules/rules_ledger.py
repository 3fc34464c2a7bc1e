"""A ledger to try the rules on: values in, values out."""

from __future__ import annotations

import itertools

from llm_sched import codec
from llm_sched.model import Bucket, EventKind, Lease, Owner, State, Terms, Ticket, Transition
from llm_sched.rules import transitions

BUCKET = "openai/gpt-4o"
START = 1000.0


class Ledger:
    """One bucket's worth of state, with the rules as methods; all owners live unless a test says otherwise."""

    def __init__(self, terms: Terms | None = None, *, origin: str = "new", users: dict[str, str] | None = None) -> None:
        self.terms = terms or Terms()
        self.state: State = codec.new_state("ident", "boot", "machine", origin)
        self.out = Transition()
        self._numbers = itertools.count(1)
        self._users = users or {}
        self.at(START)

    def at(self, now: float) -> None:
        """Let the ledger's clock show `now`."""
        transitions.advance(self.state, now)

    @property
    def now(self) -> float:
        """The ledger's clock."""
        return self.state.clock

    @property
    def bucket(self) -> Bucket:
        """The bucket."""
        return self.state.buckets[BUCKET]

    def owner(self, name: str) -> str:
        """The id of an owner; it is in the ledger then."""
        self.state.owners.setdefault(name, Owner(pid=1, user=self._users.get(name, "default")))
        return name

    def queue(self, owner: str = "1-a", *, terms: Terms | None = None, at: float | None = None) -> int:
        """Enqueue a call without letting anybody through; returns its number."""
        number = next(self._numbers)
        transitions.bucket_for(self.state, BUCKET, {"provider": "openai", "model": "gpt-4o"}, self.now)
        ticket = Ticket(self.owner(owner), number, self.now if at is None else at, number)
        transitions.enqueue(self.state, BUCKET, ticket, terms or self.terms, self.out)
        return number

    def ask(self, owner: str = "1-a", *, terms: Terms | None = None, at: float | None = None) -> int:
        """Enqueue a call and let through whoever may go."""
        number = self.queue(owner, terms=terms, at=at)
        self.settle()
        return number

    def settle(self) -> None:
        """Let through whoever may go."""
        transitions.settle(self.state, BUCKET, self.out)

    def settle_at(self, now: float) -> bool:
        """Let time pass, then whoever may go; whether the clock shows that time now."""
        self.at(now)
        self.settle()
        return self.now == now

    def estimate(self, number: int, owner: str = "1-a") -> float:
        """Tell a waiter when its token is due; returns what it has been told, 0 = nothing."""
        transitions.estimate(self.state, BUCKET, owner, number, self.out)
        return next((ticket.due for ticket in self.bucket.queue if ticket.number == number), 0.0)

    def release(self, number: int, owner: str = "1-a") -> bool:
        """Give a slot back."""
        return transitions.release(self.state, BUCKET, owner, number, self.out)

    def withdraw(self, number: int, owner: str = "1-a", kind: EventKind = "canceled") -> None:
        """Take a call out."""
        transitions.withdraw(self.state, BUCKET, owner, number, kind, self.out)

    def reap(self, *gone: str) -> None:
        """Take back what owners had who are gone."""
        transitions.reap(self.state, gone, self.out)

    def expire(self) -> list[Lease]:
        """Take back what was held too long."""
        return transitions.expire(self.state, BUCKET, self.out)

    def held(self) -> list[int]:
        """Numbers of the calls that hold, in the order of their grants."""
        return [lease.number for lease in self.bucket.leases]

    def waiting(self) -> list[int]:
        """Numbers of the calls that wait, in the order of the queue."""
        return [ticket.number for ticket in self.bucket.queue]

    def kinds(self) -> list[EventKind]:
        """What happened so far."""
        return [event.kind for event in self.out.events]
