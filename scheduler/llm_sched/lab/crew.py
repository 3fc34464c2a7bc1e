"""The worker processes, seen from their parent."""

# Law: starts them, hands out tasks, replaces those that die, ends them. What an outcome means is nobody's business here.
# A task that a worker took into its death is handed out again, but not for ever: it may be what kills.

from __future__ import annotations

import contextlib
from collections import Counter, deque
from dataclasses import replace
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Self

from llm_sched.demo.lifeline import Child
from llm_sched.errors import SchedulerError
from llm_sched.lab.messages import Done, Finish, Outcome, Ready, Setup, Task, Unusable
from llm_sched.lab.worker import main

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llm_sched.lab.messages import Key

MOST_DEATHS = 3
"""So often a task may take its worker with it; and so many workers may die before they are ready."""


class WorkError(SchedulerError):
    """The workers cannot do their work."""


class _Worker:
    """A process and the tasks that it has."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.child = Child(main, setup, name=f"lab-{setup.worker}")
        self.tasks: dict[Key, Task] = {}
        self.is_ready = False


class Crew:
    """Worker processes as a context manager: none is left when it ends, however it ends.

    Args:
        setup: what each is told.
        workers: how many.
        tasks: what there is to do.
    """

    def __init__(self, setup: Setup, workers: int, tasks: Sequence[Task]) -> None:
        self._setup = setup
        self._count = min(workers, -(-len(tasks) // setup.lanes))
        self._todo = deque(tasks)
        self._workers: dict[int, _Worker] = {}
        self._deaths: Counter[Key] = Counter()
        self._stillborn = 0

    @property
    def pids(self) -> set[int]:
        """The living workers' process ids."""
        return {worker.child.pid for worker in self._workers.values()}

    @property
    def is_done(self) -> bool:
        """Whether every task has an outcome."""
        return not self._todo and not any(worker.tasks for worker in self._workers.values())

    def collect(self, timeout_s: float) -> Iterator[Outcome]:
        """Hand out tasks, and take in what came of others, waiting up to `timeout_s` seconds for the first.

        Raises:
            WorkError: a worker says that nobody could work, or they die before they can begin.
        """
        for worker in list(self._workers.values()):
            self._feed(worker)
        connections = {worker.child.connection: worker for worker in self._workers.values()}
        for connection in wait(list(connections), timeout_s):
            worker = next(known for each, known in connections.items() if each is connection)
            yield from self._hear(worker)

    def finish(self) -> None:
        """Let the workers end by themselves; whoever does not soon is ended by `close`."""
        for worker in self._workers.values():
            with contextlib.suppress(OSError):
                worker.child.connection.send(Finish())
        for worker in self._workers.values():
            worker.child.exit_code()

    def _feed(self, worker: _Worker) -> None:
        while self._todo and worker.is_ready and len(worker.tasks) < self._setup.lanes:
            # One that was there when a worker died is done alone: so it takes no other with it, and none takes it.
            if worker.tasks and any(self._deaths[key] for key in (*worker.tasks, self._todo[0].key)):
                return
            task = self._todo.popleft()
            worker.tasks[task.key] = task
            with contextlib.suppress(OSError):  # its death is noticed when it is heard
                worker.child.connection.send(task)

    def _hear(self, worker: _Worker) -> Iterator[Outcome]:
        try:
            while worker.child.connection.poll():
                message: object = worker.child.connection.recv()
                if isinstance(message, Unusable):
                    raise WorkError(message.error)
                if isinstance(message, Ready):
                    worker.is_ready = True
                elif isinstance(message, Done):
                    del worker.tasks[message.outcome.key]
                    yield message.outcome
                self._feed(worker)
        except (EOFError, OSError):
            yield from self._bury(worker)

    def _bury(self, worker: _Worker) -> Iterator[Outcome]:
        """A worker has died: its tasks go back to the head of the queue, and another takes its place."""
        code = worker.child.exit_code()
        del self._workers[worker.setup.worker]
        worker.child.stop()
        if not worker.is_ready:
            self._stillborn += 1
            if self._stillborn >= MOST_DEATHS:
                raise WorkError(f"the worker processes end before they can begin (exit code {code})")
        for task in reversed(worker.tasks.values()):
            self._deaths[task.key] += 1
            if self._deaths[task.key] < MOST_DEATHS:
                self._todo.appendleft(task)
            else:
                yield Outcome(task.key, task.digest, error=f"its worker process died {MOST_DEATHS} times (exit code {code})")
        if self._todo:
            self._start(worker.setup.worker)

    def _start(self, number: int) -> None:
        self._workers[number] = _Worker(replace(self._setup, worker=number))

    def __enter__(self) -> Self:
        """Start all workers; they load at the same time."""
        try:
            for number in range(self._count):
                self._start(number)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End all workers, also in the middle of a call."""
        self.close()

    def close(self) -> None:
        """See `__exit__`."""
        while self._workers:
            _, worker = self._workers.popitem()
            worker.child.stop()
