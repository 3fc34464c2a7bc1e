"""Slots in tasks: one loop, several loops, one loop after the other, and no loop at all."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
import trio
from unit_support import BUCKET, PATIENCE_S, Caller, until, until_async

from llm_sched import SchedulerError

if TYPE_CHECKING:
    from unit_support import Stage

    from llm_sched import Scheduler


async def calls(scheduler: Scheduler, count: int) -> None:
    """Many calls at the same time, in this loop."""

    async def call() -> None:
        async with scheduler.slot():
            await asyncio.sleep(0)

    await asyncio.gather(*(call() for _ in range(count)))


def test_tasks_get_their_slots_in_the_order_of_their_calls(stage: Stage) -> None:
    """Also beyond the window that a process publishes."""
    scheduler = stage.scheduler(max_in_flight=1)
    order: list[int] = []

    async def call(number: int) -> None:
        async with scheduler.slot():
            order.append(number)

    async def main() -> None:
        slot = await scheduler.acquire_async()
        tasks = []
        for number in range(30):
            tasks.append(asyncio.create_task(call(number)))
            await until_async(lambda: stage.waiting() == len(tasks))
            stage.clock.advance(0.001)
        slot.release()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert order == list(range(30))
    until(stage.is_empty)


def test_a_task_gets_the_slot_that_a_thread_releases_and_the_other_way_round(stage: Stage) -> None:
    """One queue for both."""
    scheduler = stage.scheduler(max_in_flight=1)

    async def main() -> None:
        caller = Caller(scheduler)
        first = await asyncio.to_thread(caller.ended)
        task = asyncio.create_task(scheduler.acquire_async())
        await until_async(lambda: stage.waiting() == 1)
        first.release()
        second = await task
        caller = Caller(scheduler)
        await until_async(lambda: stage.waiting() == 1)
        second.release()
        (await asyncio.to_thread(caller.ended)).release()

    asyncio.run(main())
    until(stage.is_empty)
    assert stage.bucket().totals.granted == 3


def test_no_thread_is_blocked_per_waiting_task(stage: Stage) -> None:
    """A hundred waiters need the watch and nothing else."""
    scheduler = stage.scheduler(max_in_flight=1)

    async def main() -> set[str]:
        slot = await scheduler.acquire_async()
        before = set(threading.enumerate())
        tasks = [asyncio.create_task(scheduler.acquire_async()) for _ in range(100)]
        await until_async(lambda: stage.waiting() == 100)
        fresh = {thread.name for thread in set(threading.enumerate()) - before}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        slot.release()
        return fresh

    assert asyncio.run(main()) <= {"llm-sched-watch"}


def test_one_scheduler_serves_one_loop_after_another(stage: Stage) -> None:
    """`asyncio.run` is called again and again."""
    scheduler = stage.scheduler(max_in_flight=2)
    for _ in range(5):
        asyncio.run(calls(scheduler, 20))
    until(stage.is_empty)
    assert stage.bucket().totals.granted == 100


def test_one_scheduler_serves_several_loops_at_once(stage: Stage) -> None:
    """Each in its thread, besides plain threads."""
    scheduler = stage.scheduler(max_in_flight=2)
    loops = [threading.Thread(target=lambda: asyncio.run(calls(scheduler, 25))) for _ in range(4)]
    callers = [Caller(scheduler) for _ in range(2)]
    for thread in loops:
        thread.start()
    for caller in callers:
        caller.ended().release()
    for thread in loops:
        thread.join(PATIENCE_S)
    until(stage.is_empty)
    assert stage.bucket().totals.granted == 102


def test_a_slot_taken_in_one_loop_can_be_released_in_another(stage: Stage) -> None:
    """Or by no loop at all."""
    scheduler = stage.scheduler(max_in_flight=1)
    slot = asyncio.run(scheduler.acquire_async())

    async def release() -> None:
        slot.release()

    asyncio.run(release())
    asyncio.run(scheduler.acquire_async(timeout_s=0)).release()
    until(stage.is_empty)


def test_a_loop_that_ends_while_tasks_wait_leaves_nothing(stage: Stage) -> None:
    """`asyncio.run` cancels them."""
    scheduler = stage.scheduler(max_in_flight=1)
    waiting: list[asyncio.Task[object]] = []

    async def main() -> None:
        slot = await scheduler.acquire_async()
        waiting.extend(asyncio.create_task(scheduler.acquire_async()) for _ in range(20))
        await until_async(lambda: stage.waiting() == 20)
        slot.release()

    asyncio.run(main())
    assert sum(not task.cancelled() for task in waiting) <= 1
    waiting.clear()
    until(stage.is_empty)


def test_a_release_on_a_loop_does_not_wait_for_the_lock(stage: Stage) -> None:
    """A helper does it as soon as the lock is free."""
    scheduler = stage.scheduler(max_in_flight=1)

    async def main() -> None:
        slot = await scheduler.acquire_async()
        with stage.locked():
            slot.release()
            assert (slot.released, stage.held()) == (True, 1)
        await until_async(lambda: stage.held() == 0)

    asyncio.run(main())


def test_a_task_waits_for_the_lock_without_blocking_its_loop(stage: Stage) -> None:
    """Others go on meanwhile."""
    scheduler = stage.scheduler(max_in_flight=1)

    async def main() -> None:
        with stage.locked():
            task = asyncio.create_task(scheduler.acquire_async())
            tried = stage.store.transactions
            await until_async(lambda: stage.store.transactions > tried + 2)
            assert not task.done()
        (await task).release()

    asyncio.run(main())


def test_under_trio_there_is_a_clear_error(stage: Stage) -> None:
    """It says what to do instead, and leaves nothing."""
    scheduler = stage.scheduler(max_in_flight=1)

    async def enter() -> None:
        async with scheduler.slot():
            pass

    for attempt in (scheduler.acquire_async, enter):
        with pytest.raises(SchedulerError, match=r"running asyncio event loop.*trio\.to_thread"):
            trio.run(attempt)
    until(stage.is_empty)


def test_under_trio_the_blocking_call_works_in_a_thread(stage: Stage) -> None:
    """As the error says."""
    scheduler = stage.scheduler(max_in_flight=1)

    async def main() -> None:
        (await trio.to_thread.run_sync(scheduler.acquire)).release()

    trio.run(main)
    until(stage.is_empty)
    assert stage.bucket().totals.granted == 1


def test_without_any_loop_there_is_a_clear_error(stage: Stage) -> None:
    """Somebody drives the coroutine by hand."""
    coroutine = stage.scheduler().acquire_async()
    with pytest.raises(SchedulerError, match="running asyncio event loop"):
        coroutine.send(None)


def wait_in_thread(stage: Stage, scheduler: Scheduler) -> None:
    """Wait without `async`, until somebody else's slot comes."""
    # In a thread of its own: what the loop gave back last may still be on its way, and that wait is not meant.
    slot = Caller(stage.scheduler(max_in_flight=1)).ended()

    def release() -> None:
        stage.until_waiting(1)
        slot.release()

    other = threading.Thread(target=release)
    other.start()
    with scheduler.slot():
        other.join(PATIENCE_S)


def test_waiting_without_async_on_a_loops_thread_is_warned_about_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """It works, as it must in a notebook; but the loop stands still, and it may be one of its tasks that holds the slot."""
    scheduler = stage.scheduler(max_in_flight=1)

    async def main() -> None:
        with scheduler.slot():
            pass
        assert not caplog.records
        for _ in range(2):
            wait_in_thread(stage, scheduler)

    wait_in_thread(stage, scheduler)
    asyncio.run(main())
    (record,) = caplog.records
    assert (record.levelname, BUCKET in record.getMessage(), "`async with`" in record.getMessage()) == ("WARNING", True, True)
