"""What observers hear, in which order, and that no observer can do harm."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from unit_support import BUCKET, Caller, until

from llm_sched import SlotTimeout
from llm_sched.model import Event
from llm_sched.observer import FanOut, NullObserver
from llm_sched.testing import RecordingObserver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unit_support import Stage

EVENT = Event("queued", "p/m", "1-a", 1)


class BrokenObserver:
    """Raises whatever it hears."""

    def on_events(self, events: Sequence[Event]) -> None:
        """Raise."""
        raise ZeroDivisionError(len(events))


def test_a_call_is_heard_from_its_beginning_to_its_end(stage: Stage) -> None:
    """Queued, granted, released: in this order, with bucket, owner and number."""
    stage.scheduler().acquire().release()
    owner = next(iter(stage.store.read().owners))
    heard = [(event.kind, event.bucket, event.owner, event.number) for event in stage.observer.events]
    assert heard == [(kind, BUCKET, owner, 1) for kind in ("queued", "granted", "released")]


def test_a_hand_over_is_heard_by_whoever_released(stage: Stage) -> None:
    """The grant is part of its transaction."""
    first, second = RecordingObserver(), RecordingObserver()
    slot = stage.scheduler(first, max_in_flight=1).acquire()
    caller = Caller(stage.scheduler(second, max_in_flight=1))
    stage.until_waiting(1)
    stage.clock.advance(3)
    slot.release()
    caller.ended().release()
    assert [(event.kind, event.seconds) for event in first.events[2:]] == [("released", 3.0), ("granted", pytest.approx(3.0))]
    assert second.kinds() == ["queued", "released"]


def test_each_way_to_end_without_a_slot_is_heard(stage: Stage) -> None:
    """Refused and timed out."""
    slot = stage.scheduler(max_in_flight=1).acquire()
    other = RecordingObserver()
    scheduler = stage.scheduler(other, max_in_flight=1)
    with pytest.raises(SlotTimeout):
        scheduler.acquire(timeout_s=0)
    caller = Caller(scheduler, timeout_s=4)
    stage.until_waiting(1)
    stage.clock.advance(5)
    assert isinstance(caller.ended(), SlotTimeout)
    assert [(event.kind, event.seconds) for event in other.events] == [
        ("queued", 0.0),
        ("refused", 0.0),
        ("queued", 0.0),
        ("timed_out", pytest.approx(5.0)),
    ]
    slot.release()


def test_what_the_dead_held_is_heard(stage: Stage) -> None:
    """By whoever takes it back."""
    dead = stage.scheduler(max_in_flight=1)
    lost = dead.acquire()
    stage.kill(dead)
    other = RecordingObserver()
    stage.scheduler(other, max_in_flight=1).acquire(timeout_s=0).release()
    assert (other.kinds(), lost.released) == (["reclaimed", "queued", "granted", "released"], False)


def test_events_come_when_the_lock_is_free(stage: Stage) -> None:
    """An observer may itself look at the ledger, or take a slot."""
    seen: list[int] = []

    class Curious:
        def on_events(self, events: Sequence[Event]) -> None:
            with stage.locked():
                seen.append(len(events))

    stage.scheduler(Curious()).acquire().release()
    assert seen == [2, 1]


def test_an_observer_that_raises_disturbs_no_call(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """Neither its beginning nor its end."""
    scheduler = stage.scheduler(BrokenObserver(), max_in_flight=1)
    for _ in range(3):
        scheduler.acquire(timeout_s=0).release()
    until(stage.is_empty)
    assert len(caplog.records) == 1


def test_an_observer_that_raises_is_logged_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """And the others still hear everything."""
    listener = RecordingObserver()
    fan = FanOut(BrokenObserver(), listener)
    with caplog.at_level(logging.ERROR, "llm_sched"):
        for _ in range(3):
            fan.on_events([EVENT])
    (record,) = caplog.records
    assert ("BrokenObserver" in record.getMessage(), bool(record.exc_info)) == (True, True)
    assert (fan.failures, len(listener.events)) == (3, 3)


def test_the_default_observer_hears_nothing() -> None:
    """And does not fail."""
    observer = NullObserver()
    observer.on_events([EVENT])
    assert not vars(observer)
