"""The public fakes keep what they promise."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from llm_sched import Policy, Scheduler, SlotTimeout
from llm_sched.mailbox import Word
from llm_sched.mailroom import Header
from llm_sched.model import Event, Owner, Terms
from llm_sched.testing import JumpClock, MemoryMailroom, MemoryStore, RecordingObserver

if TYPE_CHECKING:
    from pathlib import Path

HEADER = Header(Owner(pid=1), Terms())


def test_a_clock_stands_still_until_it_is_moved() -> None:
    """Both its readings go on together; the wall clock can be set apart."""
    clock = JumpClock(now=100.0, wall=1000.0)
    clock.advance(2.5)
    clock.step_wall(-500)
    assert (clock.now(), clock.wall()) == (102.5, 502.5)


def test_a_clock_tells_of_each_jump() -> None:
    """But not of the wall clock's, which nobody waits for."""
    clock, jumps = JumpClock(), list[float]()
    clock.on_jump(lambda: jumps.append(clock.now()))
    clock.step_wall(5)
    clock.advance(1)
    assert jumps == [clock.now()]


def test_an_observer_remembers_everything_in_order() -> None:
    """Over several deliveries."""
    observer = RecordingObserver()
    for kind in ("queued", "granted"):
        observer.on_events([Event(kind, "p/m", "1-a", 1)])
    assert observer.kinds() == ["queued", "granted"]


def test_a_scheduler_on_fakes_needs_no_file(tmp_path: Path) -> None:
    """Two of them share a ledger through the store and neighbouring mailrooms."""
    clock, store = JumpClock(), MemoryStore()
    room = MemoryMailroom(clock)
    policy = Policy(max_in_flight=1, state_path=tmp_path / "none.json")
    schedulers = [Scheduler(policy, store=store, mailroom=each, clock=clock) for each in (room, room.neighbour())]
    with schedulers[0].slot(), pytest.raises(SlotTimeout):
        schedulers[1].acquire(timeout_s=0)
    for scheduler in schedulers:
        scheduler.close()
    assert (list(tmp_path.iterdir()), len(store.read().owners)) == ([], 0)


def test_an_owner_lives_from_joining_to_leaving_or_being_killed() -> None:
    """As its neighbours see it."""
    room = MemoryMailroom(JumpClock())
    others = [room.neighbour(), room.neighbour()]
    names = ["1-a", "2-b"]
    for name, other in zip(names, others, strict=True):
        other.join(name, HEADER, ())
    alive = [[room.is_alive(name, HEADER.owner) for name in names]]
    others[0].leave()
    others[1].kill()
    alive.append([room.is_alive(name, HEADER.owner) for name in names])
    assert alive == [[True, True], [False, False]]


def test_news_change_the_bell_and_ring_the_loop() -> None:
    """Even the same news twice."""
    room = MemoryMailroom(JumpClock())
    room.join("1-a", HEADER, ())
    cell, fd = room.take(), room.listen(3)
    room.write(cell, b"wait", b"")
    words = [room.look(cell)]
    for _ in range(2):
        room.neighbour().deliver("1-a", cell, 3, Word(b"", b"held", 7.0), 1)
        words.append(room.look(cell))
    assert (words[1][1:], len({word.bell for word in words}), os.read(fd, 9)) == ((b"held", 7.0), 3, b"!!")


def test_news_for_a_thread_ring_no_loop_and_no_watch() -> None:
    """The watch listens at number 0, for nudges."""
    room = MemoryMailroom(JumpClock())
    room.join("1-a", HEADER, ())
    cell, fd = room.take(), room.listen(0)
    room.write(cell, b"wait", b"")
    room.deliver("1-a", cell, 0, Word(b"", b"held", 0.0), 1)
    with pytest.raises(BlockingIOError):
        os.read(fd, 9)
    room.nudge("1-a")
    assert os.read(fd, 9) == b"!"


def test_news_for_nobody_are_no_error() -> None:
    """The receiver is gone, or has freed the cell."""
    room = MemoryMailroom(JumpClock())
    room.deliver("9-nobody", 0, 0, Word(b"", b"held", 0.0), 1)
    room.nudge("9-nobody")
    room.forget(["9-nobody"])
    assert room.in_use() == 0


def test_cells_are_counted_and_used_again() -> None:
    """A test can see that nothing was forgotten."""
    room = MemoryMailroom(JumpClock())
    cells = [room.take(), room.take()]
    room.clear(cells[0])
    room.free(cells[0])
    assert (room.in_use(), room.take(), room.in_use()) == (1, cells[0], 2)
