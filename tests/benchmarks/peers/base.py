# What the measurements may know of a peer. They ask for nothing else, so that all peers do the same work.
"""The two sides of a peer: `Peer` in each worker process, `Backend` in the process that measures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

    from tests.benchmarks.place import Place

TokenT = TypeVar("TokenT")


class Peer(Protocol[TokenT]):
    """One process's connection to the shared slots; every thread of the process uses the same one."""

    def acquire(self, timeout: float) -> TokenT:
        """Wait up to `timeout` seconds for a slot; raises some error when there was none."""

    def release(self, token: TokenT) -> None:
        """Give back the slot that `token` stands for."""


class Backend(ABC):
    """What the measuring process does for a peer: servers, set-up, clean-up and counters."""

    name: str
    version_of: str | None = None
    """The distribution whose version the report names."""
    paces_rate: bool = False
    """Whether it can hold a rate, and not only a cap."""

    @abstractmethod
    def connect(self, place: Place) -> Peer[Any]:
        """Connect a worker process. Called in the worker."""

    def missing(self) -> str | None:
        """Why this peer cannot take part on this machine, or None."""
        return None

    def serving(self, folder: Path) -> AbstractContextManager[object]:
        """Run what the peer needs for the whole run, with its files in `folder`."""
        del folder
        return nullcontext()

    def at(self, place: Place) -> AbstractContextManager[Place]:
        """Make the shared objects of one place, give it with the address filled in, and remove them again."""
        return nullcontext(place)

    def server_cpu_s(self) -> float:
        """CPU seconds used so far by processes that are not workers."""
        return 0.0

    def queued(self, place: Place) -> int | None:
        """How many calls wait by the peer's own count, or None when it cannot tell."""
        del place
        return None

    def writes(self, place: Place) -> int | None:
        """How often the shared state has been written so far, or None when it cannot tell."""
        del place
        return None
