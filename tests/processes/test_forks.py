"""A slot belongs to the process that took it: no child has it, keeps it or gives it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from process_crew import until
from process_ledger import in_flight, is_quiet, left_behind, owners, waiting

from llm_sched import read_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from process_crew import Crew

SOON_S = 5.0


def test_a_forked_child_holds_none_and_takes_its_own(crew: Crew, ledger: Path) -> None:
    """The inherited slot is inert in the child; it gets what its parent left, and its end frees only that."""
    child = crew.start("process_forks", "fork_while_holding", state=ledger, max_in_flight=3)
    assert child.hear("child released")["released"]
    facts = child.hear("child")
    assert (facts["own"], facts["more"]) == (2, False)
    assert in_flight(ledger) == 3
    assert len(set(owners(ledger))) == 2
    child.tell()
    assert child.hear("child ended")["code"] == 0
    assert child.hear("after")["full"]
    assert child.hear("in the end")["got"]
    child.end()
    assert owners(ledger) == []
    assert left_behind(ledger) == []


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_hold_their_own(crew: Crew, ledger: Path, how: str) -> None:
    """With each start method a child takes slots beside its parent's, and leaves nothing when it ends."""
    child = crew.start("process_forks", "start_with_multiprocessing", state=ledger, how=how, max_in_flight=2)
    assert child.hear("child")["pid"] != child.pid
    assert child.hear("child ended")["code"] == 0
    assert owners(ledger) == [child.pid]
    assert in_flight(ledger) == 1
    assert all(name.startswith(f"{child.pid}-") for name in left_behind(ledger))
    child.tell()
    child.hear("done")
    child.end()
    assert owners(ledger) == []
    assert left_behind(ledger) == []


def test_a_forked_child_of_multiprocessing_leaves_nothing(crew: Crew, ledger: Path) -> None:
    """A child that uses its parent's scheduler object and ends while holding gives back what it held, at once."""
    child = crew.start("process_forks", "fork_with_multiprocessing", state=ledger, max_in_flight=2)
    child.hear("child")
    assert child.hear("child ended")["code"] == 0
    assert owners(ledger) == [child.pid]
    assert in_flight(ledger) == 1
    child.tell()
    child.hear("done")
    child.end()
    assert owners(ledger) == []
    assert left_behind(ledger) == []


@pytest.mark.parametrize("how", ["os.fork", "fork", "spawn"])
@pytest.mark.parametrize("waiters", [0, 3])
def test_a_child_that_outlives_its_killed_parent_does_not_keep_the_slot(
    crew: Crew, ledger: Path, how: str, waiters: int
) -> None:
    """The slot of a killed parent comes back although a child of it lives on, whatever the parent's threads did."""
    parent = crew.start("process_forks", "leave_a_child_behind", state=ledger, waiters=waiters, how=how, max_in_flight=1)
    until(lambda: (in_flight(ledger), waiting(ledger)) == (1, waiters), "it holds and waits")
    parent.tell()
    orphan = parent.hear("orphan")["pid"]
    parent.hear("holding")
    assert orphan != parent.pid
    waiter = crew.puppet(ledger, max_in_flight=1)
    waiter.tell(name="wanted", do="begin")
    until(lambda: waiting(ledger) == waiters + 1, "it waits")
    parent.kill(reap=False)
    assert waiter.hear("wanted", SOON_S)["got"]
    assert owners(ledger) == [waiter.pid]


def test_forks_in_the_middle_of_transactions_lock_nobody_out(crew: Crew, ledger: Path) -> None:
    """A child that is forked while another thread is in a transaction goes on, and so does its parent."""
    child = crew.start("process_forks", "fork_all_the_time", state=ledger, forks=40, max_in_flight=3)
    other = crew.puppet(ledger, max_in_flight=3)
    assert child.hear("done")["failed"] == [], child.story()
    assert other.ask("held", do="acquire", timeout_s=5)["got"]
    child.end()
    assert owners(ledger) == [other.pid]


def test_a_fork_while_a_loop_waits_gives_each_its_own(crew: Crew, ledger: Path) -> None:
    """Parent's loop and child's loop each wait at a door of their own, and each gets its slot."""
    child = crew.start("process_forks", "fork_with_loop", state=ledger, max_in_flight=1)
    until(lambda: waiting(ledger) == 1, "the loop waits")
    child.tell()
    child.hear("forked")
    until(lambda: waiting(ledger) == 2, "the child's loop waits as well")
    child.tell()
    child.hear("parent got it", SOON_S)
    child.hear("child got it", SOON_S)
    assert child.hear("done")["code"] == 0
    until(lambda: is_quiet(read_snapshot(ledger)), "nobody holds or waits")


def test_a_forked_child_does_not_borrow_from_its_parent(crew: Crew, ledger: Path) -> None:
    """The slot around the fork is its parent's: a layer in the child is a call of its own; one in the parent borrows on."""
    child = crew.start("process_forks", "nest_a_layer_in_a_child", state=ledger, max_in_flight=1)
    assert child.hear("child")["got"] is False
    assert child.hear("parent")["got"] is True
    child.end()


def test_a_child_that_is_forked_during_an_install_can_install(crew: Crew, ledger: Path) -> None:
    """Whatever the thread that installs was doing, it is not there in the child to finish it."""
    child = crew.start("process_handlers", "install_in_a_child", state=ledger, max_in_flight=9)
    assert child.hear("child", SOON_S)["max_in_flight"] == 9
    child.hear("parent")
    child.end()


@pytest.mark.parametrize("instant", ["first use", "start of the watch"])
@pytest.mark.parametrize("does", ["fork", "take"])
def test_a_signal_handler_forks_or_takes_a_slot_at_a_bad_moment(crew: Crew, ledger: Path, does: str, instant: str) -> None:
    """In the middle of the first use of a scheduler, or of the first wait: nobody waits for himself."""
    child = crew.start("process_handlers", "be_interrupted", state=ledger, does=does, instant=instant, max_in_flight=1)
    child.hear("handled", SOON_S)
    pids = {child.hear("got it", SOON_S)["pid"] for _ in range(2 if does == "fork" else 1)}
    assert child.pid in pids
    assert len(pids) == (2 if does == "fork" else 1)
    child.hear("done")
    child.end()
    assert owners(ledger) == []
