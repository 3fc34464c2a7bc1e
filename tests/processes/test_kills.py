"""`kill -9` at random instants: nothing is torn, nothing is lost, nothing is given twice."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Self

import pytest
from process_crew import until
from process_ledger import is_quiet, left_behind, owners

from llm_sched import Snapshot, read_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from process_crew import Child, Crew
    from process_witness import Witness

CAP = 4


class Reader:
    """Reads a ledger all the time, without its lock, and keeps every snapshot that is not whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.bad: list[Snapshot] = []
        self.reads = 0
        self.over: list[Snapshot] = []

    def _run(self) -> None:
        while not self._stopping.wait(0.0005):
            snapshot = read_snapshot(self._path)
            self.reads += 1
            if snapshot.state != "live":
                self.bad.append(snapshot)
            self.over += [snapshot for bucket in snapshot.buckets if bucket.in_flight > CAP]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


def start(crew: Crew, ledger: Path, witness: Path, kind: int) -> Child:
    """Start a child of one of several kinds."""
    plan = [{"threads": 12}, {"tasks": 12}, {"threads": 6, "tasks": 6}][kind % 3]
    return crew.storm(ledger, witness, max_in_flight=CAP, impatient=0.1, hold_s=0.003, **plan)


def kill_and_replace(crew: Crew, ledger: Path, witness: Witness, witness_path: Path, kills: int) -> list[Child]:
    """Kill children one after the other, each after a random number of further slots, and start others in their place."""
    crowd = [start(crew, ledger, witness_path, kind) for kind in range(4)]
    for number in range(kills):
        goal = witness.served + random.randrange(40)
        until(lambda goal=goal: witness.served >= goal, f"slots go on changing hands after {number} kills")  # type: ignore[misc]
        victim = crowd.pop(random.randrange(len(crowd)))
        victim.kill(witness, reap=bool(number % 3))
        crowd.append(start(crew, ledger, witness_path, number))
    return crowd


def check_kills(crew: Crew, ledger: Path, witness: Witness, witness_path: Path, kills: int) -> None:
    """Kill so many; then the cap, the file, the queue, the slots and the folder must be as if nothing had happened."""
    start(crew, ledger, witness_path, 0)
    until(lambda: witness.served > 0, "first slot")
    with Reader(ledger) as reader:
        crowd = [crew.children[0], *kill_and_replace(crew, ledger, witness, witness_path, kills)]
        for child in crowd:
            child.tell(stop=True)
        for child in crowd:
            child.hear("done")
    for child in crowd[1:]:
        child.end()
    assert reader.reads > kills
    assert reader.bad == []
    assert reader.over == []
    assert witness.peak == CAP
    assert not list(ledger.parent.glob("*.corrupt-*"))
    check_all_slots_are_there(crew, ledger)
    crowd[0].end()
    assert owners(ledger) == []
    assert left_behind(ledger) == []


def check_all_slots_are_there(crew: Crew, ledger: Path) -> None:
    """A newcomer gets every slot of the cap at once."""
    puppet = crew.puppet(ledger, max_in_flight=CAP)
    for number in range(CAP):
        assert puppet.ask(f"slot {number}", do="acquire", timeout_s=0)["got"]
    assert not puppet.ask("one too many", do="acquire", timeout_s=0)["got"]
    puppet.end()
    assert is_quiet(read_snapshot(ledger))


def test_thirty_kills_leave_everything_intact(crew: Crew, ledger: Path, witness: Witness, witness_path: Path) -> None:
    """After 30 kills at random instants no slot is lost, none was given twice, and the file was never torn."""
    check_kills(crew, ledger, witness, witness_path, 30)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_three_hundred_kills_leave_everything_intact(crew: Crew, ledger: Path, witness: Witness, witness_path: Path) -> None:
    """The same with 300 kills."""
    check_kills(crew, ledger, witness, witness_path, 300)
