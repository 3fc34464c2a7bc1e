"""One owner's membership in a ledger: how it joins, and how a transaction of its runs.

The law: a call is granted only after the write that says so; whoever got something is told under the lock, through his cell.
The rules decide, the roll knows the calls; this file carries answers from the one to the others. May not know what a
transaction is for, nor how a call sleeps.
"""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from llm_sched import host
from llm_sched.calls import Call
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


class Membership:
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
            if call.cell >= 0 and not call.over and not call.cleared:
                self.mailroom.write(call.cell, b"wait", call.text())
            self._unlisted.pop()

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
