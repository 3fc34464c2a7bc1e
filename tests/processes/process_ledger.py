"""What the tests look at in a ledger, through the public snapshot only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_sched import Snapshot, read_snapshot

if TYPE_CHECKING:
    from pathlib import Path


def waiting(path: Path) -> int:
    """How many calls wait, over all buckets."""
    return sum(bucket.waiting for bucket in read_snapshot(path).buckets)


def in_flight(path: Path, bucket: str = "") -> int:
    """How many slots are held, in all buckets or in one."""
    return sum(each.in_flight for each in read_snapshot(path).buckets if each.name == bucket or not bucket)


def owners(path: Path) -> list[int]:
    """Pids of the owners that the ledger lists."""
    return [owner.pid for owner in read_snapshot(path).owners]


def left_behind(path: Path) -> list[str]:
    """Names of what lies in the folder of the mailboxes."""
    return sorted(file.name for file in path.with_name(path.name + ".d").iterdir())


def is_quiet(snapshot: Snapshot) -> bool:
    """Whether nobody holds or waits."""
    return not any(bucket.in_flight or bucket.waiting for bucket in snapshot.buckets)
