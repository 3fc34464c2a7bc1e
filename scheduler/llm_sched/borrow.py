"""Layers of one call share one slot.

The law: inside a held slot, a nested layer of the same bucket of the same ledger in the same thread or task borrows it,
whichever scheduler of the process it goes through; one borrower at a time, so a second call at the same time takes a slot of
its own. The slot follows the context (`contextvars`), so work handed to
a thread with the context may borrow; a task that was created while the slot was held is a call of its own.
"""

from __future__ import annotations

import os
import sys
import weakref
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextvars import Token

    from llm_sched.scheduler import Scheduler, Slot


class Loan:
    """A held slot as the context sees it."""

    __slots__ = ("_busy", "_pid", "_slot", "_task", "bucket", "ledger", "outer")

    def __init__(self, slot: Slot, ledger: object, outer: Loan | None) -> None:
        # Weak: what the context keeps must not keep a slot that its holder has dropped.
        self._slot = weakref.ref(slot)
        self.bucket = slot.bucket
        self.ledger = ledger
        self._busy: list[None] = [None]
        self.outer = outer
        self._pid = os.getpid()
        self._task = _current_task()

    def take(self) -> bool:
        """Borrow the slot, if it is free to be borrowed here. `list.pop` is atomic, so two threads cannot both."""
        slot = self._slot()
        if slot is None or slot.released or self._pid != os.getpid():
            return False
        if self._task is not None and _current_task() not in {None, self._task}:
            return False
        try:
            self._busy.pop()
        except IndexError:
            return False
        return True

    def give_back(self) -> None:
        """End borrowing."""
        self._busy.append(None)

    def is_held(self) -> bool:
        """Whether it, or one around it, is still a slot of this process."""
        slot = self._slot()
        held = slot is not None and not slot.released and self._pid == os.getpid()
        return held or (self.outer is not None and self.outer.is_held())

    def find(self, ledger: object, bucket: str) -> Loan | None:
        """The innermost loan of that bucket that can be borrowed; it is borrowed then."""
        loan: Loan | None = self
        while loan is not None:
            if loan.ledger == ledger and loan.bucket == bucket and loan.take():
                return loan
            loan = loan.outer
        return None


_current: ContextVar[Loan | None] = ContextVar("llm_sched_slot", default=None)


def _current_task() -> object:
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def borrow(scheduler: Scheduler, bucket: str) -> Loan | None:
    """Borrow the slot that a surrounding layer holds in that bucket of its ledger; None if there is none to borrow."""
    loan = _current.get()
    return loan.find(scheduler.ledger, bucket) if loan is not None else None


def is_inside_slot() -> bool:
    """Whether a layer around this one holds a slot, in any bucket."""
    loan = _current.get()
    return loan is not None and loan.is_held()


def lend(slot: Slot, scheduler: Scheduler) -> Token[Loan | None]:
    """Offer a slot of that scheduler to the layers inside; `withdraw` ends it."""
    return _current.set(Loan(slot, scheduler.ledger, _current.get()))


def withdraw(token: Token[Loan | None]) -> None:
    """End an offer, also where another context ends it than began it."""
    try:
        _current.reset(token)
    except ValueError:
        _current.set(token.old_value if token.old_value is not token.MISSING else None)
