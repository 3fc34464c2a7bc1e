"""Our scheduler and its peers, by name, in the order of the report's columns."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.benchmarks.peers.base import Backend

OURS = "ours"

# A worker imports only the peer it was started for: its memory and start-up are not the others' sum.
_MODULES = {
    OURS: "ours",
    "naive": "naive",
    "portalocker": "portalocker_files",
    "redis": "redis_lease",
    "posix_ipc": "kernel",
}
NAMES = tuple(_MODULES)


def backend(name: str) -> Backend:
    """Return the backend called `name`; `ImportError` when its library is not installed."""
    module = import_module(f"{__name__}.{_MODULES[name]}")
    made: Backend = module.BACKEND
    return made
