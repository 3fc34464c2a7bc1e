"""The worker processes, seen from their parent."""

# Law: starts them, hears them, ends them. What their messages mean is in `progress`.

from __future__ import annotations

import contextlib
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

from llm_sched.demo.lifeline import Child
from llm_sched.demo.messages import Go
from llm_sched.demo.progress import Progress
from llm_sched.demo.worker import main

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from llm_sched.demo.messages import Task


class Crew:
    """Worker processes as a context manager: none is left when it ends, however it ends."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        """Take the tasks; the processes start with `with`."""
        self._tasks = tasks
        self._children: dict[str, Child] = {}
        self._exit = contextlib.ExitStack()
        self.progress = Progress(tasks)

    def go(self) -> None:
        """Let every worker begin."""
        for child in self._children.values():
            with contextlib.suppress(OSError):  # one that died meanwhile is found by `collect`
                child.connection.send(Go())

    def collect(self, timeout_s: float) -> None:
        """Take in what the workers said, waiting up to `timeout_s` seconds for the first of it."""
        names = {child.connection: name for name, child in self._children.items()}
        for connection in wait(list(names), timeout_s):
            name = next(name for known, name in names.items() if known is connection)
            child = self._children[name]
            try:
                while child.connection.poll():
                    self.progress.note(child.connection.recv())
            except (EOFError, OSError):
                del self._children[name]
                self.progress.gone(name, child.exit_code())

    def __enter__(self) -> Self:
        """Start all workers; they load at the same time, and wait for `go`."""
        with self._exit:
            for task in self._tasks:
                child = Child(main, task, name=task.worker)
                self._exit.callback(child.stop)
                self._children[task.worker] = child
                self.progress.started(task.worker, child.pid)
            self._exit = self._exit.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End all workers, also in the middle of a call."""
        self._exit.close()
