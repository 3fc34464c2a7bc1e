"""This process's part in one ledger: the transactions that it runs for its calls.

The law: a call is granted only after the write that says so; whoever got something is told under the lock, through his cell.
The rules decide, the roll knows the calls; this file carries answers from the one to the others. May not know how a
call sleeps.
"""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from llm_sched import host, inspection
from llm_sched.calls import Call
from llm_sched.config import clash_error
from llm_sched.ending import rest_if_ending
from llm_sched.errors import LedgerError, SchedulerError
from llm_sched.mailbox import Word
from llm_sched.mailroom import Header
from llm_sched.model import Owner, Transition
from llm_sched.roll import Roll
from llm_sched.rules import transitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from llm_sched.config import Policy, Target
    from llm_sched.mailroom import Mailroom
    from llm_sched.model import State
    from llm_sched.observer import Audience
    from llm_sched.store import Store

_PROBE_EVERY_S = 0.02
_PROBE_WATCHED_EVERY_S = 0.5


class Participant:
    """One owner in one ledger; used by all threads and loops of a process.

    Args:
        policy: the knobs.
        store: the ledger.
        mailroom: how it is rung and rings others.
        clock: the time of the ledger.
        observer: hears what its transactions did.
    """

    def __init__(self, policy: Policy, store: Store, mailroom: Mailroom, clock: host.Clock, observer: Audience) -> None:
        self.policy = policy
        self.store = store
        self.mailroom = mailroom
        self.clock = clock
        self.observer = observer
        self._terms = policy.terms()
        self.start()

    def start(self) -> None:
        """Begin as a new owner without calls: also in a forked child, which holds none of its parent's slots."""
        self.closed = False  # also in a child that was forked while its parent closed
        self.pid = os.getpid()
        self.owner_id = f"{self.pid}-{host.new_id()}"
        self.owners: frozenset[str] = frozenset()
        self.watched = False
        self.roll = Roll(self.owner_id, self._terms)
        self._probed_at = float("-inf")
        self._numbers = itertools.count(1)
        self._unsure = False
        self._found: list[Call] = []
        self._unlisted: list[Call] = []
        self._ledger = ""
        self._newcomer = False

    def new_call(self, target: Target, timeout_s: float) -> Call:
        """A call that begins now; `timeout_s` in seconds, `inf` = for ever."""
        return Call(target, self.owner_id, next(self._numbers), self.clock.now(), timeout_s)

    # -- transactions ------------------------------------------------------------------------------------------------

    def _transact(
        self,
        change: Callable[[State, Transition], None],
        deadline: float | None,
        *,
        join: bool = True,
        yields: bool = False,
    ) -> None:
        """Run a change for this owner; without `join` only if the ledger knows it, else there is nothing to change."""
        watch = self.observer.stopwatch()

        def run(state: State) -> Transition:
            if watch:
                watch.locked()
            self.check_open()
            self._found = []
            out = Transition()
            if state.boot != host.boot_id():
                transitions.reboot(state, host.boot_id())
            transitions.advance(state, self.clock.now())
            joined = self.owner_id in state.owners
            if joined or join:
                unsure, self._unsure = self._unsure or not joined or state.ident != self._ledger, True
                self._ledger = state.ident
                if not joined:
                    self._join(state, out)
                if unsure:
                    self._reconcile(state, out)
                self._absorb(state, out)
                change(state, out)
                self._list()
            return out

        def commit(out: Transition, seq: int) -> None:
            self._unsure = False
            self._carry_out(out, seq)

        out = self.store.transact(run, commit, deadline, yields=yields)
        if watch:
            watch.ended()
        if out.events:
            self.observer.on_events(out.events)

    def _join(self, state: State, out: Transition) -> None:
        owner = Owner(self.pid, self.policy.user, host.command_line(), host.pid_namespace(), host.start_time(self.pid))
        self.mailroom.join(self.owner_id, Header(owner, self._terms), state.owners)
        state.owners[self.owner_id] = owner
        out.changed = True
        transitions.reap(state, self._gone(state), out)
        self._newcomer = True

    def _gone(self, state: State) -> list[str]:
        """Ids of the ledger's owners that no longer live, their mailboxes removed; remembers the others."""
        others = [(owner, state.owners[owner]) for owner in state.owners if owner != self.owner_id]
        gone = [owner for owner, who in others if not self.mailroom.is_alive(owner, who)]
        self.mailroom.forget(gone)
        self.owners = frozenset(state.owners).difference(gone)
        self._probed_at = self.clock.now()
        return gone

    def _carry_out(self, out: Transition, seq: int) -> None:
        """Tell everybody who got something, through their cells, under the lock."""
        if self._newcomer:
            self._newcomer = False
            for owner in self.owners:
                self.mailroom.nudge(owner)
        found, self._found = self._found, []
        for own in found:
            if not own.over:
                self.arrived(own)
                self.mailroom.deliver(self.owner_id, own.cell, own.loop, Word(b"", b"held", 0.0), seq)
        for grant in out.grants:
            lease = grant.lease
            call = self.roll.find(lease.number) if lease.owner == self.owner_id else None
            loop = lease.loop
            if call:
                self.arrived(call)
                loop = call.loop
            self.mailroom.deliver(lease.owner, lease.cell, loop, Word(b"", b"held", 0.0), seq)
        for due in out.dues:
            ticket = due.ticket
            self.mailroom.deliver(ticket.owner, ticket.cell, ticket.loop, Word(b"", b"wait", ticket.due), seq)

    def arrived(self, call: Call) -> None:
        """The call's slot is here. Idempotent."""
        self.roll.hold(call)
        if not call.granted:
            call.waited_s = max(0.0, self.clock.now() - call.at)
            call.granted = True

    def news(self, calls: Iterable[Call]) -> list[Call]:
        """Those of the calls for whose tasks there is news: a slot, or another time to wake up."""
        if self.closed:
            return list(calls)
        found: list[Call] = []
        for call in calls:
            word = self.mailroom.look(call.cell)
            if word.state == b"held":
                self.arrived(call)
            if call.granted or word.bell != call.bell:
                call.bell = word.bell
                found.append(call)
        return found

    def census(self) -> dict[str, tuple[int, int]]:
        """By bucket: how many calls hold a slot here, and how many wait. What was taken back as overdue is not held."""
        if not self._terms.max_hold_s:
            return self.roll.census()
        kept: set[int] | None = None
        with suppress(LedgerError):
            state = self.store.read()
            kept = {lease.number for name in state.buckets for lease in state.buckets[name].leases if self.roll.owns(lease)}
        return self.roll.census(kept)

    # -- a call's life -----------------------------------------------------------------------------------------------

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

    def _absorb(self, state: State, out: Transition) -> None:
        """Take in the calls that were announced, whichever thread made them: so the order is that of the calls."""
        for call in self.roll.announced():
            bucket = transitions.bucket_for(state, call.bucket, call.keys, state.clock)
            if bucket.keys != call.keys:  # two buckets that happen to have one name; `ask` tells the caller
                call.clash, call.over = bucket.keys, True
                continue
            if call.cell < 0:
                self._unlisted.append(call)
                call.cell = self.mailroom.take()
            self.roll.enter(call)
            self.roll.publish(state, call.bucket, out)

    def _list(self) -> None:
        """Write the calls that were taken in into the mailbox; what a call was granted at once is written by `ask`."""
        while self._unlisted:
            call = self._unlisted[-1]
            if call.cell >= 0 and not call.over:
                self.mailroom.write(call.cell, b"wait", call.text())
            self._unlisted.pop()

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

        self._transact(change, deadline)
        if late:
            self.arrived(call)
        else:
            self._drop(call)

    def cancel(self, call: Call, deadline: float | None) -> None:
        """Take the call out whatever has become of it; a slot that came meanwhile goes on to the next."""
        call.over = True
        self._transact(lambda state, out: self.roll.withdraw(state, call, "canceled", out), deadline, join=False)
        self._drop(call)

    def release(self, call: Call, deadline: float | None) -> None:
        """Give the call's slot back and hand it to the next. Idempotent."""

        def change(state: State, out: Transition) -> None:
            transitions.release(state, call.bucket, self.owner_id, call.number, out)
            self.roll.publish(state, call.bucket, out)

        self._transact(change, deadline, join=False)
        self._drop(call)

    def _drop(self, call: Call) -> None:
        """Forget a call that neither waits nor holds, and free its cell."""
        call.over = True
        self.roll.drop(call)
        cell, call.cell = call.cell, -1
        if cell >= 0:
            self.mailroom.free(cell)

    # -- repair ------------------------------------------------------------------------------------------------------

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

    def _reconcile(self, state: State, out: Transition) -> None:
        # Told in `_carry_out`: a lease may be of this very transaction, and not yet be written.
        self._found = self.roll.reconcile(state, out)
        for name in self.roll.waiting_buckets():
            self.roll.publish(state, name, out)

    def check_open(self) -> None:
        """Raise SchedulerError after `leave`: what still waits then has nothing to wait for."""
        if self.closed:
            rest_if_ending()
            raise SchedulerError("the scheduler was closed while this call waited")

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
