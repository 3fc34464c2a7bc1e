"""Cancelled at random moments, calls leave nothing, and those that are not cancelled get through."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import TYPE_CHECKING

import pytest
from unit_support import PATIENCE_S, until

if TYPE_CHECKING:
    from unit_support import Stage

    from llm_sched import Scheduler

STORM = 1000


async def call(scheduler: Scheduler, pauses: int) -> None:
    """One call that lasts a few turns of the loop."""
    async with scheduler.slot():
        for _ in range(pauses):
            await asyncio.sleep(0)


async def storm(scheduler: Scheduler, chance: random.Random, count: int) -> int:
    """Start calls and cancel most, after a random number of turns; the others must get through. Returns the cancelled."""
    tasks: list[asyncio.Task[None]] = []
    for _ in range(count):
        tasks.append(asyncio.create_task(call(scheduler, chance.randrange(10))))
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        if chance.random() < 0.7:
            chance.choice(tasks[-20:]).cancel()
    for task in chance.sample(tasks, len(tasks) * 3 // 4):
        task.cancel()
        if chance.random() < 0.2:
            await asyncio.sleep(0)
    _, pending = await asyncio.wait(tasks, timeout=PATIENCE_S)
    assert not pending, "calls hang"
    return sum(task.cancelled() for task in tasks)


@pytest.mark.parametrize("cap", [1, 5])
def test_a_thousand_cancellations_at_random_points_leave_nothing(stage: Stage, cap: int) -> None:
    """Whatever the call was doing: asking, waiting, being granted, holding, releasing."""
    scheduler = stage.scheduler(max_in_flight=cap)
    cancelled, chance = 0, random.Random(cap)
    while cancelled < STORM:
        cancelled += asyncio.run(storm(scheduler, chance, 300))
    until(stage.is_empty)
    slots = [scheduler.acquire(timeout_s=0) for _ in range(cap)]
    assert stage.held() == cap
    for slot in slots:
        slot.release()


def test_a_storm_in_several_loops_leaves_nothing(stage: Stage) -> None:
    """The lock is contended, so releases and withdrawals go to the helper."""
    schedulers = [stage.scheduler(max_in_flight=3) for _ in range(2)]
    done: list[int] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        done.append(asyncio.run(storm(schedulers[seed % 2], chance, 150)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE_S)
    assert len(done) == 4
    until(stage.is_empty)
