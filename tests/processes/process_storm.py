"""Children that take and give back slots as fast as they can, in threads and tasks, until told to stop."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from pathlib import Path
from typing import Any

from process_child import hear, say
from process_witness import Witness

from llm_sched import Policy, Scheduler, SlotTimeout


class Storm:
    """What one child does.

    Args:
        scheduler: where the slots come from.
        witness: path of the witness.
        row: this child's row there.
        hold_s: longest time to hold a slot.
        impatient: part of the calls that give up after a few milliseconds.
    """

    def __init__(self, scheduler: Scheduler, witness: str, row: int, hold_s: float, impatient: float) -> None:
        self._scheduler = scheduler
        self._witness = witness
        self._row = row
        self._hold_s = hold_s
        self._impatient = impatient
        self.stopping = threading.Event()

    def _timeout(self) -> float:
        return random.uniform(0.0, 0.05) if random.random() < self._impatient else 60.0

    def _hold(self) -> float:
        return random.uniform(0.0, self._hold_s)

    def thread(self, rounds: int) -> None:
        """Work in a thread."""
        witness = Witness(self._witness, self._row)
        while rounds and not self.stopping.is_set():
            timeout = self._timeout()
            try:
                with self._scheduler.slot(provider="p", model="m", timeout_s=timeout):
                    witness.enter()
                    time.sleep(self._hold())
                    witness.leave()
                rounds -= 1
            except SlotTimeout:
                if timeout > 1:
                    raise

    async def _task(self, rounds: int) -> None:
        witness = Witness(self._witness, self._row)
        while rounds and not self.stopping.is_set():
            timeout = self._timeout()
            try:
                async with self._scheduler.slot(provider="p", model="m", timeout_s=timeout):
                    witness.enter()
                    await asyncio.sleep(self._hold())
                    witness.leave()
                rounds -= 1
            except SlotTimeout:
                if timeout > 1:
                    raise

    async def _tasks(self, tasks: int, rounds: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(tasks):
                group.create_task(self._task(rounds))

    def loop(self, tasks: int, rounds: int) -> None:
        """Work in the tasks of one loop."""
        asyncio.run(self._tasks(tasks, rounds))


def _listen(storm: Storm) -> None:
    hear()
    storm.stopping.set()


def work(
    state: str,
    witness: str,
    row: int,
    *,
    threads: int = 0,
    tasks: int = 0,
    rounds: int = -1,
    hold_s: float = 0.004,
    impatient: float = 0.0,
    portable: bool = False,
    **policy: Any,
) -> None:
    """Take slots in so many threads and tasks, `rounds` each (-1 = until told to stop)."""
    if portable:
        be_portable()
    random.seed(row)
    storm = Storm(Scheduler(Policy(state_path=Path(state), **policy)), witness, row, hold_s, impatient)
    threading.Thread(target=_listen, args=(storm,), daemon=True).start()
    workers = [threading.Thread(target=storm.thread, args=(rounds,)) for _ in range(threads)]
    if tasks:
        workers.append(threading.Thread(target=storm.loop, args=(tasks, rounds)))
    for worker in workers:
        worker.start()
    say(name="working")
    for worker in workers:
        worker.join()
    say(name="done")


def be_portable() -> None:
    """Act as on a system without futex and FIFO."""
    from llm_sched import wakeup  # noqa: PLC0415 - patched before anything uses it

    wakeup.thread_bell = wakeup.PollingBell
    wakeup.has_fifos = lambda: False
