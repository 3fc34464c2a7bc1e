"""The process's doorbells: how a waiter sleeps, and how whoever grants wakes it.

Threads sleep on their own cell's futex word (Linux), tasks on their loop's FIFO; elsewhere both look at their own cell
now and then. A ring says only "look": it may come twice or be lost, and a slow check once a second makes up for that.
May not know why somebody is rung.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from llm_sched.mailbox import Mailbox

_FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "loongarch64": 98, "ppc64le": 221, "s390x": 238}
_FUTEX_WAIT = 0
_FUTEX_WAKE = 1
_POLL_FIRST_S = 0.001
_POLL_LAST_S = 0.02


class ThreadBell(Protocol):
    """How a thread sleeps on its cell."""

    def wait(self, box: Mailbox, cell: int, seen: bytes, timeout: float) -> None:
        """Return when the bell is no longer `seen`, after `timeout` seconds, or for no reason."""
        ...

    def wake(self, box: Mailbox, cell: int) -> None:
        """Wake whoever sleeps there."""
        ...


def ring(box: Mailbox, loop: int) -> None:
    """Ring the loop of that number behind a mailbox. Raises OSError when nobody listens."""
    fd = box.fifos.get(loop)
    if fd is None:
        fd = box.fifos[loop] = os.open(fifo_path(box.path, loop), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with contextlib.suppress(BlockingIOError):  # full: it has been rung often enough
        os.write(fd, b"!")


class FutexBell:
    """One futex word per waiting thread: no descriptor, no dispatcher, one system call to wake."""

    def __init__(self, number: int) -> None:
        import ctypes  # noqa: PLC0415 - only where somebody waits

        class Timespec(ctypes.Structure):
            _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))

        word, pointer = ctypes.c_uint, ctypes.c_void_p
        arguments = (ctypes.c_long, pointer, ctypes.c_int, word, pointer, pointer, word)
        self._timespec = Timespec
        self._byref = ctypes.byref
        self._number = number
        self._sleep: Callable[..., int] = ctypes.CFUNCTYPE(ctypes.c_long, *arguments)(("syscall", ctypes.CDLL(None)))
        # Waking keeps the GIL: who lets go of it in between may get it back only after another thread's turn.
        self._wake: Callable[..., int] = ctypes.PYFUNCTYPE(ctypes.c_long, *arguments)(("syscall", ctypes.PyDLL(None)))

    def wait(self, box: Mailbox, cell: int, seen: bytes, timeout: float) -> None:
        """See `ThreadBell`; a signal also returns, so that Ctrl-C is served at once."""
        seconds = int(timeout)
        limit = self._timespec(seconds, int((timeout - seconds) * 1e9))
        word = int.from_bytes(seen, sys.byteorder)
        self._sleep(self._number, box.address(cell), _FUTEX_WAIT, word, self._byref(limit), None, 0)

    def wake(self, box: Mailbox, cell: int) -> None:
        """See `ThreadBell`."""
        self._wake(self._number, box.address(cell), _FUTEX_WAKE, 1, None, None, 0)


class PollingBell:
    """Looks at the own cell, never at the ledger, every 1 to 20 ms."""

    def wait(self, box: Mailbox, cell: int, seen: bytes, timeout: float) -> None:
        """See `ThreadBell`."""
        end = time.monotonic() + timeout
        pause = _POLL_FIRST_S
        while box.look(cell).bell == seen and (left := end - time.monotonic()) > 0:
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, _POLL_LAST_S)

    def wake(self, box: Mailbox, cell: int) -> None:
        """Nothing to do: the waiter looks by itself."""


def thread_bell() -> ThreadBell:
    """The best bell of this platform."""
    number = _FUTEX_NUMBERS.get(platform.machine()) if sys.platform == "linux" and sys.maxsize > 2**32 else None
    return FutexBell(number) if number else PollingBell()


def has_fifos() -> bool:
    """Whether loops can be rung through a FIFO here."""
    return hasattr(os, "mkfifo")


def fifo_path(box: Path, loop: int) -> Path:
    """Where the loop of that number listens."""
    return box.with_suffix(f".{loop}.fifo")


def listen(box: Path, loop: int, mode: int) -> int:
    """Make a loop's FIFO and return a descriptor that never sees its end."""
    path = fifo_path(box, loop)
    path.unlink(missing_ok=True)  # left from an attempt that failed half way
    os.mkfifo(path, mode)
    if mode & 0o060:
        path.chmod(mode)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
