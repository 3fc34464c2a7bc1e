"""The workers of a phase, seen from their parent: started, killed and replaced, interrupted, and waited for."""

# Law: signals only children of its own that it has not yet reaped, and reads the clock before it kills.

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import replace
from multiprocessing import active_children
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

from llm_sched.demo.lifeline import Child
from llm_sched.verify.worker import READY, main

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from llm_sched.verify.plan import Task

_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows ends a process at once by either


class Crew:
    """Worker processes as a context manager: none is left when it ends, however it ends.

    Attributes:
        killed: when each worker was killed that was, by name: the instant just before, in seconds of CLOCK_MONOTONIC.
        crashed: what is known of workers that ended by themselves and badly.
        interrupts: how many SIGINTs were sent.
    """

    def __init__(self) -> None:
        self.killed: dict[str, float] = {}
        self.crashed: list[str] = []
        self.interrupts = 0
        self._living: dict[str, tuple[Task, Child]] = {}
        self._dying: dict[str, Child] = {}
        self._ready: set[str] = set()
        self._exit = contextlib.ExitStack()

    def start(self, task: Task) -> None:
        """Start a worker; it waits to be told until when to work."""
        child = Child(main, task, name=task.name)
        self._exit.callback(child.stop)
        self._living[task.name] = (task, child)

    def all_ready(self, timeout_s: float) -> bool:
        """Whether every worker can begin; waits up to `timeout_s` seconds for one more of them."""
        waiting = {name: child for name, (_, child) in self._living.items() if name not in self._ready}
        connections = {child.connection: name for name, child in waiting.items()}
        for connection in wait(list(connections), timeout_s):
            name = next(name for known, name in connections.items() if known is connection)
            try:
                if self._living[name][1].connection.recv() == READY:
                    self._ready.add(name)
            except (EOFError, OSError):
                _, child = self._living.pop(name)
                self.crashed.append(f"{name} did not start (exit code {child.exit_code()})")
        return all(name in self._ready for name in self._living)

    def work_until(self, until: float, name: str | None = None) -> None:
        """Tell all workers, or one, to work until `until` (seconds of CLOCK_MONOTONIC)."""
        for known, (_, child) in self._living.items():
            if name in {None, known}:
                with contextlib.suppress(OSError):  # it is gone; `all_gone` tells
                    child.connection.send(until)

    @property
    def names(self) -> list[str]:
        """The workers that have not been killed."""
        return list(self._living)

    @property
    def interruptible(self) -> list[str]:
        """The workers that expect SIGINT."""
        return [name for name, (task, _) in self._living.items() if task.kind == "interrupted"]

    def kill(self, name: str) -> Task:
        """Send a worker SIGKILL, and return its task; not reaped here, so it stays a zombie for a while."""
        task, child = self._living.pop(name)
        if child.pid in {process.pid for process in active_children()}:
            at = time.monotonic()
            os.kill(child.pid, _KILL)
            self.killed[name] = at
        self._dying[name] = child
        return task

    def interrupt(self, name: str) -> None:
        """Send a worker SIGINT."""
        child = self._living[name][1]
        if child.pid in {process.pid for process in active_children()}:
            os.kill(child.pid, signal.SIGINT)
            self.interrupts += 1

    def still_there(self, timeout_s: float) -> list[str]:
        """The workers that are still there, or a forked child of theirs is, after up to `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        everybody = {**self._dying, **{name: child for name, (_, child) in self._living.items()}}
        return [name for name, child in everybody.items() if not _has_gone(child, deadline)]

    def look_at_ends(self) -> None:
        """Note who did not end as he should; call it when all are gone."""
        for name, child in self._dying.items():
            code = child.exit_code()
            if name in self.killed and code is not None and code != -_KILL and os.name == "posix":
                del self.killed[name]  # it had ended before, so the time of the kill tells nothing
                self._note_crash(name, code)
        for name, (_, child) in self._living.items():
            self._note_crash(name, child.exit_code())

    def _note_crash(self, name: str, code: int | None) -> None:
        if code:
            self.crashed.append(f"{name} ended by itself with exit code {code}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End all that is left, also in the middle of a call."""
        self._exit.close()


def renamed(task: Task, number: int) -> Task:
    """The task of a worker's successor."""
    return replace(task, name=f"{task.name.partition('.')[0]}.{number}", seed=task.seed + 1000 * number)


def _has_gone(child: Child, deadline: float) -> bool:
    # Its end of the pipe is open in it and in its forked children until the last of them is gone.
    with contextlib.suppress(EOFError, OSError):
        while child.connection.poll(max(0.0, deadline - time.monotonic())):
            child.connection.recv()
        return False
    return True
