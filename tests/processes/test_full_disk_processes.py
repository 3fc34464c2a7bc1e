"""What cannot be written has not happened: on a full disk nobody gets a slot, and nobody loses one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from process_crew import until
from process_ledger import in_flight, is_quiet, waiting

from llm_sched import read_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from process_crew import Child, Crew

SOON_S = 10.0


def on_a_machine_that_fills_up(crew: Crew, ledger: Path) -> Child:
    """Start a puppet whose disk can be filled."""
    child = crew.start("process_bodies", "wait_on_a_full_disk", state=ledger, max_in_flight=1)
    child.hear("ready")
    return child


@pytest.mark.parametrize("how", ["begin", "begin_task"])
def test_a_dead_holders_slot_is_not_granted_before_it_is_written(crew: Crew, ledger: Path, how: str) -> None:
    """A waiter that sees the holder's death but cannot write keeps waiting; when there is room again it gets the slot."""
    holder = crew.puppet(ledger, max_in_flight=1)
    assert holder.ask("held", do="acquire")["got"]
    waiter = on_a_machine_that_fills_up(crew, ledger)
    waiter.tell(name="wanted", do=how)
    until(lambda: waiting(ledger) == 1, "it waits")
    waiter.ask("full", do="fill")
    holder.kill()
    for _ in range(2):
        waiter.hear("not written", SOON_S)
        assert not waiter.heard("wanted")
    waiter.ask("room", do="drain")
    assert waiter.hear("wanted", SOON_S)["got"]
    assert in_flight(ledger) == 1


def test_a_release_that_cannot_be_written_is_made_up_for(crew: Crew, ledger: Path) -> None:
    """A release on a full disk raises nothing; the slot passes on when there is room again."""
    holder = on_a_machine_that_fills_up(crew, ledger)
    assert holder.ask("held", do="acquire")["got"]
    other = crew.puppet(ledger, max_in_flight=1)
    holder.ask("full", do="fill")
    holder.ask("release held", do="release")
    answer = holder.ask("on a full disk", do="acquire", timeout_s=0)
    assert answer["error"] == "LedgerError"
    assert "disk is full" in answer["text"]
    assert not other.ask("too early", do="acquire", timeout_s=0)["got"]
    holder.ask("room", do="drain")
    assert other.ask("wanted", do="acquire", timeout_s=SOON_S)["got"]
    other.ask("release wanted", do="release")
    until(lambda: is_quiet(read_snapshot(ledger)), "nobody holds or waits")
