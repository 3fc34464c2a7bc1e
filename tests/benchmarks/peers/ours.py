"""The scheduler under test, through its public names only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.peers.base import Backend

from llm_sched import Policy, Scheduler, read_snapshot

if TYPE_CHECKING:
    from tests.benchmarks.place import Place

    from llm_sched import Slot


def _state_path(place: Place) -> Path:
    return Path(place.folder) / "state.json"


class Ours:
    """A `Scheduler` of its own in each worker process."""

    def __init__(self, place: Place) -> None:
        """Make the scheduler; it opens nothing before its first slot."""
        policy = Policy(
            max_in_flight=place.cap,
            requests_per_minute=place.rpm,
            burst=place.burst,
            state_path=_state_path(place),
        )
        self._scheduler = Scheduler(policy)

    def acquire(self, timeout: float) -> Slot:
        """Take a slot."""
        return self._scheduler.acquire(provider="bench", model="m", timeout_s=timeout)

    def release(self, token: Slot) -> None:
        """Give it back."""
        token.release()


class OursBackend(Backend):
    """Counts come from the public snapshot; the cap is never judged by it."""

    name = "ours"
    version_of = "llm-sched"
    paces_rate = True

    def connect(self, place: Place) -> Ours:
        """Connect a worker process."""
        return Ours(place)

    def queued(self, place: Place) -> int:
        """Count the waiting calls that the processes have reported."""
        return sum(bucket.waiting for bucket in read_snapshot(_state_path(place)).buckets)

    def writes(self, place: Place) -> int:
        """Count the transactions so far: each has one sequence number."""
        return read_snapshot(_state_path(place)).seq


BACKEND = OursBackend()
