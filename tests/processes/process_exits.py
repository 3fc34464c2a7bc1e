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
    # An interrupt that lands in a finalizer cannot be raised there; Python prints it, which says nothing about slots.
    sys.unraisablehook = lambda it: None if it.exc_type is KeyboardInterrupt else sys.__unraisablehook__(it)
    caught = threading.Event()
    chance = random.Random(seed)

    def interrupt() -> None:
        for _ in range(interrupts):
            time.sleep(chance.uniform(0, 0.003))  # the random moment itself: nothing waits for it
            caught.clear()
            os.kill(os.getpid(), signal.SIGINT)
            caught.wait(10)
        finished.set()

    finished = threading.Event()
    thread = threading.Thread(target=interrupt)
    started = False
    while not finished.is_set():
        try:
            if not started:
                started = True
                thread.start()
            with scheduler.slot(provider="p", model="m", timeout_s=chance.choice((0.0, 0.002, 20.0))):
                pass
        except SlotTimeout as error:
            if error.waited_s > 10:
                say(name="stuck", text=str(error))
                raise
        except KeyboardInterrupt:
            caught.set()
    thread.join()
    say(name="done")
    hear()


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
