"""The slot that `llm-sched run` holds around a command, as the command's processes see it.

The law: `LLM_SCHED_LEASE` names one lease, `owner:number:bucket`; a process of the command may borrow it while its owner
lives, and a kernel lock on the lease's file lets one borrower in at a time, whichever process that is. A borrower that
runs a command of its own lends on: `number` becomes `number-pid`.
"""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

from llm_sched import host

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "LLM_SCHED_LEASE"


def lease_file(folder: Path, owner: str, number: str) -> Path:
    """The file whose lock is the right to borrow."""
    return folder / f"{owner}.{number}.lease"


class InheritedLoan:
    """A borrowed lease of a parent process."""

    def __init__(self, fd: int, owner: str, number: str) -> None:
        self._fds = [fd]
        self._pid = os.getpid()
        self.owner = owner
        self.number = number
        _borrowed.add(self)

    def give_back(self) -> None:
        """End borrowing. Idempotent: `list.pop` is atomic, so of two threads only one closes.

        Unlocked explicitly, since a forked child may still have the descriptor; but not by that child, whose parent borrows on.
        """
        with suppress(IndexError):
            fd = self._fds.pop()
            if self._pid == os.getpid():
                host.unlock(fd)
            os.close(fd)


_borrowed: weakref.WeakSet[InheritedLoan] = weakref.WeakSet()


def _after_fork() -> None:
    """In a forked child: it has not borrowed anything; a descriptor that it kept would lock for a parent that was killed."""
    for loan in list(_borrowed):
        loan.give_back()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def borrow_inherited(folder: Path, bucket: str) -> InheritedLoan | None:
    """Borrow what the environment names, if it is of that bucket and ledger, free and alive.

    Args:
        folder: the ledger's mailboxes.
        bucket: name of the bucket wanted.
    """
    owner, _, rest = os.environ.get(VARIABLE, "").partition(":")
    number, _, name = rest.partition(":")
    if name != bucket or not number.replace("-", "").isdigit() or "/" in owner:
        return None
    with suppress(OSError):
        box = os.open(folder / f"{owner}.box", os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        try:
            if not host.is_locked(box):
                return None
        finally:
            os.close(box)
        fd = os.open(lease_file(folder, owner, number), os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        if host.try_lock(fd):
            return InheritedLoan(fd, owner, number)
        os.close(fd)
    return None
