"""A process that dies gives back what it had, by itself and at once; one that only stands still keeps it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from process_crew import until
from process_ledger import in_flight, is_quiet, left_behind, owners, waiting

from llm_sched import read_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from process_crew import Crew

SOON_S = 5.0
"""Far above what a death takes to be noticed, far below every time-out in these tests."""


@pytest.mark.parametrize("how", ["begin", "begin_task"])
@pytest.mark.parametrize("reap", [True, False], ids=["reaped", "zombie"])
def test_a_killed_holders_slot_reaches_a_waiter(crew: Crew, ledger: Path, how: str, *, reap: bool) -> None:
    """The slot of a killed holder goes to a waiting process by itself, also while the dead one is an unreaped zombie."""
    holder = crew.puppet(ledger, max_in_flight=1)
    waiter = crew.puppet(ledger, max_in_flight=1)
    assert holder.ask("held", do="acquire")["got"]
    waiter.tell(name="wanted", do=how)
    until(lambda: waiting(ledger) == 1, "it waits")
    holder.kill(reap=reap)
    assert waiter.hear("wanted", SOON_S)["got"]
    assert owners(ledger) == [waiter.pid]
    assert all(name.startswith(f"{waiter.pid}-") for name in left_behind(ledger))


@pytest.mark.parametrize("reap", [True, False], ids=["reaped", "zombie"])
def test_a_dead_holders_slot_is_there_for_whoever_comes_later(crew: Crew, ledger: Path, *, reap: bool) -> None:
    """When nobody waited at the time of death, the next call gets the slot, even one that does not want to wait."""
    holder = crew.puppet(ledger, max_in_flight=1)
    later = crew.puppet(ledger, max_in_flight=1)
    assert holder.ask("held", do="acquire")["got"]
    assert not later.ask("too early", do="acquire", timeout_s=0)["got"]
    holder.kill(reap=reap)
    assert later.ask("late", do="acquire", timeout_s=0)["got"]
    assert read_snapshot(ledger).buckets[0].totals.reclaimed == 1


@pytest.mark.parametrize("reap", [True, False], ids=["reaped", "zombie"])
def test_a_killed_waiter_does_not_block_the_queue(crew: Crew, ledger: Path, *, reap: bool) -> None:
    """A slot that is released passes over the head of the queue when that has been killed."""
    holder, head, second = (crew.puppet(ledger, max_in_flight=1) for _ in range(3))
    assert holder.ask("held", do="acquire")["got"]
    for place, waiter in enumerate((head, second), 1):
        waiter.tell(name="wanted", do="begin")
        until(lambda place=place: waiting(ledger) == place, "it waits")  # type: ignore[misc]
    head.kill(reap=reap)
    holder.ask("release held", do="release")
    assert second.hear("wanted", SOON_S)["got"]


def test_many_killed_waiters_do_not_block_the_queue(crew: Crew, ledger: Path) -> None:
    """The same when all who wait ahead die together, each with more waiters than it publishes."""
    holder, *dying, last = (crew.puppet(ledger, max_in_flight=2) for _ in range(5))
    for number in range(2):
        assert holder.ask(f"held {number}", do="acquire")["got"]
    for process, waiter in enumerate(dying, 1):
        for number in range(12):
            waiter.tell(name=f"wanted {number}", do="begin")
        until(lambda process=process: waiting(ledger) == 12 * process, "they wait")  # type: ignore[misc]
    last.tell(name="wanted", do="begin")
    until(lambda: waiting(ledger) == 37, "it waits")
    for waiter in dying:
        waiter.signal(signal.SIGKILL)
    holder.ask("release held 0", do="release")
    assert last.hear("wanted", SOON_S)["got"]
    until(lambda: waiting(ledger) == 0, "the dead wait no more", SOON_S)


def test_a_death_is_noticed_by_each_of_several_buckets(crew: Crew, ledger: Path) -> None:
    """All that a killed process held goes on to waiters of different kinds, in order."""
    holder = crew.puppet(ledger, max_in_flight=3)
    for number in range(3):
        assert holder.ask(f"held {number}", do="acquire")["got"]
    waiter = crew.puppet(ledger, max_in_flight=3)
    for number, how in enumerate(("begin", "begin_task", "begin", "begin_task")):
        waiter.tell(name=f"wanted {number}", do=how)
        until(lambda number=number: waiting(ledger) == number + 1, "it waits")  # type: ignore[misc]
    holder.kill(reap=False)
    for number in range(3):
        assert waiter.hear(f"wanted {number}", SOON_S)["got"]
    assert (in_flight(ledger), waiting(ledger)) == (3, 1)


def test_a_stopped_holder_keeps_its_slot(crew: Crew, ledger: Path) -> None:
    """A process that is stopped is alive: nobody gets its slot, and it is still there when it goes on."""
    holder, waiter = (crew.puppet(ledger, max_in_flight=1) for _ in range(2))
    assert holder.ask("held", do="acquire")["got"]
    holder.signal(signal.SIGSTOP)
    answer = waiter.ask("wanted", do="acquire", timeout_s=2.5)
    assert (answer["got"], answer["error"]) == (False, "SlotTimeout")
    assert f"pid {holder.pid}" in answer["text"]
    assert in_flight(ledger) == 1
    holder.signal(signal.SIGCONT)
    holder.ask("release held", do="release")
    assert waiter.ask("wanted", do="acquire", timeout_s=0)["got"]


def test_a_process_killed_while_stopped_gives_its_slot_back(crew: Crew, ledger: Path) -> None:
    """A stopped process that is killed is dead like any other."""
    holder, waiter = (crew.puppet(ledger, max_in_flight=1) for _ in range(2))
    assert holder.ask("held", do="acquire")["got"]
    waiter.tell(name="wanted", do="begin")
    until(lambda: waiting(ledger) == 1, "it waits")
    holder.signal(signal.SIGSTOP)
    holder.kill()
    assert waiter.hear("wanted", SOON_S)["got"]


def test_a_waiting_process_that_is_stopped_gets_its_slot_when_it_goes_on(crew: Crew, ledger: Path) -> None:
    """A stopped waiter keeps its place: the slot is its own, and others wait behind it."""
    holder, stopped, other = (crew.puppet(ledger, max_in_flight=1) for _ in range(3))
    assert holder.ask("held", do="acquire")["got"]
    stopped.tell(name="wanted", do="begin")
    until(lambda: waiting(ledger) == 1, "it waits")
    stopped.signal(signal.SIGSTOP)
    holder.ask("release held", do="release")
    assert not other.ask("wanted", do="acquire", timeout_s=0.5)["got"]
    stopped.signal(signal.SIGCONT)
    assert stopped.hear("wanted", SOON_S)["got"]
    stopped.ask("release wanted", do="release")
    until(lambda: is_quiet(read_snapshot(ledger)), "nobody holds or waits")
