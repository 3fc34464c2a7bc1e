"""A process that ends leaves the ledger as if it had never been there, whatever its threads were doing."""

from __future__ import annotations

import fcntl
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from process_crew import until
from process_ledger import is_quiet, left_behind, owners, waiting

from llm_sched import read_snapshot

if TYPE_CHECKING:
    from process_crew import Crew

PROMPTLY_S = 15.0


@pytest.mark.parametrize("how", ["return", "exit", "close"])
@pytest.mark.parametrize(("waiters", "tasks"), [(0, 0), (12, 0), (0, 12), (6, 6)])
def test_a_clean_exit_leaves_nothing(crew: Crew, ledger: Path, how: str, waiters: int, tasks: int) -> None:
    """With daemon threads and loops still holding, waiting and working, exit is prompt and leaves no owner and no file."""
    child = crew.start(
        "process_exits", "end_while_others_wait", state=ledger, how=how, waiters=waiters, tasks=tasks, max_in_flight=1
    )
    child.hear("ready")
    until(lambda: waiting(ledger) >= waiters + tasks, "they wait")
    child.tell()
    child.end(PROMPTLY_S)
    assert owners(ledger) == []
    assert left_behind(ledger) == []
    assert is_quiet(read_snapshot(ledger))


def test_an_exit_hands_the_slots_on(crew: Crew, ledger: Path) -> None:
    """What an ending process holds goes to a waiter in another process."""
    child = crew.start("process_exits", "end_with_error", state=ledger, max_in_flight=1)
    child.hear("ready")
    waiter = crew.puppet(ledger, max_in_flight=1)
    waiter.tell(name="wanted", do="begin_task")
    until(lambda: waiting(ledger) == 1, "it waits")
    child.tell()
    assert waiter.hear("wanted", 5)["got"]
    assert child.process.wait(PROMPTLY_S) == 3
    assert owners(ledger) == [waiter.pid]


def test_an_exit_waits_for_a_scheduler_that_is_just_leaving(crew: Crew, ledger: Path) -> None:
    """A scheduler that is collected when the program ends leaves the ledger, even if that takes a moment."""
    child = crew.start("process_exits", "end_after_dropping", state=ledger, max_in_flight=1)
    child.hear("ready")
    with Path(f"{ledger}.lock").open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        child.tell()
        child.hear("dropped")
        child.tell()
        # The moment: however short it comes out, the child must leave, so a slow machine makes the test weaker, not wrong.
        with suppress(subprocess.TimeoutExpired):
            child.process.wait(0.5)
    child.end(PROMPTLY_S)
    assert owners(ledger) == []
    assert left_behind(ledger) == []
