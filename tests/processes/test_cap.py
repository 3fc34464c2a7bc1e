"""Never more in flight than allowed, as an independent witness sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from process_crew import until
from process_ledger import is_quiet, left_behind, owners

from llm_sched import read_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from process_crew import Crew
    from process_witness import Witness

CAP = 8


def storm_of_threads_and_tasks(crew: Crew, ledger: Path, witness: Path, *, rounds: int, portable: bool = False) -> int:
    """Run 8 processes x 25 threads beside 2 processes x 25 tasks to their end; return how many slots they took."""
    plan = [{"threads": 25}] * 8 + [{"tasks": 25}] * 2
    children = [crew.storm(ledger, witness, rounds=rounds, portable=portable, max_in_flight=CAP, **each) for each in plan]
    for child in children:
        child.hear("done")
    for child in children:
        child.end()
    return 25 * len(plan) * rounds


@pytest.mark.parametrize("portable", [False, True], ids=["futex", "portable"])
def test_the_cap_is_reached_and_never_exceeded(
    crew: Crew, ledger: Path, witness: Witness, witness_path: Path, *, portable: bool
) -> None:
    """At 8 processes of 25 threads with asyncio processes among them, in flight are never more, nor fewer, than the cap."""
    served = storm_of_threads_and_tasks(crew, ledger, witness_path, rounds=4, portable=portable)
    assert witness.peak == CAP
    assert witness.served == served
    snapshot = read_snapshot(ledger)
    assert is_quiet(snapshot)
    assert snapshot.buckets[0].totals.granted == served
    assert owners(ledger) == []
    assert left_behind(ledger) == []


@pytest.mark.soak
def test_the_cap_holds_for_long(crew: Crew, ledger: Path, witness: Witness, witness_path: Path) -> None:
    """The same, ten times as long."""
    served = storm_of_threads_and_tasks(crew, ledger, witness_path, rounds=40)
    assert (witness.peak, witness.served) == (CAP, served)


def test_impatient_calls_lose_no_slot(crew: Crew, ledger: Path, witness: Witness, witness_path: Path) -> None:
    """Where half of the calls give up after moments, no slot is lost and none is given twice."""
    plan = [{"threads": 12}, {"threads": 12}, {"tasks": 24}]
    children = [crew.storm(ledger, witness_path, rounds=15, impatient=0.5, max_in_flight=3, **each) for each in plan]
    for child in children:
        child.hear("done")
        until(lambda: is_quiet(read_snapshot(ledger)) or witness.inside > 0, "quiet or busy")
    assert witness.peak == 3
    assert witness.inside == 0
    until(lambda: is_quiet(read_snapshot(ledger)), "nobody holds or waits")
