"""Waiting for a slot, and when it ends without one."""

from __future__ import annotations

import asyncio
import math
import pickle
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from unit_support import BUCKET, Caller, until, until_async

from llm_sched import ConfigError, SlotTimeout

if TYPE_CHECKING:
    from unit_support import Stage


def test_a_timeout_says_what_was_full_who_was_ahead_and_who_has_held_longest(stage: Stage) -> None:
    """In its message and as attributes, which survive pickling."""
    full = stage.scheduler(max_in_flight=2, user="ann")
    slots = [full.acquire(provider="openai", model="gpt-4o") for _ in range(2)]
    ahead = Caller(stage.scheduler(max_in_flight=2, provider="openai", keys=["provider"]))
    assert ahead.ended().bucket == "openai"
    stage.clock.advance(61)
    with pytest.raises(SlotTimeout) as caught:
        stage.scheduler(max_in_flight=2).acquire(provider="openai", model="gpt-4o", timeout_s=0)
    error: SlotTimeout = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - ours
    assert (error.bucket, error.in_flight, error.limit, error.ahead, error.waited_s) == ("openai/gpt-4o", 2, 2, 0, 0.0)
    for part in ("bucket openai/gpt-4o", "2 of 2 slots", "0 ahead", "user ann, for 61.0 s", "timeout_s", "llm-sched status"):
        assert part in str(error)
    assert re.search(r"the oldest holder is pid \d+,", str(error))
    for slot in (*slots, ahead.ended()):
        slot.release()


def test_a_timeout_counts_those_ahead(stage: Stage) -> None:
    """Two were in the queue before it."""
    slot = stage.scheduler(max_in_flight=1).acquire()
    callers: list[Caller] = []
    for index in range(3):
        callers.append(Caller(stage.scheduler(max_in_flight=1), timeout_s=5 if index == 2 else 500))
        stage.until_waiting(index + 1)
        stage.clock.advance(0.001)
    stage.clock.advance(6)
    error = callers[2].ended()
    assert (type(error), error.ahead, error.waited_s) == (SlotTimeout, 2, pytest.approx(6.001))
    slot.release()
    for caller in callers[:2]:
        caller.ended().release()


def test_a_call_waits_no_longer_than_its_timeout(stage: Stage) -> None:
    """But until then."""
    slot = stage.scheduler(max_in_flight=1).acquire()
    caller = Caller(stage.scheduler(max_in_flight=1), timeout_s=10)
    stage.until_waiting(1)
    stage.clock.advance(9.9)
    assert stage.waiting() == 1
    stage.clock.advance(0.2)
    assert isinstance(caller.ended(), SlotTimeout)
    assert (stage.waiting(), stage.bucket().totals.timed_out) == (0, 1)
    slot.release()


def test_the_policys_timeout_holds_where_the_call_gives_none(stage: Stage) -> None:
    """An explicit one wins."""
    slot = stage.scheduler(max_in_flight=1).acquire()
    patient = stage.scheduler(max_in_flight=1, timeout_s=100)
    callers = [Caller(patient), Caller(patient, timeout_s=5)]
    stage.until_waiting(2)
    stage.clock.advance(50)
    assert isinstance(callers[1].ended(), SlotTimeout)
    stage.until_waiting(1)
    stage.clock.advance(51)
    assert isinstance(callers[0].ended(), SlotTimeout)
    slot.release()


def test_a_timeout_of_0_tries_once(stage: Stage) -> None:
    """It never queues: a free slot is taken, a full bucket refused at once."""
    scheduler = stage.scheduler(max_in_flight=1, timeout_s=0)
    slot = scheduler.acquire()
    with pytest.raises(SlotTimeout):
        scheduler.acquire()
    assert (stage.bucket().queue, stage.observer.kinds()[-1]) == ([], "refused")
    slot.release()
    scheduler.acquire().release()


def test_a_timeout_of_inf_waits_for_ever(stage: Stage) -> None:
    """A year is nothing."""
    slot = stage.scheduler(max_in_flight=1).acquire()
    caller = Caller(stage.scheduler(max_in_flight=1, timeout_s=math.inf))
    stage.until_waiting(1)
    stage.clock.advance(3600 * 24 * 365)
    assert [ticket.deadline for ticket in stage.bucket().queue] == [0.0]
    slot.release()
    caller.ended().release()


@pytest.mark.parametrize("timeout", [-1, math.nan, "5"])
def test_a_timeout_that_makes_no_sense_is_refused(stage: Stage, timeout: Any) -> None:
    """At the call."""
    with pytest.raises(ConfigError, match="timeout_s"):
        stage.scheduler().acquire(timeout_s=timeout)


def test_a_timeout_while_waiting_for_a_token_says_so(stage: Stage) -> None:
    """The slots were not the matter."""
    scheduler = stage.scheduler(max_in_flight=5, requests_per_minute=1, burst=1)
    scheduler.acquire().release()
    with pytest.raises(SlotTimeout, match="requests per minute are used up"):
        scheduler.acquire(timeout_s=0)


def test_a_timeout_under_anothers_stricter_policy_says_so(stage: Stage) -> None:
    """The own policy would have let it through."""
    slot = stage.scheduler(max_in_flight=1).acquire()
    with pytest.raises(SlotTimeout, match="another process's stricter policy"):
        stage.scheduler(max_in_flight=5).acquire(timeout_s=0)
    slot.release()


def test_a_token_is_worth_waiting_for(stage: Stage) -> None:
    """The waiter sleeps to the moment its token is due and goes then."""
    scheduler = stage.scheduler(requests_per_minute=60, burst=1)
    scheduler.acquire().release()
    caller = Caller(scheduler)
    stage.until_waiting(1)
    until(lambda: [ticket.due for ticket in stage.bucket().queue if ticket.due])
    stage.clock.advance(1.0)
    slot = caller.ended()
    assert slot.waited_s == pytest.approx(1.0)
    slot.release()


def test_what_waits_for_a_token_spends_none_when_it_gives_up(stage: Stage) -> None:
    """Cap 1, two a minute, burst 2: A holds, B times out, A ends, C passes at once."""
    scheduler = stage.scheduler(max_in_flight=1, requests_per_minute=2, burst=2)
    slot = scheduler.acquire()
    with pytest.raises(SlotTimeout):
        scheduler.acquire(timeout_s=0)
    caller = Caller(scheduler, timeout_s=5)
    stage.until_waiting(1)
    stage.clock.advance(6)
    assert isinstance(caller.ended(), SlotTimeout)
    slot.release()
    scheduler.acquire(timeout_s=0).release()


def test_a_task_times_out_like_a_thread(stage: Stage) -> None:
    """Same message, same totals."""
    slot = stage.scheduler(max_in_flight=1).acquire()
    scheduler = stage.scheduler(max_in_flight=1)

    async def call() -> None:
        task = asyncio.create_task(scheduler.acquire_async(timeout_s=10))
        await until_async(lambda: stage.waiting() == 1)
        stage.clock.advance(11)
        with pytest.raises(SlotTimeout, match="1 of 1 slots"):
            await task

    asyncio.run(call())
    assert (stage.waiting(), stage.bucket().totals.timed_out) == (0, 1)
    slot.release()


def test_a_ledger_that_stays_locked_ends_in_a_timeout_that_says_so(stage: Stage) -> None:
    """Also for a call that would not have waited for a slot."""
    scheduler = stage.scheduler(max_in_flight=1)
    scheduler.acquire().release()

    def stay(_: object) -> None:
        with pytest.raises(SlotTimeout, match=r"lock could not be had.*another process holds it") as caught:
            scheduler.acquire(timeout_s=0)
        assert caught.value.bucket == BUCKET
        raise InterruptedError

    with pytest.raises(InterruptedError):
        stage.store.transact(stay, lambda *_: None, time.monotonic())
    until(stage.is_empty)
