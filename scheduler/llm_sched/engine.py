"""One scheduler's machinery, put together: participant, watch, cleanup, doors; and what happens at fork and exit.

Nothing is opened or started before the first call. May not know what is public.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from llm_sched import ending, waiting
from llm_sched.cleanup import Cleanup, on_event_loop
from llm_sched.ending import rest_if_ending
from llm_sched.errors import SchedulerError
from llm_sched.hearing import UNHEARD, Hearing
from llm_sched.participant import Participant
from llm_sched.store import BusyError
from llm_sched.watch import Watch

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping

    from llm_sched.calls import Call
    from llm_sched.config import Policy, Target
    from llm_sched.host import Clock
    from llm_sched.loops import LoopDoor
    from llm_sched.mailroom import Mailroom
    from llm_sched.observer import Audience
    from llm_sched.store import Store

_LEAVE_PATIENCE_S = 1.0
_engines: set[Engine] = set()
"""Those in use: they must leave the ledger when the process ends."""


class Engine:
    """Acquires and releases for one policy.

    Args:
        policy: the knobs.
        store: the ledger.
        mailroom: how it is rung and rings.
        clock: the ledger's time.
        audience: hears what happens.
        after_fork: called in a forked child, to drop what belongs to the parent.
    """

    def __init__(
        self,
        policy: Policy,
        store: Store,
        mailroom: Mailroom,
        clock: Clock,
        audience: Audience,
        after_fork: Iterable[Callable[[], None]],
    ) -> None:
        self._new_participant = partial(Participant, policy, store, mailroom, clock, audience)
        self.limit = policy.max_in_flight
        self._audience = audience
        self._called: set[str] = set()
        self._clock = clock
        self.part = self._new_participant()
        self._watch = Watch(self.part)
        self._cleanup = Cleanup()
        self._doors: dict[asyncio.AbstractEventLoop, LoopDoor] = {}
        self._doors_lock = threading.Lock()
        self._closing = threading.RLock()
        self._drop_inherited = tuple(after_fork)
        self._used = False
        self._retired = False
        self._warned = False

    def _begin(self) -> None:
        rest_if_ending()
        while not self._used or self.part.pid != os.getpid():
            self._open()

    def _open(self) -> None:
        if self.part.pid != os.getpid():  # forked by something that runs no hooks, or by a signal handler in the lines below
            self.after_fork()
        _register_exit()
        with _opening:
            if not self._used:
                self.part.store.open()
                _engines.add(self)
                self._used = True

    def new_call(self, target: Target, timeout_s: float) -> Call:
        """A call that begins now."""
        self._begin()
        self._cleanup.catch_up()
        if self._audience.look(self):
            self._called.add(target.bucket)
        return self.part.new_call(target, timeout_s)

    def acquire(self, call: Call) -> None:
        """Acquire in a thread; see `Scheduler.acquire`."""
        with self._heard(call) as hearing:
            waiting.drive(self._steps(call, hearing), self.part)

    async def acquire_async(self, call: Call) -> None:
        """Acquire in a task; see `Scheduler.acquire_async`."""
        with _opening:
            from llm_sched import waiting_async  # noqa: PLC0415 - asyncio only where it is used

        call.door = self._door()
        try:
            with self._heard(call) as hearing:
                await waiting_async.drive_async(self._steps(call, hearing), self.part, call)
        finally:
            self._leave_door(call.door)

    def _heard(self, call: Call) -> Hearing:
        listener = self._audience.listener
        return Hearing(self._audience, listener, call, self._clock) if listener else UNHEARD

    def _steps(self, call: Call, hearing: Hearing) -> waiting.Steps:
        def on_wait() -> None:
            if call.door:
                self._watch.want()
            else:
                self._wait_in_thread(call.bucket)
            hearing.waits()

        return waiting.steps(self.part, call, once=call.deadline <= call.at, on_wait=on_wait, discard=self.discard)

    def _wait_in_thread(self, bucket: str) -> None:
        self._watch.want()
        # No error: it may well be another process that holds the slot, and in a notebook every cell has a loop around it.
        if on_event_loop() and not self._warned:
            self._warned = True
            import logging  # noqa: PLC0415 - rare, and slow to import

            logging.getLogger("llm_sched").warning(
                "waiting for a slot in bucket %s without `async`, on a thread that runs an event loop: until it comes, all "
                "tasks of that loop stand still, also one that holds the slot. In a coroutine use `async with` (acquire_async)",
                bucket,
            )

    def _door(self) -> LoopDoor:
        with _opening:
            import asyncio  # noqa: PLC0415 - asyncio only where it is used

            from llm_sched.loops import LoopDoor  # noqa: PLC0415 - likewise

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            message = (
                "acquire_async and `async with` need a running asyncio event loop; under trio run the blocking `acquire` "
                "in a thread (trio.to_thread.run_sync)"
            )
            raise SchedulerError(message) from None
        with self._doors_lock:
            door = self._doors.get(loop)
            if door is None:
                used = {other.number for other in self._doors.values()}
                number = next(number for number in range(1, len(used) + 2) if number not in used)
                door = self._doors[loop] = LoopDoor(loop, number, self._listen, self.part.news)
            door.users += 1
        return door

    def _listen(self, number: int) -> int:
        return self.part.mailroom.listen(number)

    def _leave_door(self, door: LoopDoor) -> None:
        with self._doors_lock:
            door.users -= 1
        # At the end of this turn: until then the door counts the turn's transactions.
        if door.loop.is_closed():
            self._close_door(door)
        else:
            door.loop.call_soon(self._close_door, door)

    def _close_door(self, door: LoopDoor) -> None:
        with self._doors_lock:
            if not door.users and self._doors.get(door.loop) is door:
                del self._doors[door.loop]
                door.close()

    def release(self, call: Call, error: str = "") -> None:
        """Give a slot back; never raises, never blocks an event loop. `error`: type of what went wrong meanwhile."""
        ended = self._clock.now()
        if call.owner == self.part.owner_id:  # else all has been given back by `close`
            self._cleanup.run(partial(self._release, call))
        self._tell_released(call, ended, error)

    def release_later(self, call: Call) -> None:
        """Give a slot back from a finalizer."""
        ended = self._clock.now()
        if call.owner == self.part.owner_id:
            self._cleanup.later(partial(self._release, call))
            # Not in this thread, which a finalizer may have interrupted anywhere.
            self._cleanup.later(lambda _deadline: self._tell_released(call, ended, ""))

    def _tell_released(self, call: Call, ended: float, error: str) -> None:
        listener = self._audience.listener
        if listener:
            self._audience.tell(listener.released, call, max(0.0, ended - call.at - call.waited_s), error)

    def census(self) -> Mapping[str, tuple[int, int]]:
        """See `llm_sched.observer.Census`."""
        counts = self.part.census() if self._used and self.part.pid == os.getpid() else {}
        return dict.fromkeys(list(self._called), (0, 0)) | counts

    def _release(self, call: Call, deadline: float | None) -> None:
        self.part.release(call, deadline)
        if self._retired:
            self._close_if_idle(deadline)

    def discard(self, call: Call) -> None:
        """Take an interrupted call out; never raises, never blocks an event loop."""
        if call.owner == self.part.owner_id and not call.over:
            self._cleanup.run(partial(self.part.cancel, call))

    def retire(self) -> None:
        """Close as soon as nothing is held: the scheduler is gone, its slots may not be. Safe in a finalizer."""
        self._retired = True
        if self._used and self.part.pid == os.getpid():
            self._cleanup.later(self._close_if_idle)

    def _close_if_idle(self, _deadline: float | None) -> None:
        if self.part.roll.is_idle():
            self.close()

    def close(self) -> None:
        """Give all back and leave the ledger; usable again afterwards. Never raises."""
        with self._closing:  # once, whoever calls; and who comes second, e.g. at exit, waits until it is done
            with _opening:
                if not self._used or self.part.pid != os.getpid():
                    return
                self._used = False
            self._watch.stop()
            with suppress(BusyError, SchedulerError, OSError):
                self.part.leave(time.monotonic() + _LEAVE_PATIENCE_S)
            self.part = self._new_participant()
            self._watch = Watch(self.part)
            with _opening:
                if not self._used:  # else another thread has begun again meanwhile
                    _engines.discard(self)

    def after_fork(self) -> None:
        """In a forked child: it holds none of its parent's slots and shares none of its descriptors."""
        self._watch.after_fork()
        self._cleanup.after_fork()
        for drop in self._drop_inherited:
            with suppress(OSError):  # the parent may have been closing just then; all the others must still be dropped
                drop()
        self._doors = {}
        self._doors_lock = threading.Lock()
        self._closing = threading.RLock()
        self._used = False
        self._called = set()
        self.part.start()


_opening = threading.RLock()
"""Held around first use and its imports, and around every fork: a child of a process that is just importing would wait
for ever for a thread it does not have. Reentrant: a signal handler may fork or take a slot in the middle of first use;
its thread goes on in the child, and owns the lock there as often as here."""

_hooked: list[int] = []


def _register_exit() -> None:
    with _opening:
        if not _hooked:
            atexit.register(_at_exit)
        if os.getpid() not in _hooked:
            _hooked.append(os.getpid())
            # Children of multiprocessing end without atexit.
            util = sys.modules.get("multiprocessing.util")
            if util is not None:
                util.Finalize(None, _at_exit, exitpriority=0)


def _resume() -> None:
    with suppress(RuntimeError):  # not this thread's: the fork began before these hooks were there
        _opening.release()


def _after_fork() -> None:
    _resume()
    engines = list(_engines)
    _engines.clear()
    ending.undo()
    for engine in engines:
        engine.after_fork()


def _at_exit() -> None:
    ending.begin()
    for engine in list(_engines):
        engine.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_opening.acquire, after_in_parent=_resume, after_in_child=_after_fork)
