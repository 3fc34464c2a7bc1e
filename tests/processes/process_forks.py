"""Bodies of children that fork, spawn, and end in all the ways in which processes end."""

from __future__ import annotations

import asyncio
import faulthandler
import multiprocessing
import os
import signal
import threading
from typing import Any

from process_child import hear, say

from llm_sched import Policy, Scheduler, SlotTimeout


def _try(scheduler: Scheduler, timeout_s: float = 0.0) -> bool:
    try:
        scheduler.acquire(provider="p", model="m", timeout_s=timeout_s)
    except SlotTimeout:
        return False
    return True


def _wait_for(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fork_while_holding(state: str, **policy: Any) -> None:
    """Hold a slot, fork; the child looks what it has, takes slots of its own, and ends."""
    scheduler = Scheduler(Policy(state_path=state, **policy))
    slot = scheduler.acquire(provider="p", model="m")
    pid = os.fork()
    if not pid:
        slot.release()
        say(name="child released", released=slot.released)
        mine = [scheduler.acquire(provider="p", model="m", timeout_s=0) for _ in range(int(policy["max_in_flight"]) - 1)]
        say(name="child", own=len(mine), more=_try(scheduler))
        hear()
        os._exit(0)
    say(name="parent", pid=os.getpid())
    say(name="child ended", code=_wait_for(pid))
    say(name="after", full=not _try_all_but_one(scheduler, int(policy["max_in_flight"])))
    slot.release()
    say(name="in the end", got=_try(scheduler))


def _try_all_but_one(scheduler: Scheduler, cap: int) -> bool:
    """Take all slots that are left; whether that is every one, which means that the first slot is lost."""
    slots = []
    try:
        for _ in range(cap):
            slots.append(scheduler.acquire(provider="p", model="m", timeout_s=0))  # noqa: PERF401 - one may fail
    except SlotTimeout:
        return False
    finally:
        for slot in slots:
            slot.release()
    return True


def leave_a_child_behind(state: str, *, waiters: int = 0, how: str, **policy: Any) -> None:
    """Hold a slot, with threads that wait, and start a child that outlives this process; then wait to be killed."""
    scheduler = Scheduler(Policy(state_path=state, **policy))
    slot = scheduler.acquire(provider="p", model="m")
    for _ in range(waiters):
        threading.Thread(target=scheduler.acquire, kwargs={"provider": "p", "model": "m"}, daemon=True).start()
    hear()
    if how == "os.fork":
        if not os.fork():
            say(name="orphan", pid=os.getpid())
            signal.pause()
    else:
        context: Any = multiprocessing.get_context(how)
        context.Process(target=_stay, daemon=False).start()
    say(name="holding", bucket=slot.bucket)
    signal.pause()


def _stay() -> None:
    say(name="orphan", pid=os.getpid())
    signal.pause()


def _use(state: str, policy: dict[str, Any], name: str) -> None:
    """What a child of multiprocessing does."""
    scheduler = Scheduler(Policy(state_path=state, **policy))
    scheduler.acquire(provider="p", model="m").release()
    with scheduler.slot(provider="p", model="m"):
        say(name=name, pid=os.getpid())


def start_with_multiprocessing(state: str, *, how: str, **policy: Any) -> None:
    """Hold a slot while a child of multiprocessing takes and gives back others, with a scheduler of its own."""
    scheduler = Scheduler(Policy(state_path=state, **policy))
    with scheduler.slot(provider="p", model="m"):
        context: Any = multiprocessing.get_context(how)
        child = context.Process(target=_use, args=(state, policy, "child"))
        child.start()
        child.join(60)
        say(name="child ended", code=child.exitcode)
        hear()
    say(name="done")


_inherited: list[Scheduler] = []


def _use_inherited(name: str) -> None:
    _inherited[0].acquire(provider="p", model="m")
    say(name=name, pid=os.getpid())


def fork_with_multiprocessing(state: str, **policy: Any) -> None:
    """Hold a slot; a forked child of multiprocessing uses the same scheduler object and ends without giving back."""
    _inherited.append(Scheduler(Policy(state_path=state, **policy)))
    with _inherited[0].slot(provider="p", model="m"):
        child = multiprocessing.get_context("fork").Process(target=_use_inherited, args=("child",))
        child.start()
        child.join(60)
        say(name="child ended", code=child.exitcode)
        hear()
    say(name="done")


def _come_and_go(scheduler: Scheduler) -> None:
    """In a forked child: take a slot, give it back, and end; one that hangs says where and counts as failed."""
    faulthandler.dump_traceback_later(30, exit=True)
    code = 1
    try:
        scheduler.acquire(provider="p", model="m", timeout_s=20).release()
        scheduler.close()
        code = 0
    finally:
        os._exit(code)


def fork_all_the_time(state: str, *, forks: int, **policy: Any) -> None:
    """Fork again and again while threads run transactions; each child takes and gives back slots and ends."""
    scheduler = Scheduler(Policy(state_path=state, **policy))
    # Python itself cannot fork safely while another thread imports; the first slot imports what the later ones need.
    scheduler.acquire(provider="p", model="m").release()
    stopping = threading.Event()

    def work() -> None:
        while not stopping.is_set():
            scheduler.acquire(provider="p", model="m").release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    codes = []
    for _ in range(forks):
        pid = os.fork()
        if not pid:
            _come_and_go(scheduler)
        codes.append(_wait_for(pid))
    stopping.set()
    for thread in threads:
        thread.join()
    say(name="done", failed=[code for code in codes if code])


def fork_with_loop(state: str, **policy: Any) -> None:
    """Fork while a loop waits; the child runs a loop of its own with the same scheduler."""
    scheduler = Scheduler(Policy(state_path=state, **policy))
    holder = scheduler.acquire(provider="p", model="m")

    async def wait(name: str) -> None:
        async with scheduler.slot(provider="p", model="m"):
            say(name=name)

    thread = threading.Thread(target=asyncio.run, args=(wait("parent got it"),))
    thread.start()
    hear()
    pid = os.fork()
    if not pid:
        asyncio.run(wait("child got it"))
        scheduler.close()
        os._exit(0)
    say(name="forked")
    hear()
    holder.release()
    thread.join()
    say(name="done", code=_wait_for(pid))


def nest_a_layer_in_a_child(state: str, **policy: Any) -> None:
    """Hold a slot with `with`, fork inside; child and parent each try a layer of the same bucket."""
    scheduler = Scheduler(Policy(state_path=state, **policy))
    with scheduler.slot(provider="p", model="m"):
        pid = os.fork()
        if not pid:
            say(name="child", got=_try_a_layer(scheduler))
            os._exit(0)
        _wait_for(pid)
        say(name="parent", got=_try_a_layer(scheduler))


def _try_a_layer(scheduler: Scheduler) -> bool:
    try:
        with scheduler.slot(provider="p", model="m", timeout_s=0):
            return True
    except SlotTimeout:
        return False
