"""Ctrl-C at any moment leaves neither ticket nor slot nor a stuck lock."""

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


@pytest.mark.parametrize("body", ["wait_in_main_thread", "wait_in_main_loop"])
def test_an_interrupted_waiter_leaves_no_ticket(crew: Crew, ledger: Path, body: str) -> None:
    """Ctrl-C ends a wait in the main thread at once with KeyboardInterrupt, and the queue is empty again."""
    holder = crew.puppet(ledger, max_in_flight=1)
    assert holder.ask("held", do="acquire")["got"]
    waiter = crew.start("process_exits", body, state=ledger, max_in_flight=1)
    until(lambda: waiting(ledger) == 1, "it waits")
    waiter.signal(signal.SIGINT)
    waiter.hear("interrupted", SOON_S)
    until(lambda: waiting(ledger) == 0, "no ticket", SOON_S)
    assert read_snapshot(ledger).buckets[0].totals.canceled == 1
    waiter.end()
    assert owners(ledger) == [holder.pid]


def test_an_interrupted_holder_gives_its_slot_back(crew: Crew, ledger: Path) -> None:
    """Ctrl-C inside a `with` block frees the slot, and the next waiter gets it."""
    holder = crew.start("process_exits", "hold_in_main_thread", state=ledger, max_in_flight=1)
    holder.hear("holding")
    waiter = crew.puppet(ledger, max_in_flight=1)
    waiter.tell(name="wanted", do="begin")
    until(lambda: waiting(ledger) == 1, "it waits")
    holder.signal(signal.SIGINT)
    holder.hear("interrupted", SOON_S)
    assert waiter.hear("wanted", SOON_S)["got"]
    holder.end()


@pytest.mark.parametrize("interrupts", [150, pytest.param(3000, marks=[pytest.mark.soak, pytest.mark.timeout(600)])])
def test_storms_of_interrupts_leave_nothing(crew: Crew, ledger: Path, interrupts: int) -> None:
    """SIGINT after SIGINT at random moments of acquiring, waiting and releasing: nothing is kept, nobody is locked out."""
    children = [
        crew.start("process_exits", "storm_of_interrupts", state=ledger, seed=seed, interrupts=interrupts, max_in_flight=1)
        for seed in range(3)
    ]
    for child in children:
        child.may_complain = True  # Python reports an interrupt that hits a finalizer, and goes on
        child.hear("done", 500)
    until(lambda: is_quiet(read_snapshot(ledger)), "nobody holds or waits", SOON_S)
    newcomer = crew.puppet(ledger, max_in_flight=1)
    assert newcomer.ask("wanted", do="acquire", timeout_s=5)["got"]
    assert in_flight(ledger) == 1
    for child in children:
        child.end()
    assert owners(ledger) == [newcomer.pid]
    newcomer.end()
    assert left_behind(ledger) == []
