"""A POSIX named semaphore: the floor. No order, and a killed holder's slot is gone for good."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from tests.benchmarks.peers.base import Backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.benchmarks.place import Place

# The library ships no types, so it is named here by what is used of it.
_posix_ipc = import_module("posix_ipc")


class _Semaphore(Protocol):
    def acquire(self, timeout: float | None = None) -> None: ...
    def release(self) -> None: ...


class Kernel:
    """The semaphore itself: nothing is cheaper across processes."""

    def __init__(self, place: Place) -> None:
        """Open the semaphore that the measuring process made."""
        self._semaphore: _Semaphore = _posix_ipc.Semaphore(f"/{place.name}")

    def acquire(self, timeout: float) -> None:
        """Wait in the kernel."""
        self._semaphore.acquire(timeout)

    def release(self, token: None) -> None:
        """Count it up again."""
        del token
        self._semaphore.release()


class KernelBackend(Backend):
    """The semaphore lives outside of every folder, so it has to be unlinked."""

    name = "posix_ipc"
    version_of = "posix-ipc"

    def connect(self, place: Place) -> Kernel:
        """Connect a worker process."""
        return Kernel(place)

    @contextmanager
    def at(self, place: Place) -> Iterator[Place]:
        """Create the semaphore with all slots free, and unlink it."""
        semaphore = _posix_ipc.Semaphore(f"/{place.name}", _posix_ipc.O_CREX, initial_value=place.cap)
        try:
            yield place
        finally:
            semaphore.unlink()
            semaphore.close()


BACKEND = KernelBackend()
