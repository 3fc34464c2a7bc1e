"""The calls of this process: which hold, which stand in the ledger's queue, which still queue here.

The law: only a window of the oldest calls of a bucket is published; the rest queue here and move up when a transaction of ours
runs. All changes are made inside a transaction; where one failed, `reconcile` goes by what the ledger says.
May not know files, cells or time.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, deque
from typing import TYPE_CHECKING

from llm_sched.calls import Call, by_time
from llm_sched.rules import transitions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llm_sched.model import EventKind, Lease, State, Terms, Ticket, Transition

WINDOW = 8
"""Tickets that one process publishes per bucket. Measured: 1 breaks the order across processes, 32 and more cost
every transaction of everybody; 8 stays flat to 10,000 waiters."""

_LOW = 2


class Roll:
    """The calls of one owner.

    Args:
        owner_id: the owner's id in the ledger.
        terms: under which its calls are made.
    """

    def __init__(self, owner_id: str, terms: Terms) -> None:
        self.owner_id = owner_id
        self._terms = terms
        self._held: dict[int, Call] = {}
        self._published: dict[int, Call] = {}
        self._backlog: dict[str, list[Call]] = {}
        self._inbox: deque[Call] = deque()

    # The dicts are read without the lock by other threads: always through an atomic copy.

    def held(self) -> list[Call]:
        """Calls that hold a slot."""
        return list(self._held.values())

    def published(self) -> list[Call]:
        """Calls that wait and stand in the ledger."""
        return list(self._published.values())

    def waiting(self) -> list[Call]:
        """Calls that wait, in the ledger or here."""
        return [*self.published(), *(call for calls in list(self._backlog.values()) for call in list(calls))]

    def waiting_buckets(self) -> set[str]:
        """Names of the buckets in which calls of ours wait."""
        return {call.bucket for call in self.published()} | set(self._backlog)

    def has_waiters(self) -> bool:
        """Whether anybody waits in this process."""
        return bool(self._published) or bool(self._backlog) or bool(self._inbox)

    def is_idle(self) -> bool:
        """Whether this process neither holds nor waits."""
        return not self._held and not self.has_waiters()

    def census(self, kept: set[int] | None = None) -> dict[str, tuple[int, int]]:
        """By bucket: how many calls hold a slot here, and how many wait. `kept`: numbers of the leases that still count."""
        held = [call for call in self.held() if kept is None or call.number in kept]
        waiting = {call.number: call for calls in list(self._backlog.values()) for call in list(calls)}
        waiting.update({call.number: call for call in [*self.published(), *list(self._inbox)] if not call.over})
        for number in self._held.copy():
            waiting.pop(number, None)
        names = {call.bucket for call in [*held, *waiting.values()]}
        holding, queueing = Counter(call.bucket for call in held), Counter(call.bucket for call in waiting.values())
        return {name: (holding[name], queueing[name]) for name in names}

    def runs_low(self, name: str) -> bool:
        """Whether calls queue here while few of them stand in the ledger, so that others might overtake them."""
        return bool(self._backlog.get(name)) and sum(call.bucket == name for call in self.published()) <= _LOW

    def knows(self, number: int) -> bool:
        """Whether a call of that number waits or holds here."""
        return number in self._held or number in self._published

    def owns(self, item: Lease | Ticket) -> bool:
        """Whether a lease or ticket of the ledger is of this process."""
        return item.owner == self.owner_id

    def announce(self, call: Call) -> None:
        """A new call asks to be taken in by the next transaction of this process, whichever thread runs it."""
        if not call.announced:
            call.announced = True
            self._inbox.append(call)

    # -- inside a transaction ----------------------------------------------------------------------------------------

    def announced(self) -> Iterator[Call]:
        """The calls to be taken in; each is struck off only after the caller has dealt with it."""
        while self._inbox:
            if not self._inbox[0].over:
                yield self._inbox[0]
            self._inbox.popleft()

    def enter(self, call: Call) -> None:
        """A new call queues here. Idempotent, since an interrupt may have come after it and before it was struck off."""
        backlog = self._backlog.setdefault(call.bucket, [])
        if call.number not in self._published and call.number not in self._held and call not in backlog:
            insort(backlog, call, key=by_time)

    def publish(self, state: State, name: str, out: Transition) -> None:
        """Fill the window in a bucket's queue from what queues here, and grant what can be granted."""
        bucket = state.buckets.get(name)
        if bucket is None:
            return
        backlog = self._backlog.get(name)
        member = bucket.members.get(self.owner_id)
        if not backlog:
            if member and member.backlog:
                member.backlog, out.changed = 0, True
            return
        while backlog and backlog[0].over:
            del backlog[0]
        fresh = [call for call in backlog[: max(0, WINDOW - (member.waiting if member else 0))] if not call.over]
        for call in fresh:
            transitions.enqueue(state, name, call.ticket(), self._terms, out)
            self._published[call.number] = call
        # Only now: an interrupt may leave a call in both, which `reconcile` puts right, but never in neither.
        del backlog[: backlog.index(fresh[-1]) + 1 if fresh else 0]
        if not backlog:
            self._backlog.pop(name, None)
        member = bucket.members.get(self.owner_id)
        if member and member.backlog != len(backlog):
            member.backlog, out.changed = len(backlog), True
        transitions.settle(state, name, out)
        if any(terms.requests_per_minute for terms in bucket.terms):
            for call in fresh:
                transitions.estimate(state, name, self.owner_id, call.number, out)

    def withdraw(self, state: State, call: Call, kind: EventKind, out: Transition) -> None:
        """Take a call out of the ledger, or of the queue here, and let the next move up."""
        if not self._leave_backlog(call):
            self._published.pop(call.number, None)
            transitions.withdraw(state, call.bucket, self.owner_id, call.number, kind, out)
        else:
            transitions.give_up(state, call.bucket, call.ticket(), kind, out)
        self.publish(state, call.bucket, out)

    def _leave_backlog(self, call: Call) -> bool:
        backlog = self._backlog.get(call.bucket, [])
        if call not in backlog:
            return False
        backlog.remove(call)
        if not backlog:
            self._backlog.pop(call.bucket, None)
        return True

    def reconcile(self, state: State, out: Transition) -> list[Call]:
        """Go by the ledger: what it does not list queues here again, what nobody here knows is given back.

        Returns:
            The calls whose slot the ledger already lists; they have to be told.
        """
        waiting = {call.number: call for call in self.waiting() if not call.over}
        leases = {lease.number: name for name in state.buckets for lease in state.buckets[name].leases if self.owns(lease)}
        queued = {ticket.number for name in state.buckets for ticket in state.buckets[name].queue if self.owns(ticket)}
        listed = {number: call for number, call in waiting.items() if number in leases or number in queued}
        backlog: dict[str, list[Call]] = {}
        for call in sorted(waiting.values(), key=by_time):
            if call.number not in listed:
                transitions.bucket_for(state, call.bucket, call.keys, state.clock)
                backlog.setdefault(call.bucket, []).append(call)
        self._published, self._backlog = listed, backlog
        for number, name in leases.items():
            if number not in self._held and number not in waiting:
                transitions.release(state, name, self.owner_id, number, out)
        return [call for number, call in waiting.items() if number in leases]

    # -- after a transaction -----------------------------------------------------------------------------------------

    def find(self, number: int) -> Call | None:
        """The published call of that number."""
        return self._published.get(number)

    def hold(self, call: Call) -> None:
        """The call has its slot. Idempotent."""
        self._held[call.number] = call
        self._published.pop(call.number, None)

    def drop(self, call: Call) -> None:
        """Forget a call that neither waits nor holds."""
        self._held.pop(call.number, None)
        self._published.pop(call.number, None)
