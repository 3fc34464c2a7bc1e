"""A stage: schedulers on one ledger in memory, and how to wait for what must happen."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from llm_sched import Policy, Scheduler, SchedulerError
from llm_sched.model import Transition
from llm_sched.testing import JumpClock, MemoryMailroom, MemoryStore, RecordingObserver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from llm_sched.model import Bucket
    from llm_sched.observer import Observer

PATIENCE_S = 30.0
"""How long to wait for what must happen; reached only by a test that fails."""

BUCKET = "default/default"


def until(condition: Callable[[], object]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it has not happened"
        time.sleep(0.0005)


async def until_async(condition: Callable[[], object]) -> None:
    """Wait until something holds, while the loop goes on."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it has not happened"
        await asyncio.sleep(0.0005)


class CountingStore(MemoryStore):
    """A ledger in memory that counts the transactions.

    Attributes:
        transactions: how many were run.
    """

    def __init__(self) -> None:
        super().__init__()
        self.transactions = 0

    def transact(self, *arguments: Any, **options: Any) -> Any:
        """See `Store`."""
        self.transactions += 1
        return super().transact(*arguments, **options)


class Stage:
    """One ledger in memory and the schedulers on it.

    Attributes:
        clock: stands still until it is moved.
        store: the ledger.
        observer: hears what the schedulers' transactions did, unless they got one of their own.
    """

    def __init__(self) -> None:
        self.clock = JumpClock()
        self.store = CountingStore()
        self.observer = RecordingObserver()
        self._room = MemoryMailroom(self.clock)
        self._rooms_of: dict[int, MemoryMailroom] = {}
        self._schedulers: list[Scheduler] = []

    def scheduler(self, observer: Observer | None = None, **knobs: Any) -> Scheduler:
        """Another scheduler on the ledger, like another process."""
        room = self._room.neighbour()
        scheduler = Scheduler(
            Policy(**knobs), observer=observer or self.observer, store=self.store, mailroom=room, clock=self.clock
        )
        self._rooms_of[id(scheduler)] = room
        self._schedulers.append(scheduler)
        return scheduler

    def kill(self, scheduler: Scheduler) -> None:
        """As if a scheduler's process had died."""
        self._rooms_of[id(scheduler)].kill()

    def forget(self, scheduler: Scheduler) -> None:
        """Keep no reference to a scheduler."""
        self._schedulers.remove(scheduler)

    def bucket(self, name: str = BUCKET) -> Bucket:
        """The bucket as it is now."""
        return self.store.read().buckets[name]

    def held(self, name: str = BUCKET) -> int:
        """How many slots are held."""
        buckets = self.store.read().buckets
        return len(buckets[name].leases) if name in buckets else 0

    def waiting(self, name: str = BUCKET) -> int:
        """How many calls wait, published or not."""
        buckets = self.store.read().buckets
        if name not in buckets:
            return 0
        return sum(member.waiting + member.backlog for member in buckets[name].members.values())

    def until_waiting(self, count: int) -> None:
        """Wait until so many calls wait."""
        until(lambda: self.waiting() == count)

    def is_empty(self) -> bool:
        """Nobody holds, waits, or has a cell."""
        state = self.store.read()
        calls = any(self.held(name) or self.waiting(name) for name in state.buckets)
        return not calls and not any(room.in_use() for room in self._rooms_of.values())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Somebody else has the ledger's lock meanwhile."""
        inside, leave = threading.Event(), threading.Event()

        def stay(_: object) -> Transition:
            inside.set()
            assert leave.wait(PATIENCE_S)
            return Transition()

        holder = threading.Thread(target=self.store.transact, args=(stay, lambda *_: None, float("inf")))
        holder.start()
        try:
            assert inside.wait(PATIENCE_S)
            yield
        finally:
            leave.set()
            holder.join()

    def close(self) -> None:
        """Close all schedulers."""
        for scheduler in self._schedulers:
            scheduler.close()


class Caller(threading.Thread):
    """A thread that takes a slot.

    Attributes:
        result: the slot, or the error.
    """

    def __init__(self, scheduler: Scheduler, timeout_s: float | None = None) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._timeout_s = timeout_s
        self.result: Any = None
        self.start()

    def run(self) -> None:
        """Take it."""
        try:
            self.result = self._scheduler.acquire(timeout_s=self._timeout_s)
        except SchedulerError as error:
            self.result = error

    def ended(self) -> Any:
        """What came of it, as soon as it has ended."""
        self.join(PATIENCE_S)
        assert not self.is_alive(), "the call has not ended"
        return self.result
