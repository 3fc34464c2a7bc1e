"""Bodies of children that are interrupted, or end, in the midst of things."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from process_child import hear, say

from llm_sched import Policy, Scheduler, SchedulerError, SlotTimeout


def wait_in_main_thread(state: str, **policy: Any) -> None:
    """Wait for a slot in the main thread until interrupted."""
    scheduler = Scheduler(Policy(state_path=state, **policy))
    say(name="ready")
    try:
        scheduler.acquire(provider="p", model="m")
    except KeyboardInterrupt:
        say(name="interrupted")
    hear()


def wait_in_main_loop(state: str, **policy: Any) -> None:
    """Wait for a slot in the main thread's loop until interrupted."""
    scheduler = Scheduler(Policy(state_path=state, **policy))
    say(name="ready")
    try:
        asyncio.run(_acquire(scheduler))
    except KeyboardInterrupt:
        say(name="interrupted")
    hear()


async def _acquire(scheduler: Scheduler) -> None:
    await scheduler.acquire_async(provider="p", model="m")


def hold_in_main_thread(state: str, **policy: Any) -> None:
    """Hold a slot in a `with` block until interrupted."""
    scheduler = Scheduler(Policy(state_path=state, **policy))
    try:
        with scheduler.slot(provider="p", model="m"):
            say(name="holding")
            while True:
                signal.pause()
    except KeyboardInterrupt:
        say(name="interrupted")
    hear()


def storm_of_interrupts(state: str, *, seed: int, interrupts: int, **policy: Any) -> None:
    """Take and give back slots in the main thread while SIGINT after SIGINT comes, one at a time."""
    scheduler = Scheduler(Policy(state_path=state, **policy))
    chance = random.Random(seed)
    trap = Trap(interrupts, chance)
    thread = threading.Thread(target=trap.send)
    thread.start()
    while not trap.finished:
        try:
            trap.armed = True
            with scheduler.slot(provider="p", model="m", timeout_s=chance.choice((0.0, 0.002, 20.0))):
                pass
            trap.armed = False
        except SlotTimeout as error:
            trap.armed = False
            if error.waited_s > 10:
                say(name="stuck", text=str(error))
                raise
        except KeyboardInterrupt:
            continue
    thread.join()
    say(name="done")
    hear()


class Trap:
    """Sends SIGINT at random moments, and lets it raise KeyboardInterrupt only where the main thread is armed for it."""

    def __init__(self, interrupts: int, chance: random.Random) -> None:
        self.armed = False
        self.finished = False
        self._interrupts = interrupts
        self._chance = chance
        self._caught = 0
        signal.signal(signal.SIGINT, self._catch)

    def _catch(self, *_: object) -> None:
        self._caught += 1
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt

    def send(self) -> None:
        """Send them, each when the one before has arrived."""
        for number in range(1, self._interrupts + 1):
            time.sleep(self._chance.uniform(0, 0.003))  # the random moment itself: nothing waits for it
            os.kill(os.getpid(), signal.SIGINT)
            while self._caught < number:
                time.sleep(0.0001)
        self.finished = True


def end_while_others_wait(state: str, *, how: str, waiters: int, tasks: int, **policy: Any) -> None:
    """End while daemon threads hold, wait, and come and go."""
    scheduler = Scheduler(Policy(state_path=state, **policy))
    slot = scheduler.acquire(provider="p", model="m")

    def wait() -> None:
        with suppress(SchedulerError):  # an explicit `close` tells whoever waits
            scheduler.acquire(provider="p", model="m")

    for _ in range(waiters):
        threading.Thread(target=wait, daemon=True).start()

    def loop() -> None:
        with suppress(SchedulerError):
            asyncio.run(_wait_many(scheduler, tasks))

    if tasks:
        threading.Thread(target=loop, daemon=True).start()

    def come_and_go() -> None:
        while True:
            with suppress(SchedulerError):
                scheduler.acquire(provider="q", model="m").release()

    threading.Thread(target=come_and_go, daemon=True).start()
    say(name="ready", bucket=slot.bucket)
    hear()
    if how == "exit":
        sys.exit(0)
    if how == "close":
        scheduler.close()


async def _wait_many(scheduler: Scheduler, tasks: int) -> None:
    await asyncio.gather(*(scheduler.acquire_async(provider="p", model="m") for _ in range(tasks)))


def end_with_error(state: str, **policy: Any) -> None:
    """End through an error of its own while holding."""
    scheduler = Scheduler(Policy(state_path=state, **policy))
    slot = scheduler.acquire(provider="p", model="m")
    say(name="ready", bucket=slot.bucket)
    hear()
    sys.exit(3)


def end_after_dropping(state: str, **policy: Any) -> None:
    """Let a scheduler go out of scope shortly before the end of the program."""
    scheduler = Scheduler(Policy(state_path=state, **policy))
    scheduler.acquire(provider="p", model="m").release()
    say(name="ready")
    hear()
    del scheduler
    say(name="dropped")
    hear()
