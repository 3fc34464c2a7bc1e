"""The design that everybody writes first: a locked JSON file, replaced on each change, and waiters that poll."""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock
from tests.benchmarks.peers.base import Backend

if TYPE_CHECKING:
    from tests.benchmarks.place import Place

POLL_S = 0.05
"""What filelock itself polls at, and what most such code sleeps."""


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Naive:
    """The reference: `FileLock` around read, decide and `os.replace`; no queue, poll every 50 ms."""

    def __init__(self, place: Place) -> None:
        """Remember the paths."""
        self._path = Path(place.folder) / "state.json"
        self._lock = FileLock(f"{self._path}.lock")
        self._cap = place.cap

    def acquire(self, timeout: float) -> str:
        """Try, sleep, and try again until a slot is free."""
        token, deadline = uuid.uuid4().hex, time.monotonic() + timeout
        while not self._try(token):
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(POLL_S)
        return token

    def release(self, token: str) -> None:
        """Take the lease out of the file."""
        with self._lock:
            held = self._read()
            held.pop(token, None)
            self._write(held)

    def _try(self, token: str) -> bool:
        with self._lock:
            held = {lease: pid for lease, pid in self._read().items() if _is_alive(pid)}
            if len(held) >= self._cap:
                return False
            held[token] = os.getpid()
            self._write(held)
            return True

    def _read(self) -> dict[str, int]:
        try:
            held: dict[str, int] = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        return held

    def _write(self, held: dict[str, int]) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(held))
        fresh.replace(self._path)


class NaiveBackend(Backend):
    """Needs nothing but a folder."""

    name = "naive"
    version_of = "filelock"

    def connect(self, place: Place) -> Naive:
        """Connect a worker process."""
        return Naive(place)


BACKEND = NaiveBackend()
