"""Layers of one call share one slot; calls at the same time do not."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import threading
from typing import TYPE_CHECKING

import pytest
from unit_support import BUCKET, PATIENCE_S

from llm_sched import Policy, Scheduler, SlotTimeout
from llm_sched.inheritance import InheritedLoan

if TYPE_CHECKING:
    from pathlib import Path

    from unit_support import Stage

    from llm_sched import Slot
    from llm_sched.scheduler import SlotRequest


def enter_aside(request: SlotRequest) -> Slot:
    """Enter a layer that the next layers here do not see."""
    return contextvars.copy_context().run(request.__enter__)


def test_a_nested_layer_of_the_same_bucket_shares_the_slot(stage: Stage) -> None:
    """With a cap of 1 it does not wait for itself."""
    scheduler = stage.scheduler(max_in_flight=1)
    with scheduler.slot(), scheduler.slot(timeout_s=0) as inner, scheduler.slot(timeout_s=0):
        assert (stage.held(), inner.bucket, inner.waited_s) == (1, BUCKET, 0.0)
    assert stage.held() == 0


def test_a_nested_layer_in_a_task_shares_the_slot(stage: Stage) -> None:
    """`async with` inside `async with`, and `with` inside."""
    scheduler = stage.scheduler(max_in_flight=1)

    async def call() -> int:
        async with scheduler.slot(), scheduler.slot(timeout_s=0):
            with scheduler.slot(timeout_s=0):
                return stage.held()

    assert (asyncio.run(call()), stage.held()) == (1, 0)


def test_the_inner_layer_gives_back_only_its_loan(stage: Stage) -> None:
    """The slot ends with the outer layer, and can be borrowed again meanwhile."""
    scheduler = stage.scheduler(max_in_flight=1)
    with scheduler.slot():
        for _ in range(3):
            with scheduler.slot(timeout_s=0):
                pass
            assert stage.held() == 1


def test_a_second_call_at_the_same_time_takes_a_slot_of_its_own(stage: Stage) -> None:
    """Two layers side by side, as two open streams are, cannot both borrow."""
    scheduler = stage.scheduler(max_in_flight=2)
    with scheduler.slot():
        first, second = enter_aside(scheduler.slot()), enter_aside(scheduler.slot())
        assert stage.held() == 2
        second.release()
        first.release()
        assert stage.held() == 1


def test_a_second_call_at_the_same_time_waits_at_the_cap(stage: Stage) -> None:
    """It cannot hide behind the first; when that has ended, it could have borrowed."""
    scheduler = stage.scheduler(max_in_flight=1)
    with scheduler.slot():
        first = enter_aside(scheduler.slot())
        with pytest.raises(SlotTimeout):
            enter_aside(scheduler.slot(timeout_s=0))
        first.release()
        enter_aside(scheduler.slot(timeout_s=0)).release()


def test_another_bucket_is_another_slot(stage: Stage) -> None:
    """Only the same bucket is shared."""
    scheduler = stage.scheduler(max_in_flight=1)
    with scheduler.slot(model="a"), scheduler.slot(model="b"), scheduler.slot(model="a", timeout_s=0):
        assert (stage.held("default/a"), stage.held("default/b")) == (1, 1)


def test_another_scheduler_of_the_same_ledger_shares_the_slot(stage: Stage) -> None:
    """A library that has its own makes no second call of it; its policy comes with its own calls."""
    one, other = stage.scheduler(max_in_flight=1), stage.scheduler(max_in_flight=1, user="library")
    with one.slot() as slot:
        with other.slot(timeout_s=0), one.slot(timeout_s=0):
            assert stage.held() == 1
        assert (stage.held(), slot.released) == (1, False)
    assert (stage.held(), stage.bucket().totals.granted) == (0, 1)


def test_another_ledger_is_another_slot(stage: Stage, tmp_path: Path) -> None:
    """The same bucket of another file is another bucket."""
    schedulers = [Scheduler(Policy(max_in_flight=1, state_path=tmp_path / name)) for name in ("a.json", "a.json", "b.json")]
    with schedulers[0].slot() as first, schedulers[1].slot() as layer, schedulers[2].slot() as other:
        assert ["borrowed" in repr(slot) for slot in (first, layer, other)] == [False, True, False]
    with stage.scheduler().slot() as slot:
        assert "held" in repr(slot)
    for scheduler in schedulers:
        scheduler.close()


def test_acquire_never_borrows(stage: Stage) -> None:
    """It promises a slot of its own."""
    scheduler = stage.scheduler(max_in_flight=1)
    with scheduler.slot(), pytest.raises(SlotTimeout):
        scheduler.acquire(timeout_s=0)


def test_nobody_borrows_from_acquire(stage: Stage) -> None:
    """It lends to no layer, since nobody knows where it ends."""
    scheduler = stage.scheduler(max_in_flight=2)
    with scheduler.acquire(), scheduler.slot():
        assert stage.held() == 2


def test_a_slot_is_not_lent_after_its_end(stage: Stage) -> None:
    """Neither when left nor when released early."""
    scheduler = stage.scheduler(max_in_flight=1)
    with scheduler.slot() as slot:
        slot.release()
        with scheduler.slot(timeout_s=0):
            assert stage.held() == 1
    with scheduler.slot(timeout_s=0):
        assert stage.held() == 1


def test_work_handed_to_a_thread_with_its_context_borrows(stage: Stage) -> None:
    """`asyncio.to_thread` inside a slot is a layer of that call."""
    scheduler = stage.scheduler(max_in_flight=1)

    def layer() -> int:
        with scheduler.slot(timeout_s=0):
            return stage.held()

    async def call() -> int:
        async with scheduler.slot():
            return await asyncio.to_thread(layer)

    assert asyncio.run(call()) == 1


def test_a_new_task_does_not_borrow(stage: Stage) -> None:
    """It is a call of its own, though it has its parent's context."""
    scheduler = stage.scheduler(max_in_flight=2)

    async def layer() -> int:
        async with scheduler.slot():
            return stage.held()

    async def call() -> int:
        async with scheduler.slot():
            return await asyncio.create_task(layer())

    assert asyncio.run(call()) == 2


def test_a_thread_without_the_context_does_not_borrow(stage: Stage) -> None:
    """A plain thread is a call of its own."""
    scheduler = stage.scheduler(max_in_flight=2)
    seen: list[int] = []

    def call() -> None:
        with scheduler.slot():
            seen.append(stage.held())

    with scheduler.slot():
        thread = threading.Thread(target=call)
        thread.start()
        thread.join(PATIENCE_S)
    assert seen == [2]


def test_of_two_threads_with_one_context_only_one_borrows(stage: Stage) -> None:
    """The other takes a slot of its own."""
    scheduler = stage.scheduler(max_in_flight=2)
    both = threading.Barrier(2, timeout=PATIENCE_S)
    seen: list[int] = []

    def call() -> None:
        with scheduler.slot():
            both.wait()
            seen.append(stage.held())
            both.wait()

    with scheduler.slot():
        threads = [threading.Thread(target=contextvars.copy_context().run, args=(call,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert (seen, stage.held()) == ([2, 2], 0)


def test_a_slot_left_in_another_context_than_it_was_entered_in_is_given_back(stage: Stage) -> None:
    """As async generators are, when Python finalizes them."""
    scheduler = stage.scheduler(max_in_flight=1)
    request = scheduler.slot()
    contextvars.copy_context().run(request.__enter__)
    request.__exit__(None, None, None)
    with scheduler.slot(timeout_s=0):
        assert stage.held() == 1


def test_a_loan_is_returned_once_however_often_it_is_released(stage: Stage) -> None:
    """Two threads that release at once do not let two borrowers in."""
    scheduler = stage.scheduler(max_in_flight=1)
    with scheduler.slot():
        first = enter_aside(scheduler.slot())
        first.release()
        first.released = False  # as a second thread saw it, just before
        first.release()
        second = enter_aside(scheduler.slot(timeout_s=0))
        with pytest.raises(SlotTimeout):
            enter_aside(scheduler.slot(timeout_s=0))
        second.release()


def test_a_dropped_loan_is_returned(stage: Stage) -> None:
    """A borrowed slot that nobody releases is one to borrow again when Python collects it."""
    scheduler = stage.scheduler(max_in_flight=1)
    with scheduler.slot():
        enter_aside(scheduler.slot())
        gc.collect()
        with scheduler.slot(timeout_s=0):
            assert stage.held() == 1


def test_an_inherited_loan_is_returned_once(tmp_path: Path) -> None:
    """Its descriptor's number may be somebody else's by then."""
    loan = InheritedLoan(os.open(tmp_path / "lease", os.O_RDWR | os.O_CREAT), "1-00000000", "1")
    loan.give_back()
    with (tmp_path / "other").open("w") as other:
        loan.give_back()
        other.write("still open")


def test_an_error_in_the_block_gives_the_slot_back_and_goes_on(stage: Stage) -> None:
    """Nothing is swallowed."""
    scheduler = stage.scheduler(max_in_flight=1)
    with pytest.raises(KeyError), scheduler.slot(), scheduler.slot():
        raise KeyError
    assert stage.held() == 0
