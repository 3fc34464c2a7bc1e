"""Cancelled at any moment, a call leaves nothing: no slot, no ticket, no cell, no token."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from unit_support import until, until_async

if TYPE_CHECKING:
    from unit_support import Stage


def test_a_cancelled_waiter_leaves_the_queue(stage: Stage) -> None:
    """The next one gets the slot, and the cancellation is counted."""
    scheduler = stage.scheduler(max_in_flight=1)

    async def main() -> None:
        slot = await scheduler.acquire_async()
        tasks = [asyncio.create_task(scheduler.acquire_async()) for _ in range(2)]
        await until_async(lambda: stage.waiting() == 2)
        tasks[0].cancel()
        slot.release()
        (await tasks[1]).release()
        assert tasks[0].cancelled()

    asyncio.run(main())
    until(stage.is_empty)
    assert stage.bucket().totals.canceled == 1


def test_a_slot_granted_to_a_task_that_is_cancelled_before_it_runs_goes_on(stage: Stage) -> None:
    """The grant and the cancellation come in the same turn of the loop."""
    scheduler = stage.scheduler(max_in_flight=1)

    async def main() -> None:
        slot = await scheduler.acquire_async()
        task = asyncio.create_task(scheduler.acquire_async())
        await until_async(lambda: stage.waiting() == 1)
        slot.release()
        assert stage.bucket().totals.granted == 2
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(main())
    until(stage.is_empty)
    assert stage.bucket().totals.granted == 1


def test_a_call_that_runs_into_a_timeout_of_asyncio_leaves_nothing(stage: Stage) -> None:
    """As with `asyncio.timeout` around a call."""
    scheduler = stage.scheduler(max_in_flight=1)
    slot = scheduler.acquire()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), scheduler.slot():
                raise AssertionError

    asyncio.run(main())
    slot.release()
    until(stage.is_empty)


def test_a_token_that_a_cancelled_call_was_granted_is_there_for_the_next(stage: Stage) -> None:
    """It has spent nothing."""
    scheduler = stage.scheduler(max_in_flight=1, requests_per_minute=2, burst=2)

    async def main() -> None:
        slot = await scheduler.acquire_async()
        task = asyncio.create_task(scheduler.acquire_async())
        await until_async(lambda: stage.waiting() == 1)
        slot.release()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await until_async(lambda: stage.held() == 0)
        (await scheduler.acquire_async(timeout_s=0)).release()

    asyncio.run(main())
