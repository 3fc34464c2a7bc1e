"""One process's calls: each asks for a slot, holds it for a moment, and notes what happens."""

# Law: never notes what it does not know; see `account` for what a note is worth. May not know who decides that it ends.

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from llm_sched.errors import SlotTimeout
from llm_sched.scheduler import Scheduler
from llm_sched.verify.journal import NO_CALL, Journal
from llm_sched.verify.plan import PROVIDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from random import Random

    from llm_sched.model import Event
    from llm_sched.scheduler import Slot
    from llm_sched.verify.plan import BucketPlan

_HASTY, _TRIES_ONCE, _CANCELED = 0.15, 0.03, 0.15
"""Shares of the calls that wait for less than usual, that don't wait, and (tasks only) that are cancelled."""

_HASTE_S = 0.06

_asking: ContextVar[int] = ContextVar("llm_sched_verify_asking", default=NO_CALL)


class _Errand(NamedTuple):
    timeout_s: float
    hold_s: float


class Caller:
    """Calls the buckets of a process, each through a scheduler of its own, as programs with different policies do."""

    def __init__(self, buckets: Iterable[BucketPlan], state: Path, journal: Journal) -> None:
        self.journal = journal
        self._schedulers = {bucket: Scheduler(bucket.policy(state), observer=self) for bucket in buckets}

    def on_events(self, events: Sequence[Event]) -> None:
        """Of the scheduler: a transaction that this very call asked for has put it into the queue."""
        call = _asking.get()
        if call != NO_CALL and any(event.kind == "queued" for event in events):
            self.journal.note("queued", call)

    def call(self, bucket: BucketPlan, random: Random, meanwhile: Callable[[Slot], None] | None = None) -> None:
        """Make one call in this thread; `meanwhile` is called with the slot while it is held."""
        errand = _errand(bucket, random)
        number = self.journal.begin(bucket.name, errand.timeout_s)
        asking = _asking.set(number)
        try:
            with self._schedulers[bucket].slot(provider=PROVIDER, model=bucket.model, timeout_s=errand.timeout_s) as slot:
                self.journal.note("granted", number)
                try:
                    _asking.set(NO_CALL)
                    if meanwhile:
                        meanwhile(slot)
                    time.sleep(errand.hold_s)
                finally:
                    self.journal.note("ended", number)
        except SlotTimeout:
            self.journal.note("timed_out", number)
        finally:
            _asking.reset(asking)

    async def call_async(self, bucket: BucketPlan, random: Random) -> None:
        """Make one call in this task, which may be cancelled at any moment of it."""
        errand = _errand(bucket, random)
        number = self.journal.begin(bucket.name, errand.timeout_s)
        asking = _asking.set(number)
        cancel = self._cancel_later(number, random)
        try:
            async with self._schedulers[bucket].slot(provider=PROVIDER, model=bucket.model, timeout_s=errand.timeout_s):
                self.journal.note("granted", number)
                try:
                    await asyncio.sleep(errand.hold_s)
                finally:
                    self.journal.note("ended", number)
        except SlotTimeout:
            self.journal.note("timed_out", number)
        except asyncio.CancelledError:
            self.journal.note("left", number)
            _this_task().uncancel()
        finally:
            _asking.reset(asking)
            if cancel:
                cancel.cancel()

    def _cancel_later(self, number: int, random: Random) -> asyncio.TimerHandle | None:
        if random.random() >= _CANCELED:
            return None
        task = _this_task()

        def cancel() -> None:
            self.journal.note("canceling", number)
            task.cancel()

        return asyncio.get_running_loop().call_later(random.uniform(0, _HASTE_S), cancel)

    def close(self) -> None:
        """Leave the ledger."""
        for scheduler in self._schedulers.values():
            scheduler.close()


def _this_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    if task is None:
        raise AssertionError
    return task


def _errand(bucket: BucketPlan, random: Random) -> _Errand:
    kind = random.random()
    if kind < _TRIES_ONCE:
        timeout_s = 0.0
    elif kind < _TRIES_ONCE + _HASTY:
        timeout_s = random.uniform(0.001, _HASTE_S)
    else:
        timeout_s = random.uniform(*bucket.wait_s)
    return _Errand(timeout_s, random.uniform(*bucket.hold_s))
