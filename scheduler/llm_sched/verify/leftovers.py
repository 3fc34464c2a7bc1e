"""What is left of a phase when all its processes are gone."""

# Law: first a call as anybody would make it, which must find every slot free and tidies up after the dead; then look.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_sched.errors import SchedulerError
from llm_sched.scheduler import Scheduler
from llm_sched.snapshot import read_snapshot
from llm_sched.store.file import folder_of, lock_path
from llm_sched.store.location import local_path
from llm_sched.verify.plan import PROVIDER

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from llm_sched.scheduler import Slot
    from llm_sched.verify.plan import BucketPlan

_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What must be nothing.

    Attributes:
        leases: slots that the ledger lists as held.
        tickets: calls that it lists as waiting.
        owners: processes that it lists.
        files: names of files that neither are the ledger nor belong beside it.
        refused: why a slot could not be had, for each that could not.
    """

    leases: int = 0
    tickets: int = 0
    owners: int = 0
    files: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def look(state: Path, buckets: Iterable[BucketPlan]) -> Leftovers:
    """Take all slots of every bucket once, give them back, leave, and count what there is.

    Args:
        state: the ledger.
        buckets: those that were used.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    refused: list[str] = []
    for bucket in dict.fromkeys(buckets):
        refused += _try_all(bucket, state)
    snapshot = read_snapshot(state)
    return Leftovers(
        leases=sum(bucket.in_flight for bucket in snapshot.buckets),
        tickets=sum(bucket.waiting for bucket in snapshot.buckets),
        owners=len(snapshot.owners),
        files=tuple(_strays(local_path(state))),
        refused=tuple(refused),
    )


def _try_all(bucket: BucketPlan, state: Path) -> list[str]:
    scheduler = Scheduler(bucket.policy(state))
    slots: list[Slot] = []
    try:
        while len(slots) < bucket.max_in_flight:
            slots.append(scheduler.acquire(provider=PROVIDER, model=bucket.model, timeout_s=_PATIENCE_S))
    except SchedulerError as error:
        return [str(error)]
    finally:
        for slot in slots:
            slot.release()
        scheduler.close()
    return []


def _strays(state: Path) -> list[str]:
    expected = {state, lock_path(state), state.with_name(f"{state.name}.copy"), folder_of(state)}
    beside = [path for path in state.parent.iterdir() if path not in expected]
    inside = list(folder_of(state).iterdir()) if folder_of(state).is_dir() else []
    return sorted(str(path.relative_to(state.parent)) for path in (*beside, *inside))
