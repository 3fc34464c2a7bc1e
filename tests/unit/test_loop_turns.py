"""A loop is never blocked for longer than a transaction, however many calls begin or end at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from unit_support import until_async

from llm_sched import waiting_async
from llm_sched.store import BusyError
from llm_sched.waiting import Run

if TYPE_CHECKING:
    from unit_support import Stage

CALLS = 500


class Heartbeat:
    """Counts the ledger's transactions between one turn of the loop and the next.

    Attributes:
        most: the largest number in one turn.
        turns: how many turns there were.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.most = self.turns = 0

    async def beat(self) -> None:
        """Beat until cancelled."""
        seen = self._stage.store.transactions
        while True:
            await asyncio.sleep(0)
            now = self._stage.store.transactions
            self.most, self.turns, seen = max(self.most, now - seen), self.turns + 1, now


def test_a_heartbeat_beside_500_calls_that_begin_to_wait_sees_one_transaction_a_turn(stage: Stage) -> None:
    """Everybody else gets their turn in between."""
    scheduler = stage.scheduler(max_in_flight=1)

    async def main() -> Heartbeat:
        first = await scheduler.acquire_async()
        heart = Heartbeat(stage)
        beating = asyncio.create_task(heart.beat())
        tasks = [asyncio.create_task(scheduler.acquire_async()) for _ in range(CALLS)]
        await until_async(lambda: stage.waiting() == CALLS)
        beating.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        first.release()
        return heart

    heart = asyncio.run(main())
    assert (heart.most, heart.turns >= CALLS) == (1, True)


def test_a_heartbeat_beside_500_calls_that_come_and_go_sees_few_transactions_a_turn(stage: Stage) -> None:
    """One that begins a call, and one for each call that ends; with a cap of 1 that is one as well."""
    scheduler = stage.scheduler(max_in_flight=1)

    async def call() -> None:
        async with scheduler.slot():
            await asyncio.sleep(0)

    async def main() -> Heartbeat:
        heart = Heartbeat(stage)
        beating = asyncio.create_task(heart.beat())
        await asyncio.gather(*(call() for _ in range(CALLS)))
        beating.cancel()
        return heart

    heart = asyncio.run(main())
    assert heart.most <= 3
    assert heart.turns >= CALLS


def test_a_task_whose_call_was_granted_by_another_threads_transaction_leaves_the_lock_alone(stage: Stage) -> None:
    """It has its slot; fighting on for the lock would only delay it."""

    async def main() -> bool:
        scheduler = stage.scheduler()
        call = scheduler._engine.new_call(scheduler._target(None, None), 5.0)  # noqa: SLF001
        call.door = scheduler._engine._door()  # noqa: SLF001

        def busy(_deadline: float | None) -> None:
            call.granted = True
            raise BusyError

        await waiting_async._run_async(Run(busy, float("inf")), scheduler._engine.part, call)  # noqa: SLF001
        return call.granted

    assert asyncio.run(main())
