"""Looking at a ledger: one look a call, one read at most, and nothing missed."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tui_support import bucket, holder, snapshot

from llm_sched import LedgerError, Policy, Scheduler
from llm_sched.snapshot import Snapshot, read_snapshot
from llm_sched_tui.source import RECHECK_S, LiveSource

if TYPE_CHECKING:
    from pathlib import Path


class Clock:
    """Both clocks, moved by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        """Seconds."""
        return self.at

    def late(self) -> float:
        """Time of day, long after any file was written."""
        return 4e9 + self.at


class Reads:
    """Counts reads of a real file with made-up contents."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self.seq = 1

    def __call__(self, _path: str | None) -> Snapshot:
        """Read."""
        self.count += 1
        shown = snapshot(bucket(holders=[holder()]), seq=self.seq)
        return Snapshot(str(self.path), 1, shown.seq, shown.updated_at, 0.1, "live", shown.buckets, shown.owners)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A file."""
    path = tmp_path / "ledger.json"
    path.write_text("1")
    return path


def test_a_file_that_did_not_change_is_not_read_again(ledger: Path) -> None:
    """But for a look now and then whether its owners still live."""
    clock, reads = Clock(), Reads(ledger)
    source = LiveSource("x", reads, clock.now, clock.late)
    assert source.poll()[0].changed
    clock.at += 0.25
    assert not source.poll()[0].changed
    assert reads.count == 1
    clock.at += RECHECK_S
    unchanged = source.poll()[0]
    assert reads.count == 2
    assert not unchanged.changed
    assert unchanged.taken == 0.0
    clock.at += 0.25
    source.poll()
    assert reads.count == 2


def test_a_change_is_read_once_however_many_writes_it_was(ledger: Path) -> None:
    """One read a look."""
    clock, reads = Clock(), Reads(ledger)
    source = LiveSource("x", reads, clock.now, clock.late)
    source.poll()
    for number in range(100):
        ledger.write_text("1" * number)
    reads.seq, clock.at = 101, 0.25
    assert source.poll()[0].changed
    assert reads.count == 2


def test_a_read_that_came_right_after_a_write_is_not_trusted(ledger: Path) -> None:
    """Another write may carry the same time stamp."""
    clock, reads = Clock(), Reads(ledger)
    written = ledger.stat().st_mtime
    source = LiveSource("x", reads, clock.now, lambda: written + 0.001)
    source.poll()
    source.poll()
    assert reads.count == 2


def test_an_owner_that_died_is_a_change(ledger: Path) -> None:
    """Although nobody wrote."""
    clock, reads = Clock(), Reads(ledger)
    source = LiveSource("x", reads, clock.now, clock.late)
    alive = source.poll()[0]

    def dead(_path: str | None) -> Snapshot:
        before = alive.snapshot
        gone = [type(owner)(owner.pid, owner.user, owner.command, False, 0, 0, 0) for owner in before.owners]  # noqa: FBT003
        return Snapshot(before.path, 1, before.seq, before.updated_at, 9.0, "live", before.buckets, gone)

    source._read = dead  # noqa: SLF001 - the world changes under it
    clock.at += RECHECK_S
    assert source.poll()[0].changed


def test_what_may_not_be_read_is_said(ledger: Path) -> None:
    """The error's own words, and the next look tries again."""
    clock = Clock()

    def refuse(_path: str | None) -> Snapshot:
        raise LedgerError("no permission: use another file", path=str(ledger))

    source = LiveSource("x", refuse, clock.now, clock.late)
    reading = source.poll()[0]
    assert reading.refused == "no permission: use another file"
    assert reading.snapshot.path == str(ledger)
    assert source.poll()[0].refused == reading.refused
    source._read = Reads(ledger)  # noqa: SLF001 - the world changes under it
    assert source.poll()[0].refused == ""


def test_a_real_ledger_from_before_it_exists_until_it_is_gone(tmp_path: Path) -> None:
    """Absent, live, damaged, removed; and the monitor leaves no trace."""
    path = tmp_path / "deep" / "ledger.json"
    source = LiveSource(str(path))
    assert source.poll()[0].snapshot.state == "absent"
    assert not path.parent.exists()
    with closing(Scheduler(Policy(state_path=path))) as scheduler, scheduler.slot(model="m"):
        assert source.poll()[0].snapshot.buckets[0].in_flight == 1
    path.write_text("{damaged")
    (tmp_path / "deep" / "ledger.json.copy").unlink()
    assert source.poll()[0].snapshot.state == "corrupt"
    path.write_text('{"hello": 1}')
    assert source.poll()[0].snapshot.state == "foreign"
    path.unlink()
    assert source.poll()[0].snapshot.state == "absent"


def test_it_takes_no_lock(tmp_path: Path) -> None:
    """A writer can hold the lock for ever."""
    path = tmp_path / "ledger.json"
    with closing(Scheduler(Policy(state_path=path))) as scheduler, scheduler.slot(model="m"):
        lock = os.open(f"{path}.lock", os.O_RDWR)
        fcntl = pytest.importorskip("fcntl", reason="needs flock")
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            assert LiveSource(str(path)).poll()[0].snapshot.buckets[0].in_flight == 1
        finally:
            os.close(lock)


def test_the_default_path_is_the_one_of_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's."""
    monkeypatch.setenv("MAS_LLM_SCHEDULER_STATE", str(tmp_path / "from-environment.json"))
    assert LiveSource().poll()[0].snapshot.path == read_snapshot().path == str(tmp_path / "from-environment.json")
