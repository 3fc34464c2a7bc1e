"""Bodies of children in which a thread or a signal handler acts at the worst moment."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from process_child import say

from llm_sched import Policy, Scheduler, SlotTimeout, default, install
from llm_sched.store.file import FileStore

if TYPE_CHECKING:
    from collections.abc import Callable


def install_in_a_child(state: str, **policy: Any) -> None:
    """Fork while another thread is in the middle of `install`; the child installs a policy."""
    inside, leave = threading.Event(), threading.Event()
    real = default.Scheduler

    def slow(*arguments: Any, **options: Any) -> Scheduler:
        inside.set()
        leave.wait()
        return real(*arguments, **options)

    default.Scheduler = slow  # type: ignore[misc,assignment]
    thread = threading.Thread(target=install, args=(Policy(state_path=state),))
    thread.start()
    inside.wait()
    default.Scheduler = real  # type: ignore[misc]
    pid = os.fork()
    if not pid:
        say(name="child", max_in_flight=install(Policy(state_path=state, **policy)).max_in_flight)
        os._exit(0)
    os.waitpid(pid, 0)
    leave.set()
    thread.join()
    say(name="parent")


def be_interrupted(state: str, *, does: str, instant: str, **policy: Any) -> None:
    """Take a slot; at some instant a signal handler forks, or takes a slot as well, and all go on.

    Before the first use the child simply goes on where its parent is; a wait is its parent's, so it makes a call of its own.
    """
    scheduler = Scheduler(Policy(state_path=state, **policy))
    children: list[int] = []

    def handle(*_: object) -> None:
        if does == "fork":
            children.append(os.fork())
            if children == [0] and instant != "first use":
                scheduler.acquire(provider="p", model="m", timeout_s=30).release()
                _end_child(scheduler)
        else:
            with suppress(SlotTimeout):  # it may be the very thread it waits for that holds the slot
                scheduler.acquire(provider="p", model="m", timeout_s=0.1).release()
        say(name="handled")

    signal.signal(signal.SIGUSR1, handle)
    if instant == "first use":
        FileStore.open = _interrupted(FileStore.open)  # type: ignore[method-assign]
        scheduler.acquire(provider="p", model="m", timeout_s=30).release()
    else:
        _wait_for_a_slot(scheduler)
    if children == [0]:
        _end_child(scheduler)
    say(name="got it", pid=os.getpid())
    for child in children:
        os.waitpid(child, 0)
    say(name="done")


def _end_child(scheduler: Scheduler) -> None:
    say(name="got it", pid=os.getpid())
    scheduler.close()
    os._exit(0)


def _interrupted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a signal just before it, once."""
    pending = [signal.SIGUSR1]

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if pending:
            signal.raise_signal(pending.pop())
        return function(*arguments, **options)

    return interrupted


def _wait_for_a_slot(scheduler: Scheduler) -> None:
    """Wait until another thread gives its slot back, which it does when the waiter's watch has been started."""
    held = scheduler.acquire(provider="p", model="m")
    start = threading.Thread.start

    def started(thread: threading.Thread) -> None:
        if thread.name == "llm-sched-watch":
            threading.Thread.start = start  # type: ignore[method-assign]
            signal.raise_signal(signal.SIGUSR1)
        start(thread)
        if thread.name == "llm-sched-watch":
            held.release()

    threading.Thread.start = started  # type: ignore[method-assign]
    scheduler.acquire(provider="p", model="m", timeout_s=30).release()
