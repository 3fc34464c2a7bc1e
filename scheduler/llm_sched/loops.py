"""How one event loop is rung: a FIFO that its selector watches while a task of it waits.

The law: no thread per waiter, nothing blocks the loop; at most one transaction of the ledger per turn of the loop, so that
other tasks run in between however many calls begin at once. Where there is no FIFO (Windows), the loop looks at its
cells every few milliseconds. May not know what a transaction does.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from llm_sched.calls import Call

_LOOK_EVERY_S = 0.01


class LoopDoor:
    """One loop's door; exists while calls of that loop wait.

    Args:
        loop: the running loop.
        number: of the FIFO, unique in the process while in use.
        listen: opens what becomes readable with a ring of that number; -1 = none, look now and then.
        look: called with the calls that wait behind this door when it rings.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        number: int,
        listen: Callable[[int], int],
        look: Callable[[Iterable[Call]], Iterable[Call]],
    ) -> None:
        self.loop = loop
        self.number = number
        self._fd = -1
        self._listen = listen
        self._look = look
        self._waiting: dict[Call, asyncio.Future[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._turn_taken = False
        self._turns: deque[asyncio.Future[None]] = deque()
        self.users = 0

    def open(self) -> None:
        """Begin to listen, or listen at the new FIFO where somebody had deleted the old; the owner's mailbox must exist."""
        if self._timer:
            return
        try:
            fd = self._listen(self.number)
            if fd != self._fd:
                if self._fd >= 0:
                    self.loop.remove_reader(self._fd)
                self._fd = fd
                if fd >= 0:
                    self.loop.add_reader(fd, self._on_ring)
        except (NotImplementedError, OSError):  # a loop without selectors, or a folder where no FIFO can be made
            self._fd = -1
        if self._fd < 0:
            self._timer = self.loop.call_later(_LOOK_EVERY_S, self._on_timer)

    def close(self) -> None:
        """Stop listening; the descriptor stays open for the next loop."""
        if self._timer:
            self._timer.cancel()
        if self._fd >= 0 and not self.loop.is_closed():
            self.loop.remove_reader(self._fd)

    async def turn(self) -> None:
        """Wait until this turn of the loop has not yet seen a transaction."""
        while self._turn_taken:
            future = self.loop.create_future()
            self._turns.append(future)
            try:
                await future
            except BaseException:
                if future.done() and not future.cancelled():  # the turn was ours: pass it on
                    self._next_turn()
                raise
        self._turn_taken = True
        self.loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn_taken = False
        while self._turns:
            future = self._turns.popleft()
            if not future.done():
                future.set_result(None)
                return

    async def park(self, call: Call, seconds: float) -> None:
        """Sleep until the call is rung or `seconds` have passed."""
        self.open()
        future = self.loop.create_future()
        self._waiting[call] = future
        timer = self.loop.call_later(seconds, _wake, future)
        try:
            # News that came before the call was listed here rang in vain.
            self._wake_all(self._look([call]))
            await future
        finally:
            timer.cancel()
            del self._waiting[call]

    def _on_ring(self) -> None:
        with suppress(OSError):
            os.read(self._fd, 4096)
        self.open()
        self._wake_all(self._look(list(self._waiting)))

    def _on_timer(self) -> None:
        self._wake_all(self._look(list(self._waiting)))
        self._timer = self.loop.call_later(_LOOK_EVERY_S, self._on_timer)

    def _wake_all(self, calls: Iterable[Call]) -> None:
        for call in calls:
            if call in self._waiting:
                _wake(self._waiting[call])


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
