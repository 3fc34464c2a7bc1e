"""The lock beside the ledger: `<state_path>.lock`, taken with filelock's primitive on a descriptor that is kept.

The law: threads queue at a lock in front, since they share the descriptor and the kernel does not tell them apart; a forked
child never unlocks its parent's descriptor; a lock file that was deleted and made again is not the same lock. The front
lock knows its owner: an interrupt at any instruction leaves nothing locked, and a signal handler that calls in again is
told "busy". A try-lock with jittered back-off, because a blocking `flock` hangs behind a stopped holder.
"""

from __future__ import annotations

import os
import random
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from llm_sched import host
from llm_sched.store import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

_SPIN_S = 0.00015
_NAP_FIRST_S = 0.00005
_NAP_SHARE = 0.1
_NAP_LAST_S = 0.004
_UNHURRIED_S = 0.0015
"""Who only wants to queue behaves as if he had waited that long: he neither spins nor comes back soon."""
_CLOSE_PATIENCE_S = 1.0


class FileLock:
    """An exclusive lock between all threads and processes that use the same path."""

    def __init__(self, path: Path, opener: Callable[[Path], int]) -> None:
        # Here and not at the top: filelock takes longer to import than all of llm_sched.
        from filelock import lock_descriptor, unlock_descriptor  # noqa: PLC0415

        self._path = path
        self._open = opener
        self._try = lock_descriptor
        self._unlock = unlock_descriptor
        self._front = threading.RLock()
        self._fd = -1
        self._pid = 0
        self._pressed = False  # somebody in a hurry has the front lock, or waits for it

    def is_mine(self) -> bool:
        """Whether this thread has the lock."""
        return self._front._is_owned()  # type: ignore[attr-defined,no-any-return] # noqa: SLF001 - as Condition does

    def acquire(self, deadline: float | None, *, yields: bool = False) -> None:
        """Take the lock.

        Args:
            deadline: `time.monotonic()` until which to try; None = try once without blocking.
            yields: let others who are in a hurry go first.

        Raises:
            BusyError: somebody else has it.
            OSError: the lock file cannot be opened.
        """
        if not yields:
            self._pressed = True
        if deadline is None:
            if not self._front.acquire(blocking=False):
                raise BusyError
        elif not self._front.acquire(timeout=min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)):
            raise BusyError(host.lock_holder(self._path))
        try:
            self._acquire_file(deadline)
            self._pressed = False
        except BaseException:
            self._front.release()
            raise

    def _acquire_file(self, deadline: float | None) -> None:
        begun = time.monotonic()
        while True:
            if self._pid != os.getpid():
                self.reset()
            if self._fd < 0:
                self._fd = self._open(self._path)
                self._pid = os.getpid()
            if self._try(self._fd, blocking=False):
                if self.is_current():
                    return
                self._unlock(self._fd)
                self.reset()
                continue
            if deadline is None:
                raise BusyError
            now = time.monotonic()
            if now >= deadline:
                raise BusyError(host.lock_holder(self._path))
            _back_off(now - begun + (0.0 if self._pressed else _UNHURRIED_S))

    def is_current(self) -> bool:
        """Whether others lock this very file: a deleted or replaced one has no name any more."""
        return os.fstat(self._fd).st_nlink > 0

    def release(self) -> None:
        """Free the lock if this thread has it."""
        if not self.is_mine():
            return
        try:
            self._unlock(self._fd)
        finally:
            self._front.release()

    @contextmanager
    def idle(self) -> Generator[bool]:
        """Let go of the descriptor, and run the block while no thread is inside; False if one does not come out."""
        if not self._front.acquire(timeout=_CLOSE_PATIENCE_S):
            yield False
            return
        try:
            self.reset()
            yield True
        finally:
            self._front.release()

    def reset(self) -> None:
        """Forget the descriptor: closed here, it stays locked for whoever else has it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def after_fork(self) -> None:
        """In a forked child: another thread of the parent may have held the front lock for ever."""
        self._front = threading.RLock()
        self.reset()


def _back_off(waited: float) -> None:
    """Wait a moment for the lock. Most transactions take 0.1 to 0.4 ms, and whoever holds a slot idle waits for this one."""
    if waited < _SPIN_S and hasattr(os, "sched_yield"):
        os.sched_yield()
        return
    pause = min(max(_NAP_FIRST_S, waited * _NAP_SHARE), _NAP_LAST_S)
    time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
