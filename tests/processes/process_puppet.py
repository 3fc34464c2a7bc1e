"""A child that does what it is told: acquire, release, wait in threads and tasks. Answers bear the order's name."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from process_child import hear, say

from llm_sched import Policy, Scheduler, SchedulerError, Slot


class Puppet:
    """Slots by name, and the orders.

    Args:
        scheduler: where the slots come from.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.slots: dict[str, Slot] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def acquire(self, name: str, timeout_s: float = 60.0) -> None:
        """Acquire in this thread."""
        try:
            slot = self.scheduler.acquire(provider="p", model="m", timeout_s=timeout_s)
        except SchedulerError as error:
            say(name=name, got=False, error=type(error).__name__, text=str(error))
        else:
            self.slots[name] = slot
            say(name=name, got=True, waited_s=slot.waited_s)

    def begin(self, name: str, timeout_s: float = 60.0, *, keep: bool = True) -> None:
        """Acquire in a daemon thread; without `keep`, release at once."""
        threading.Thread(target=self._acquire, args=(name, timeout_s, keep), daemon=True).start()

    def _acquire(self, name: str, timeout_s: float, keep: bool) -> None:  # noqa: FBT001
        self.acquire(name, timeout_s)
        if not keep and name in self.slots:
            self.slots.pop(name).release()

    def begin_task(self, name: str, timeout_s: float = 60.0, *, keep: bool = True) -> None:
        """Acquire in a task of a loop that runs in a daemon thread; without `keep`, release at once."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._acquire_async(name, timeout_s, keep), self._loop)

    async def _acquire_async(self, name: str, timeout_s: float, keep: bool) -> None:  # noqa: FBT001
        try:
            slot = await self.scheduler.acquire_async(provider="p", model="m", timeout_s=timeout_s)
        except SchedulerError as error:
            say(name=name, got=False, error=type(error).__name__, text=str(error))
        else:
            self.slots[name] = slot
            say(name=name, got=True, waited_s=slot.waited_s)
            if not keep:
                self.slots.pop(name).release()

    def release(self, name: str, slot: str = "") -> None:
        """Release the slot of that name."""
        self.slots.pop(slot or name.removeprefix("release ")).release()
        say(name=name)


def serve(state: str, **policy: Any) -> None:
    """Obey until there are no more orders."""
    puppet = Puppet(Scheduler(Policy(state_path=state, **policy)))
    say(name="ready")
    while order := hear():
        getattr(puppet, order.pop("do"))(**order)
