"""A process that stands still, or dies, inside a transaction does not take the others with it."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from process_crew import PATIENCE_S, until
from process_ledger import in_flight, is_quiet, waiting

from llm_sched import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from process_crew import Child, Crew
    from process_witness import Witness


def holds_lock(child: Child, ledger: Path) -> bool:
    """Whether the child's process has the lock of the ledger, as the kernel sees it."""
    fd = os.open(f"{ledger}.lock", os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return f" {child.pid} " in Path("/proc/locks").read_text(encoding="ascii") and not _is_free(fd)
    finally:
        os.close(fd)
    return False


def _is_free(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def stopped_in_transaction(child: Child, ledger: Path) -> Iterator[None]:
    """Stop a busy child at an instant at which it has the lock of the ledger; it goes on afterwards."""
    deadline = time.monotonic() + PATIENCE_S
    until(Path(f"{ledger}.lock").exists, "there is a lock file")
    while True:
        assert time.monotonic() < deadline, "never stopped inside a transaction"
        child.signal(signal.SIGSTOP)
        until(lambda: _is_stopped(child.pid), "it is stopped")
        if holds_lock(child, ledger):
            break
        child.signal(signal.SIGCONT)
    try:
        yield
    finally:
        child.signal(signal.SIGCONT)


def _is_stopped(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return stat[stat.rindex(")") + 2] == "T"


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs /proc/locks to see who has a lock")
def test_a_process_stopped_inside_a_transaction_is_named(
    crew: Crew, ledger: Path, witness: Witness, witness_path: Path
) -> None:
    """While a stopped process has the file lock, calls end in time with an error that names it; then all goes on."""
    newcomer = crew.puppet(ledger, max_in_flight=2)
    waiter = crew.puppet(ledger, max_in_flight=2)
    assert newcomer.ask("first", do="acquire")["got"]
    busy = crew.storm(ledger, witness_path, threads=1, hold_s=0.0, max_in_flight=2)
    with stopped_in_transaction(busy, ledger):
        began = time.monotonic()
        answers = [newcomer.ask("now", do="acquire", timeout_s=0), waiter.ask("soon", do="acquire", timeout_s=1)]
        assert time.monotonic() - began < 10
        for answer in answers:
            assert answer["error"] == "SlotTimeout"
            assert str(busy.pid) in answer["text"]
        assert read_snapshot(ledger).state == "live"
        newcomer.ask("release first", do="release")
    for number in range(3):
        assert newcomer.ask(f"again {number}", do="acquire", timeout_s=20)["got"]
        newcomer.ask(f"release again {number}", do="release")
    busy.tell(stop=True)
    busy.hear("done")
    until(lambda: is_quiet(read_snapshot(ledger)), "the slot that could not be released at once is released")
    assert witness.inside == 0


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs /proc/locks to see who has a lock")
def test_a_waiter_times_out_while_the_lock_is_stuck(crew: Crew, ledger: Path, witness: Witness, witness_path: Path) -> None:
    """A call that already waits, in a thread or a task, ends in time although it cannot withdraw; its ticket goes later."""
    holder, waiter = (crew.puppet(ledger, max_in_flight=1) for _ in range(2))
    assert holder.ask("held", do="acquire")["got"]
    busy = crew.start("process_bodies", "ask_for_other_buckets", state=ledger, max_in_flight=1)
    waiter.tell(name="thread", do="begin", timeout_s=3)
    waiter.tell(name="task", do="begin_task", timeout_s=3)
    until(lambda: waiting(ledger) == 2, "they wait")
    with stopped_in_transaction(busy, ledger):
        for name in ("thread", "task"):
            answer = waiter.hear(name, 15)
            assert answer["error"] == "SlotTimeout"
    until(lambda: waiting(ledger) == 0, "their tickets are withdrawn")
    assert in_flight(ledger, "p/m") == 1
    holder.ask("release held", do="release")
    assert waiter.ask("again", do="acquire", timeout_s=5)["got"]
    assert witness.peak == 0


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs /proc/locks to see who has a lock")
def test_killed_inside_a_transaction_others_go_on(crew: Crew, ledger: Path, witness: Witness, witness_path: Path) -> None:
    """A process that is killed while it has the file lock leaves the others able to go on at once."""
    puppet = crew.puppet(ledger, max_in_flight=2)
    assert puppet.ask("first", do="acquire")["got"]
    for number in range(5):
        # One thread: another one might stand still with the witness's lock, which the kill needs.
        busy = crew.storm(ledger, witness_path, threads=1, hold_s=0.0, max_in_flight=2)
        with stopped_in_transaction(busy, ledger):
            busy.kill(witness)
        answer = puppet.ask(f"slot {number}", do="acquire", timeout_s=2)
        assert answer["got"], answer
        puppet.ask(f"release slot {number}", do="release")
    assert read_snapshot(ledger).buckets[0].in_flight == 1


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs /proc/locks to see who has a lock")
def test_a_lock_file_deleted_inside_a_transaction_costs_no_slot(
    crew: Crew, ledger: Path, witness: Witness, witness_path: Path
) -> None:
    """While a process stands still in a transaction its lock file is deleted, and a newcomer comes in through a new one.

    Where it stood still between its last look at the lock and its write, it writes over the newcomer's; all is well soon after.
    """
    busy = crew.storm(ledger, witness_path, threads=2, hold_s=0.001, max_in_flight=1)
    for number in range(8):
        with stopped_in_transaction(busy, ledger):
            Path(f"{ledger}.lock").unlink()
            newcomer = crew.puppet(ledger, max_in_flight=1)
            answer = newcomer.ask("wanted", do="acquire", timeout_s=0.2)
            if answer["got"]:
                witness.enter()
        if answer["got"]:
            goal = witness.served + 1
            until(lambda goal=goal: waiting(ledger) >= 2 or witness.served >= goal, f"it goes on {number}")  # type: ignore[misc]
            witness.leave()
        newcomer.end()
    assert witness.peak <= 2
    busy.tell(stop=True)
    busy.hear("done")
    until(lambda: in_flight(ledger) == 0 and waiting(ledger) == 0, "everything is given back")
