"""What the parent knows of its workers, from what they told it."""

# Law: takes messages in, keeps the sum. No process, no pipe, no clock.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_sched.demo.messages import CallRecord, Failure, Finished, Ready, Task

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(slots=True)
class WorkerProgress:
    """One worker so far. `done` are its calls that ended, `failed` those of them that ended badly."""

    task: Task
    pid: int = 0
    ready: bool = False
    finished: bool = False
    done: int = 0
    failed: int = 0
    failure: Failure | None = None

    @property
    def lost(self) -> int:
        """Calls that never were made, of a worker that has finished."""
        return self.task.calls - self.done if self.finished else 0


class Progress:
    """All workers so far, and every call."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        """Begin with workers that aren't ready."""
        self.workers = {task.worker: WorkerProgress(task) for task in tasks}
        self.records: list[CallRecord] = []

    def started(self, worker: str, pid: int) -> None:
        """Note a worker's process id."""
        self.workers[worker].pid = pid

    def note(self, message: object) -> None:
        """Note what a worker said."""
        match message:
            case Ready(worker):
                self.workers[worker].ready = True
            case CallRecord():
                entry = self.workers[message.worker]
                entry.done += 1
                entry.failed += message.failure is not None
                self.records.append(message)
            case Finished(worker, failure):
                entry = self.workers[worker]
                entry.ready = entry.finished = True
                entry.failure = failure
            case _:
                error = f"a worker said something unknown: {message!r}"
                raise TypeError(error)

    def gone(self, worker: str, exit_code: int | None) -> None:
        """Note that a worker's process has ended; before it was finished, that is a failure."""
        if not self.workers[worker].finished:
            detail = f"{worker} ended before its calls were made (exit code {exit_code})"
            self.note(Finished(worker, Failure("worker died", detail)))

    @property
    def all_ready(self) -> bool:
        """Whether every worker can begin, or never will."""
        return all(worker.ready for worker in self.workers.values())

    @property
    def all_finished(self) -> bool:
        """Whether nothing more is to come."""
        return all(worker.finished for worker in self.workers.values())
