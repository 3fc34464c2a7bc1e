"""Identical calls in flight: one leads, in any process, and the others wait for what it brings.

The law: leading is a kernel lock on a file named after the call, so a leader that dies leads no more. A lock file that was
deleted is not the same lock as one that was made again.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from llm_sched.pipeline.cache_store import CacheError


class Flight:
    """The lead of one call, until `end()`. One that is dropped ends."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self._path = path
        _flights.add(self)

    def end(self) -> None:
        """Let the next one lead. Idempotent."""
        from filelock import unlock_descriptor  # noqa: PLC0415 - was loaded to begin it

        with _ending:
            fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):  # Windows deletes no open file; then it stays, empty
                self._path.unlink(missing_ok=True)
            unlock_descriptor(fd)  # closing alone does not, while a child of this process still has it
            os.close(fd)

    def abandon(self) -> None:
        """In a forked child: it is the parent's."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.end()


_flights: WeakSet[Flight] = WeakSet()
_ending = threading.RLock()


def _after_fork_in_child() -> None:
    global _ending  # noqa: PLW0603 - another thread of the parent may have held it
    _ending = threading.RLock()
    for flight in list(_flights):
        flight.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


class Flights:
    """The calls in flight of one store.

    Args:
        folder: where the lock files are; made with mode 0700.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def try_to_lead(self, key: str) -> Flight | None:
        """Lead the call with this key; None = somebody else does.

        Raises:
            CacheError: the folder cannot be used.
        """
        path = self._folder / f"{key}.lock"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return _lead(path)
        except OSError as error:
            message = f"cannot use {path}: {error}; set cache_path or MAS_LLM_CACHE, or single_flight: false"
            raise CacheError(message, path=str(path)) from error


def _lead(path: Path) -> Flight | None:
    from filelock import lock_descriptor  # noqa: PLC0415 - it takes longer to import than this whole package

    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        is_current = False
        try:
            is_ours = lock_descriptor(fd, blocking=False)
            is_current = is_ours and _is_current(fd, path)
        finally:
            if not is_current:
                os.close(fd)
        if is_current:
            return Flight(fd, path)
        if not is_ours:
            return None


def _is_current(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
