"""A slot in hand: how it begins and how it ends."""

from __future__ import annotations

import gc
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from unit_support import BUCKET, PATIENCE_S, Caller, until

from llm_sched import LedgerError, SlotTimeout, host, watch
from llm_sched.model import Owner, Transition

if TYPE_CHECKING:
    from unit_support import Stage

    from llm_sched.model import State


def test_a_slot_says_its_bucket_and_how_long_it_took(stage: Stage) -> None:
    """In seconds of the clock."""
    scheduler = stage.scheduler(max_in_flight=1)
    first = scheduler.acquire(provider="openai", model="gpt-4o")
    caller = Caller(stage.scheduler(max_in_flight=1, provider="openai"))
    slot = caller.ended()
    assert (first.bucket, first.waited_s, slot.bucket, first.released) == ("openai/gpt-4o", 0.0, "openai/default", False)
    slot.release()


def test_a_waiter_gets_the_slot_that_is_released(stage: Stage) -> None:
    """And knows how long it has waited."""
    first = stage.scheduler(max_in_flight=1).acquire()
    caller = Caller(stage.scheduler(max_in_flight=1))
    stage.until_waiting(1)
    stage.clock.advance(2.5)
    first.release()
    assert caller.ended().waited_s == pytest.approx(2.5)


def test_releasing_again_does_nothing(stage: Stage) -> None:
    """However often, and in which way."""
    scheduler = stage.scheduler(max_in_flight=1)
    with scheduler.acquire() as slot:
        slot.release()
        other = scheduler.acquire(timeout_s=0)
        slot.release()
    assert (slot.released, other.released, stage.held()) == (True, False, 1)
    other.release()


def test_a_slot_can_be_released_by_another_thread(stage: Stage) -> None:
    """By any."""
    slot = stage.scheduler(max_in_flight=1).acquire()
    thread = threading.Thread(target=slot.release)
    thread.start()
    thread.join(PATIENCE_S)
    assert (slot.released, stage.held()) == (True, 0)


def test_a_slot_released_by_many_threads_at_once_is_released_once(stage: Stage) -> None:
    """Those behind it get one slot, not two."""
    scheduler = stage.scheduler(max_in_flight=1)
    for _ in range(50):
        slot = scheduler.acquire(timeout_s=0)
        threads = [threading.Thread(target=slot.release) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert (stage.is_empty(), stage.bucket().totals.granted) == (True, 50)


def test_a_dropped_slot_comes_back_when_python_collects_it(stage: Stage) -> None:
    """Somebody forgot to release it."""
    scheduler = stage.scheduler(max_in_flight=1)
    scheduler.acquire()
    gc.collect()
    until(lambda: stage.held() == 0)
    assert stage.is_empty()


def test_a_slot_outlives_its_scheduler(stage: Stage) -> None:
    """Its release still goes through, and then the scheduler leaves the ledger."""
    scheduler = stage.scheduler(max_in_flight=1)
    slot = scheduler.acquire()
    stage.forget(scheduler)
    del scheduler
    gc.collect()
    assert stage.held() == 1
    slot.release()
    until(lambda: not stage.store.read().owners)
    assert stage.held() == 0


def test_closing_a_scheduler_gives_back_all_that_it_holds(stage: Stage) -> None:
    """To whoever waits; its slots are inert then, and it can be used again."""
    scheduler = stage.scheduler(max_in_flight=1)
    slot = scheduler.acquire()
    caller = Caller(stage.scheduler(max_in_flight=1))
    stage.until_waiting(1)
    scheduler.close()
    other = caller.ended()
    slot.release()
    assert stage.held() == 1
    other.release()
    scheduler.acquire(timeout_s=0).release()


def test_the_slots_of_a_killed_process_go_to_the_next_who_asks(stage: Stage) -> None:
    """It finds the dead before it says that the bucket is full."""
    dead = stage.scheduler(max_in_flight=1)
    lost = dead.acquire()
    stage.kill(dead)
    stage.scheduler(max_in_flight=1).acquire(timeout_s=0).release()
    assert (stage.bucket().totals.reclaimed, lost.released) == (1, False)


def test_what_was_held_too_long_goes_to_the_next_who_asks(stage: Stage) -> None:
    """And the late release frees nothing."""
    late = stage.scheduler(max_in_flight=1, max_hold_s=10).acquire()
    stage.clock.advance(11)
    slot = stage.scheduler(max_in_flight=1).acquire(timeout_s=0)
    late.release()
    assert (stage.held(), "overdue" in stage.observer.kinds()) == (1, True)
    slot.release()


def test_a_slot_shows_what_it_is(stage: Stage) -> None:
    """For those who print it."""
    scheduler = stage.scheduler()
    with scheduler.slot() as slot, scheduler.slot() as layer:
        shown = [repr(slot), repr(layer)]
    assert (*shown, repr(slot)) == (
        "<Slot default/default held, waited 0.000 s>",
        "<Slot default/default borrowed, waited 0.000 s>",
        "<Slot default/default released, waited 0.000 s>",
    )


@pytest.mark.parametrize("times", [1, 30])
def test_first_come_first_served_within_a_process(stage: Stage, times: int) -> None:
    """Also beyond the window of tickets that a process publishes."""
    scheduler = stage.scheduler(max_in_flight=1)
    slot, callers = scheduler.acquire(), []
    for index in range(times):
        callers.append(Caller(scheduler))
        stage.until_waiting(index + 1)
        stage.clock.advance(0.001)
    for caller in callers:
        slot.release()
        slot = caller.ended()
        assert stage.held() == 1
    slot.release()
    assert stage.is_empty()


def test_a_process_publishes_only_a_window_of_its_calls(stage: Stage) -> None:
    """The rest is a number."""
    scheduler = stage.scheduler(max_in_flight=1)
    slot = scheduler.acquire()
    callers = [Caller(scheduler, timeout_s=9) for _ in range(20)]
    stage.until_waiting(20)
    (member,) = stage.bucket().members.values()
    assert (len(stage.bucket().queue), member.waiting, member.backlog) == (8, 8, 12)
    stage.clock.advance(10)
    assert {type(caller.ended()) for caller in callers} == {SlotTimeout}
    slot.release()
    assert stage.is_empty()


def test_a_process_publishes_more_when_others_have_granted_what_it_had(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else newcomers of other processes overtake what still queues in it: it itself gives nothing back meanwhile."""
    slots = [stage.scheduler(max_in_flight=8).acquire() for _ in range(8)]
    scheduler = stage.scheduler(max_in_flight=8)
    transact, asked = stage.store.transact, list[None]()

    def count(*arguments: Any, **options: Any) -> Any:
        answer = transact(*arguments, **options)
        asked.extend([None] if options.get("yields") else [])
        return answer

    monkeypatch.setattr(stage.store, "transact", count)
    monkeypatch.setattr(watch, "TICK_S", PATIENCE_S * 2)  # it repairs, and so publishes as well
    callers = [Caller(scheduler) for _ in range(20)]
    until(lambda: len(asked) == 20)  # a later one would publish as well
    for slot in slots[:6]:
        slot.release()
    until(lambda: sum(caller.result is not None for caller in callers) == 6)
    until(lambda: (len(stage.bucket().queue), stage.waiting()) == (8, 14))
    for slot in slots[6:]:
        slot.release()
    for left in range(20, 0, -1):
        until(lambda left=left: sum(caller.result is not None for caller in callers) >= 21 - left)
        next(caller for caller in callers if caller.result and not caller.result.released).result.release()
    assert stage.is_empty()


def test_a_stranger_in_the_ledger_who_is_gone_is_no_obstacle(stage: Stage) -> None:
    """An owner without a mailbox is dead."""
    scheduler = stage.scheduler(max_in_flight=1)
    scheduler.acquire().release()

    def plant(state: State) -> Transition:
        state.owners["77-dead"] = Owner(pid=77)
        return Transition(changed=True)

    stage.store.transact(plant, lambda *_: None, None)
    newcomer = stage.scheduler()
    newcomer.acquire().release()
    assert "77-dead" not in stage.store.read().owners


def test_errors_of_the_ledger_reach_the_caller(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """And leave nothing behind; the next call works."""
    scheduler = stage.scheduler(max_in_flight=1)

    def refuse(*_: object, **_options: object) -> None:
        raise LedgerError("no disk")

    monkeypatch.setattr(stage.store, "transact", refuse)
    with pytest.raises(LedgerError, match="no disk"):
        scheduler.acquire()
    monkeypatch.undo()
    scheduler.acquire(timeout_s=0).release()
    assert (stage.is_empty(), stage.held(BUCKET)) == (True, 0)


def test_a_release_that_cannot_be_written_is_tried_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It never raises, and the slot comes back."""
    slot = stage.scheduler(max_in_flight=1).acquire()
    tries: list[None] = []

    def refuse(*_: object, **_options: object) -> None:
        tries.append(None)
        raise LedgerError("no disk")

    with monkeypatch.context() as patch:
        patch.setattr(stage.store, "transact", refuse)
        slot.release()
        until(lambda: len(tries) >= 3)
        assert (slot.released, stage.held()) == (True, 1)
    until(lambda: stage.held() == 0)


def test_a_command_that_is_no_text_is_shown_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file name need not be UTF-8."""
    monkeypatch.setattr(sys, "argv", ["tool.py", "caf\udce9"])
    assert host.command_line() == "tool.py caf?"


def test_a_long_command_is_cut_visibly(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 characters, the last of them an ellipsis; one that fits is whole."""
    shown = []
    for length in (80, 81, 500):
        monkeypatch.setattr(sys, "argv", ["/bin/" + "x" * length])
        shown.append(host.command_line())
    assert shown == ["x" * 80, "x" * 79 + "…", "x" * 79 + "…"]
