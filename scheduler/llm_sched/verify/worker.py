"""The main function of a worker process: its lanes, as threads, as tasks, or in the main thread under SIGINT."""

# Law: makes calls until its time is over, then says whether the ledger still lists anything of it, and leaves.

from __future__ import annotations

import asyncio
import os
import queue
import signal
import threading
import time
import warnings
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from llm_sched.demo.lifeline import exit_with_parent
from llm_sched.snapshot import read_snapshot
from llm_sched.verify.caller import Caller
from llm_sched.verify.forking import Forking
from llm_sched.verify.journal import SUFFIX, Journal

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from types import FrameType

    from llm_sched.verify.plan import Task

READY = "ready"
CLEAN_WITHIN_S = 5.0
"""How long after its last call the ledger may still list something of a living process."""


def main(connection: Connection[Any, Any], task: Task) -> None:
    """Say `READY`, wait to be told until when (seconds of CLOCK_MONOTONIC), and work."""
    # Forking beside threads is what is to be proven harmless; Python 3.12 and newer warn of it.
    warnings.simplefilter("ignore", DeprecationWarning)
    told: queue.SimpleQueue[object] = queue.SimpleQueue()
    exit_with_parent(connection, told.put)
    journal = Journal(task.journals / f"{task.name}{SUFFIX}")
    caller = Caller(task.buckets, task.state, journal)
    connection.send(READY)
    until = told.get()
    if not isinstance(until, float):
        raise TypeError(until)
    worker = _Worker(task, caller, until, Forking(caller, connection) if task.forks else None)
    worker.run()
    _note_what_is_left(journal, task.state)
    caller.close()


class _Worker:
    """Runs the lanes."""

    def __init__(self, task: Task, caller: Caller, until: float, forking: Forking | None) -> None:
        self._task = task
        self._caller = caller
        self._until = until
        self._forking = forking
        self._may_interrupt = False

    def run(self) -> None:
        """Make calls until the time is over."""
        if self._task.kind == "threads":
            self._in_threads(self._lane, range(self._task.lanes))
        elif self._task.kind == "tasks":
            # Two loops, each with half of the lanes.
            lanes = range(self._task.lanes)
            self._in_threads(lambda part: asyncio.run(self._loop(lanes[part::2])), range(2))
        else:
            self._interrupted()

    def _in_threads(self, work: Callable[[int], None], numbers: range) -> None:
        def guarded(number: int) -> None:
            try:
                work(number)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not happen
                self._note_failure(error)

        threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _note_failure(self, error: BaseException) -> None:
        self._caller.journal.note("failed", text=f"{self._task.kind}: {type(error).__name__}: {error}")

    def _over(self) -> bool:
        return time.monotonic() >= self._until

    def _random(self, lane: int) -> Random:
        return Random(f"{self._task.seed}/{lane}")  # noqa: S311 - no secrets

    def _lane(self, lane: int) -> None:
        random, bucket = self._random(lane), self._task.buckets[lane % len(self._task.buckets)]
        while not self._over():
            if self._forking:
                self._forking.call(bucket, random)
            else:
                self._caller.call(bucket, random)

    async def _loop(self, lanes: range) -> None:
        results = await asyncio.gather(*map(self._lane_async, lanes), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                self._note_failure(result)

    async def _lane_async(self, lane: int) -> None:
        random, bucket = self._random(lane), self._task.buckets[lane % len(self._task.buckets)]
        while not self._over():
            await self._caller.call_async(bucket, random)
            await asyncio.sleep(0)  # a call that tried once may not have given the loop a turn

    # -- SIGINT ------------------------------------------------------------------------------------------------------

    def _interrupted(self) -> None:
        before = signal.signal(signal.SIGINT, self._on_interrupt)
        try:
            random, buckets = self._random(0), self._task.buckets
            while not self._over():
                self._call_interruptibly(lambda: self._caller.call(random.choice(buckets), random))
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not happen
            self._note_failure(error)
        finally:
            signal.signal(signal.SIGINT, before)

    def _call_interruptibly(self, call: Callable[[], None]) -> None:
        try:
            self._may_interrupt = True
            call()
            self._may_interrupt = False
        except KeyboardInterrupt:
            self._caller.journal.note("left", self._caller.journal.latest)

    def _on_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._may_interrupt:
            self._may_interrupt = False
            self._caller.journal.note("interrupted", self._caller.journal.latest)
            raise KeyboardInterrupt


def _note_what_is_left(journal: Journal, state: Path) -> None:
    """Whether the ledger lists anything of this process, though all its calls are over."""
    deadline = time.monotonic() + CLEAN_WITHIN_S
    while True:
        own = [owner for owner in read_snapshot(state).owners if owner.pid == os.getpid()]
        held, waiting = sum(owner.in_flight for owner in own), sum(owner.waiting for owner in own)
        if not held and not waiting:
            journal.note("clean")
            return
        if time.monotonic() >= deadline:
            journal.note("unclean", text=f"{held} slots held and {waiting} tickets after the last call")
            return
        time.sleep(0.02)
