"""A snapshot of a file that is no living ledger: absent, corrupt, newer, foreign, unreadable; and of one that is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from llm_sched import LedgerError, Policy, Scheduler, codec, read_snapshot
from llm_sched.model import SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

    from llm_sched.snapshot import SnapshotState


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger is."""
    return tmp_path / "ledger.json"


@pytest.mark.parametrize(
    ("content", "state"),
    [
        (None, "absent"),
        (b"garbage", "corrupt"),
        (b'{"schema":1,"seq":', "corrupt"),
        (b"{}", "foreign"),
        (b'{"schema":%d,"buckets":{}}' % (SCHEMA + 1), "newer"),
    ],
)
def test_a_file_that_is_no_ledger_is_a_state_not_an_error(path: Path, content: bytes | None, state: SnapshotState) -> None:
    """Without buckets and times, and nothing is changed or made."""
    if content is not None:
        path.write_bytes(content)
    snapshot = read_snapshot(path)
    assert snapshot.to_dict() == {
        "path": str(path),
        "schema": SCHEMA,
        "seq": 0,
        "updated_at": None,
        "age_s": None,
        "state": state,
        "buckets": [],
        "owners": [],
    }
    assert [file.read_bytes() for file in path.parent.iterdir()] == ([] if content is None else [content])


def test_a_folder_is_an_error(path: Path) -> None:
    """Nobody can mean that."""
    path.mkdir()
    with pytest.raises(LedgerError, match="it is a folder"):
        read_snapshot(path)


def test_a_ledger_in_use_is_live(path: Path) -> None:
    """With who holds, as JSON that any program can read."""
    scheduler = Scheduler(Policy(state_path=path, user="ann"))
    with scheduler.slot(provider="openai", model="gpt-4o"):
        snapshot = read_snapshot(path)
    scheduler.close()
    (bucket,), (owner,) = snapshot.buckets, snapshot.owners
    assert (snapshot.state, bucket.name, bucket.in_flight) == ("live", "openai/gpt-4o", 1)
    assert (owner.user, owner.alive, owner.in_flight, owner.granted) == ("ann", True, 1, 1)
    assert json.loads(json.dumps(snapshot.to_dict()))["buckets"][0]["holders"][0]["user"] == "ann"


def test_a_ledger_that_everybody_has_left_is_live_and_keeps_its_totals(path: Path) -> None:
    """Nobody owns anything any more."""
    scheduler = Scheduler(Policy(state_path=path))
    scheduler.acquire().release()
    scheduler.close()
    snapshot = read_snapshot(path)
    assert (snapshot.state, snapshot.owners, snapshot.buckets[0].totals.granted) == ("live", [], 1)


def test_reading_takes_no_lock_and_changes_nothing(path: Path) -> None:
    """Neither bytes nor files."""
    scheduler = Scheduler(Policy(state_path=path))
    scheduler.acquire().release()
    before = {file: file.stat().st_mtime_ns for file in path.parent.rglob("*")}
    path.with_name("ledger.json.lock").unlink()
    del before[path.with_name("ledger.json.lock")]
    assert read_snapshot(path).state == "live"
    assert {file: file.stat().st_mtime_ns for file in path.parent.rglob("*")} == before
    scheduler.close()


def test_owners_of_another_boot_are_dead(path: Path) -> None:
    """Whatever their pids are now."""
    scheduler = Scheduler(Policy(state_path=path))
    with scheduler.slot():
        state = codec.decode(path.read_bytes())
        state.boot = "another boot"
        other = path.with_name("other.json")
        other.write_bytes(codec.encode(state))
        path.with_name("ledger.json.d").rename(path.with_name("other.json.d"))
        alive = [owner.alive for owner in read_snapshot(other).owners]
        path.with_name("other.json.d").rename(path.with_name("ledger.json.d"))
        alive += [owner.alive for owner in read_snapshot(path).owners]
    scheduler.close()
    assert alive == [False, True]


def test_without_a_path_the_environments_ledger_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `llm-sched status` does."""
    monkeypatch.setenv("MAS_LLM_SCHEDULER_STATE", str(path))
    assert read_snapshot().path == str(path)
