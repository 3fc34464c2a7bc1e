"""`portalocker.NamedBoundedSemaphore`: one lock file per slot, all of them tried in turn at an interval."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from portalocker import NamedBoundedSemaphore
from tests.benchmarks.peers.base import Backend

if TYPE_CHECKING:
    from tests.benchmarks.place import Place

# The default of 250 ms would make its hand-offs look far worse than they need be. One look at eight taken slots
# costs about 0.25 ms of CPU, so this interval lets all waiters together use about one core for looking, and
# leaves the rest of the machine to those who hold.
_SHORTEST_INTERVAL_S = 0.005
_INTERVAL_PER_WAITER_S = 0.00025


class Portalocker:
    """One semaphore object per thread, since an object holds at most one slot."""

    def __init__(self, place: Place) -> None:
        """Remember the place; files are made at the first acquire."""
        self._place = place
        self._interval = max(_SHORTEST_INTERVAL_S, place.waiters * _INTERVAL_PER_WAITER_S)
        self._mine = threading.local()

    def acquire(self, timeout: float) -> NamedBoundedSemaphore:
        """Take any slot whose file is free, and look again at the interval while there is none."""
        free: list[NamedBoundedSemaphore] = self._mine.__dict__.setdefault("free", [])
        semaphore = free.pop() if free else self._new()
        semaphore.acquire(timeout=timeout, check_interval=self._interval)
        return semaphore

    def release(self, token: NamedBoundedSemaphore) -> None:
        """Unlock its file, and keep the object for this thread's next slot."""
        token.release()
        self._mine.__dict__.setdefault("free", []).append(token)

    def _new(self) -> NamedBoundedSemaphore:
        return NamedBoundedSemaphore(self._place.cap, name=self._place.name, directory=self._place.folder)


class PortalockerBackend(Backend):
    """Needs nothing but a folder."""

    name = "portalocker"
    version_of = "portalocker"

    def connect(self, place: Place) -> Portalocker:
        """Connect a worker process."""
        return Portalocker(place)


BACKEND = PortalockerBackend()
