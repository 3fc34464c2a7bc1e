"""What the live display shows at one instant, as frozen values."""

# Law: pure. Progress, the ledger's snapshot and the provider's counters in, a view out. It knows no terminal.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_sched import Snapshot
    from llm_sched.demo.messages import Style
    from llm_sched.demo.progress import Progress, WorkerProgress
    from llm_sched.demo.witness import ProviderStats
    from llm_sched.snapshot import BucketView


@dataclass(frozen=True, slots=True)
class OwnBucket:
    """The bucket that the demo's calls go through, and its cap."""

    name: str
    cap: int


@dataclass(frozen=True, slots=True)
class BucketRow:
    """One bucket of the ledger: `cap` 0 = none, `oldest_wait_s` in seconds."""

    name: str
    in_flight: int
    cap: int
    waiting: int
    oldest_wait_s: float


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker; `held` and `waiting` are None when nothing is scheduled."""

    name: str
    style: Style
    pid: int
    held: int | None
    waiting: int | None
    done: int
    failed: int
    calls: int


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """The stub provider: requests inside now and at most, and how many it refused."""

    current: int
    peak: int
    refused: int


@dataclass(frozen=True, slots=True)
class View:
    """The whole picture. `elapsed_s` is since the workers began, None before that."""

    cap: int
    elapsed_s: float | None
    done: int
    failed: int
    calls: int
    buckets: tuple[BucketRow, ...]
    workers: tuple[WorkerRow, ...]
    provider: ProviderRow | None

    @property
    def calls_per_s(self) -> float:
        """Calls that ended, per second since the beginning."""
        return self.done / self.elapsed_s if self.elapsed_s else 0.0


def view_of(
    progress: Progress,
    snapshot: Snapshot | None,
    stats: ProviderStats | None,
    own: OwnBucket,
    elapsed_s: float | None,
) -> View:
    """Put together what is known. `snapshot` None: nothing is scheduled; `stats` None: there is no stub.

    The cap of the demo's `own` bucket is known even when the ledger has no live policy for it.
    """
    workers = tuple(_worker(entry, snapshot) for entry in progress.workers.values())
    buckets = snapshot.buckets if snapshot is not None else ()
    return View(
        cap=own.cap,
        elapsed_s=elapsed_s,
        done=sum(row.done for row in workers),
        failed=sum(row.failed for row in workers),
        calls=sum(row.calls for row in workers),
        buckets=tuple(_bucket(row, own.cap if row.name == own.name else 0) for row in buckets),
        workers=workers,
        provider=None if stats is None else ProviderRow(stats.current, stats.peak, stats.refused),
    )


def _bucket(row: BucketView, usual_cap: int) -> BucketRow:
    return BucketRow(row.name, row.in_flight, row.max_in_flight or usual_cap, row.waiting, row.oldest_wait_s)


def _worker(entry: WorkerProgress, snapshot: Snapshot | None) -> WorkerRow:
    mine = [owner for owner in snapshot.owners if owner.pid == entry.pid] if snapshot is not None else []
    return WorkerRow(
        name=entry.task.worker,
        style=entry.task.style,
        pid=entry.pid,
        held=None if snapshot is None else sum(owner.in_flight for owner in mine),
        waiting=None if snapshot is None else sum(owner.waiting for owner in mine),
        done=entry.done,
        failed=entry.failed,
        calls=entry.task.calls,
    )
