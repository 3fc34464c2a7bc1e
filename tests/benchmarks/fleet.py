"""The worker processes of one measurement, seen from the process that measures."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tests.benchmarks.commands import NS, Cpu

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.commands import Command, Usage

AnswerT = TypeVar("AnswerT")

_ROOT = Path(__file__).parents[2]
_REPLY_S = 60.0
_GONE_S = 5.0


class WorkerError(RuntimeError):
    """A worker failed, died or did not answer in time; the measurement is worth nothing."""


class Worker:
    """One process and the pipe to it."""

    def __init__(self) -> None:
        """Start it; it is ready for commands at once, and obeys them when it has come up."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.benchmarks.worker", str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=_ROOT)
        self._pipe: Connection[Command[Any], tuple[bool, Any]] = Connection(ours.detach())

    def send(self, command: Command[object]) -> None:
        """Give it a command."""
        try:
            self._pipe.send(command)
        except OSError as error:
            message = f"worker {self._process.pid} has gone: {error}"
            raise WorkerError(message) from error

    def answer(self, within_s: float = _REPLY_S) -> Any:
        """Return the answer to the oldest command without one; `WorkerError` when there is none in time."""
        try:
            if not self._pipe.poll(within_s):
                message = f"worker {self._process.pid} did not answer within {within_s:.0f} s"
                raise WorkerError(message)
            is_done, answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            message = f"worker {self._process.pid} has gone"
            raise WorkerError(message) from error
        if not is_done:
            raise WorkerError(answer)
        return answer

    def ask(self, command: Command[AnswerT], within_s: float = _REPLY_S) -> AnswerT:
        """Give it a command and return its answer."""
        self.send(command)
        answer: AnswerT = self.answer(within_s)
        return answer

    def kill(self) -> int:
        """Send SIGKILL, leave the zombie alone, and return the instant (monotonic nanoseconds) of sending."""
        instant = time.monotonic_ns()
        self._process.kill()
        return instant

    def close(self) -> None:
        """End it."""
        self._pipe.close()

    def reap(self, deadline: float) -> None:
        """Wait until it has gone, and make sure that it goes soon after `deadline` (monotonic seconds)."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Fleet:
    """Workers that get the same kind of work at the same time. A context manager: none of them outlives it."""

    def __init__(self, size: int) -> None:
        """Start `size` workers."""
        self.workers: list[Worker] = []
        try:
            self.workers.extend(Worker() for _ in range(size))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return the fleet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all workers."""
        self.close()

    def ask_all(self, commands: Sequence[Command[AnswerT]], within_s: float = _REPLY_S) -> list[AnswerT]:
        """Give each worker its command, all at once, and return the answers; all within one time limit."""
        for worker, command in zip(self.workers, commands, strict=True):
            worker.send(command)
        deadline = time.monotonic() + within_s
        return [worker.answer(max(0.0, deadline - time.monotonic())) for worker in self.workers]

    def tell(self, command: Command[AnswerT], within_s: float = _REPLY_S) -> list[AnswerT]:
        """Give every worker the same command."""
        return self.ask_all([command] * len(self.workers), within_s)

    def usage(self) -> list[Usage]:
        """CPU time of each worker so far."""
        return self.tell(Cpu())

    def cpu_s(self) -> float:
        """CPU seconds that all workers have used so far."""
        return sum(usage.cpu_s for usage in self.usage())

    def close(self) -> None:
        """End all workers, and wait for them together."""
        for worker in self.workers:
            with suppress(OSError):
                worker.close()
        deadline = time.monotonic() + _GONE_S
        for worker in self.workers:
            worker.reap(deadline)
        self.workers = []


def shares(total: int, parts: int) -> list[int]:
    """Split `total` into `parts` whole numbers that differ by at most one."""
    return [total // parts + (part < total % parts) for part in range(parts)]


def instant_after(seconds: float) -> int:
    """Return the monotonic instant that lies `seconds` ahead, in nanoseconds."""
    return time.monotonic_ns() + int(seconds * NS)
