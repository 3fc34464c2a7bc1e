"""What this process does in a ledger for its calls: ask, give back, withdraw, repair.

The law: each is one transaction; the rules decide, and what they say is done in here and nowhere else. May not know how a call
sleeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_sched import inspection
from llm_sched.config import clash_error
from llm_sched.errors import LedgerError
from llm_sched.mailbox import Word
from llm_sched.mailroom import Header
from llm_sched.membership import Membership
from llm_sched.rules import transitions

if TYPE_CHECKING:
    from llm_sched.calls import Call
    from llm_sched.model import State, Transition

_PROBE_EVERY_S = 0.02
_PROBE_WATCHED_EVERY_S = 0.5


class Participant(Membership):
    """One owner in one ledger; used by all threads and loops of a process. Arguments as for `Membership`."""

    def ask(self, call: Call, deadline: float | None, *, once: bool) -> None:
        """Ask for a slot. Afterwards the call is granted, or waits; with `once` it is granted, or gone again.

        Args:
            call: a new call.
            deadline: `time.monotonic()` until which to try for the ledger's lock; None = never block.
            once: do not queue.

        Raises:
            BusyError: the lock could not be had.
            LedgerError: the ledger cannot be used.
            ConfigError: the bucket's name is in use for other keys.
        """
        granted = False

        def change(state: State, out: Transition) -> None:
            nonlocal granted
            if call.clash:
                return
            granted = call.granted or self._take_own_grant(call, out)
            if not granted:
                self._look_for_the_dead(state, call.bucket, out, always=once)
                granted = self._take_own_grant(call, out)
            if not granted:
                call.seen = inspection.occupancy(state, call, self._terms)
                if once:
                    self.roll.withdraw(state, call, "refused", out)
                    self._clear(call)
            elif not call.granted:
                self.mailroom.write(call.cell, b"held", call.text())
                self._unlisted = [other for other in self._unlisted if other is not call]

        self.roll.announce(call)
        self._transact(change, deadline, yields=True)
        if call.clash:
            raise clash_error(call.bucket, call.keys, call.clash)
        if granted:
            self.arrived(call)
        elif once:
            self._drop(call)

    def _take_own_grant(self, call: Call, out: Transition) -> bool:
        """Whether the asking call itself was granted; it is not asleep, so it needs no ring."""
        for index, grant in enumerate(out.grants):
            if grant.lease.number == call.number and grant.lease.owner == self.owner_id:
                del out.grants[index]
                return True
        return False

    def _look_for_the_dead(self, state: State, name: str, out: Transition, *, always: bool) -> None:
        """Before somebody has to wait: is a slot held by the dead, or too long? Seldom while the watch looks as well."""
        every = _PROBE_WATCHED_EVERY_S if self.watched else _PROBE_EVERY_S
        if always or self.clock.now() - self._probed_at > every:
            gone = self._gone(state)
            if gone:
                transitions.reap(state, gone, out)
            transitions.expire(state, name, out)

    def retry(self, call: Call, deadline: float | None) -> None:
        """The call's token should be due: grant it, or tell it its new time."""

        def change(state: State, out: Transition) -> None:
            self.roll.publish(state, call.bucket, out)
            if call.bucket in state.buckets:
                transitions.settle(state, call.bucket, out)
                transitions.estimate(state, call.bucket, self.owner_id, call.number, out)

        self._transact(change, deadline)

    def top_up(self, name: str, deadline: float | None) -> None:
        """Publish more of what queues here."""
        self._transact(lambda state, out: self.roll.publish(state, name, out), deadline)

    def time_out(self, call: Call, deadline: float | None) -> None:
        """The call's time is over: withdraw it, unless its slot has come meanwhile; then it is granted after all."""
        late = False

        def change(state: State, out: Transition) -> None:
            nonlocal late
            bucket = state.buckets.get(call.bucket)
            late = bucket is not None and any(
                lease.number == call.number and lease.owner == self.owner_id for lease in bucket.leases
            )
            if bucket is not None and not late:
                call.seen = inspection.occupancy(state, call, self._terms)
                self.roll.withdraw(state, call, "timed_out", out)
                self._clear(call)

        self._transact(change, deadline)
        if late:
            self.arrived(call)
        else:
            self._drop(call)

    def cancel(self, call: Call, deadline: float | None) -> None:
        """Take the call out whatever has become of it; a slot that came meanwhile goes on to the next."""
        call.over = True

        def change(state: State, out: Transition) -> None:
            self.roll.withdraw(state, call, "canceled", out)
            self._clear(call)

        self._transact(change, deadline, join=False)
        self._drop(call)

    def release(self, call: Call, deadline: float | None) -> None:
        """Give the call's slot back and hand it to the next. Idempotent."""

        def change(state: State, out: Transition) -> None:
            transitions.release(state, call.bucket, self.owner_id, call.number, out)
            self._clear(call)
            self.roll.publish(state, call.bucket, out)

        self._transact(change, deadline, join=False)
        self._drop(call)

    def _clear(self, call: Call) -> None:
        """Strike the call off the mailbox: under the lock, so that a ledger made again from it never lists what is over."""
        if call.cell >= 0 and not call.cleared:
            self.mailroom.clear(call.cell)
            call.cleared = True

    def _drop(self, call: Call) -> None:
        """Forget a call that neither waits nor holds, and free its cell."""
        call.over = True
        self.roll.drop(call)
        if call.cell >= 0:
            try:
                self._clear(call)  # if the ledger did not know us, so that there was nothing to change
            finally:
                cell, call.cell = call.cell, -1
                self.mailroom.free(cell)

    def needs_repair(self) -> bool:
        """Whether something went past the ordinary ways: the dead, the overdue, a lost ring or ledger. Takes no lock."""
        if not self.store.intact() or not self.mailroom.is_intact():
            return True
        try:
            state = self.store.read()
        except LedgerError:
            return True  # a transaction makes it again, or says what is wrong
        now = self.clock.now()
        if state.ident != self._ledger:
            return True
        if any(owner != self.owner_id and not self.mailroom.is_alive(owner, state.owners[owner]) for owner in state.owners):
            return True
        self.owners = frozenset(state.owners)
        return inspection.is_stuck(state, self.roll, now)

    def repair(self, deadline: float | None) -> None:
        """Put all that right: reap, take back, find what was granted or lost, publish, grant."""

        def change(state: State, out: Transition) -> None:
            owner = state.owners[self.owner_id]
            self.mailroom.join(self.owner_id, Header(owner, self._terms), state.owners)
            transitions.reap(state, self._gone(state), out)
            for name in list(state.buckets):
                transitions.expire(state, name, out)
            self._reconcile(state, out)
            for name in list(state.buckets):
                self.roll.publish(state, name, out)
                transitions.settle(state, name, out)

        self._transact(change, deadline)

    def leave(self, deadline: float | None) -> None:
        """Give everything back and take this owner out of the ledger, for good; whoever waits here is told."""

        def change(state: State, out: Transition) -> None:
            self.closed = True
            # Who waits here goes first, so that what is given back passes to others.
            for call in self.roll.published():
                transitions.withdraw(state, call.bucket, self.owner_id, call.number, "canceled", out)
            for call in self.roll.held():
                transitions.release(state, call.bucket, self.owner_id, call.number, out)
            transitions.reap(state, [self.owner_id], out)
            out.grants = [grant for grant in out.grants if grant.lease.owner != self.owner_id]
            for call in self.roll.waiting():
                self.mailroom.deliver(self.owner_id, call.cell, call.loop, Word(b"", b"gone", 0.0), state.seq)

        try:
            self._transact(change, deadline, join=False)
        finally:
            self.closed = True
            self.mailroom.leave()
            self.store.close()
