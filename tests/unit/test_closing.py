"""What becomes of calls and slots when a scheduler closes, also while others begin or fork."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from unit_support import Caller, until

from llm_sched import Policy, Scheduler, SchedulerError, SlotTimeout, engine

if TYPE_CHECKING:
    from unit_support import Stage


def test_who_waits_here_gets_no_slot_that_is_given_back_by_closing(stage: Stage) -> None:
    """It goes to another process; a slot that nobody holds any more would be one too many."""
    closing, other = stage.scheduler(max_in_flight=1), stage.scheduler(max_in_flight=1)
    held = closing.acquire()
    mine = Caller(closing)
    stage.until_waiting(1)
    theirs = Caller(other)
    stage.until_waiting(2)
    closing.close()
    assert isinstance(mine.ended(), SchedulerError)
    assert (theirs.ended().bucket, stage.held(), held.released) == ("default/default", 1, False)
    theirs.ended().release()


def test_everybody_who_waits_is_told_of_the_end(stage: Stage) -> None:
    """Also those who queue in the process and do not stand in the ledger yet."""
    closing = stage.scheduler(max_in_flight=1)
    held = closing.acquire()
    callers = [Caller(closing) for _ in range(12)]
    stage.until_waiting(12)
    closing.close()
    assert [str(caller.ended()) for caller in callers] == ["the scheduler was closed while this call waited"] * 12
    held.release()


def test_closing_counts_who_waited_as_canceled(stage: Stage) -> None:
    """Not as reclaimed: nobody has died."""
    closing = stage.scheduler(max_in_flight=1)
    held = closing.acquire()
    caller = Caller(closing)
    stage.until_waiting(1)
    closing.close()
    caller.ended()
    held.release()
    totals = stage.bucket().totals
    assert (totals.canceled, totals.reclaimed, totals.granted) == (1, 0, 1)


def test_what_another_thread_begins_while_this_one_closes_is_known_to_the_hooks(tmp_path: Path) -> None:
    """Else a child that is forked then would keep its parent's mailbox locked."""
    scheduler = Scheduler(Policy(state_path=tmp_path / "ledger.json"))
    scheduler.acquire().release()
    machinery = scheduler._engine  # noqa: SLF001
    stop = machinery._watch.stop  # noqa: SLF001

    def begin_again() -> None:
        stop()
        machinery._begin()  # noqa: SLF001 - as another thread's acquire

    machinery._watch.stop = begin_again  # type: ignore[method-assign] # noqa: SLF001
    scheduler.close()
    known = machinery in engine._engines  # noqa: SLF001
    scheduler.close()
    assert (known, machinery in engine._engines) == (True, False)  # noqa: SLF001


def test_a_child_forked_while_its_parent_closed_is_open(stage: Stage) -> None:
    """It begins anew."""
    part = stage.scheduler()._engine.part  # noqa: SLF001
    part.closed = True
    with pytest.raises(SchedulerError):
        part.check_open()
    part.start()
    part.check_open()


def test_a_relative_ledger_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that changes its folder keeps its ledger."""
    monkeypatch.chdir(tmp_path)
    policy = Policy(state_path="ledger.json")
    monkeypatch.chdir("/")
    assert policy.path == tmp_path / "ledger.json"
    assert Path(os.fspath(policy.path)).is_absolute()


def test_the_count_of_those_ahead_has_all_of_them(stage: Stage) -> None:
    """Not only those that stand in the ledger."""
    scheduler = stage.scheduler(max_in_flight=1)
    held = scheduler.acquire()
    callers = [Caller(scheduler) for _ in range(20)]
    stage.until_waiting(20)
    with pytest.raises(SlotTimeout) as caught:
        scheduler.acquire(timeout_s=0)
    assert caught.value.ahead == 20
    held.release()
    for caller in callers:
        caller.ended().release()
    until(stage.is_empty)
