# What a worker can be told. Commands are values that travel over a pipe; only `run` happens in the worker.
"""The commands of the worker processes, each with the work it stands for."""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tests.benchmarks.calls import FIELDS, NOT_YET, new_log
from tests.benchmarks.peers import backend

if TYPE_CHECKING:
    from array import array

    from tests.benchmarks.peers.base import Peer
    from tests.benchmarks.place import Place

AnswerT_co = TypeVar("AnswerT_co", covariant=True)

NS = 1_000_000_000
LONG_S = 600.0
"""Longer than any run: who still waits when a run is over is ended with its process."""


@dataclass(slots=True)
class Session:
    """What one worker process has open."""

    peer: Peer[Any] | None = None
    tokens: list[object] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    logs: list[array[int]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def connected(self) -> Peer[Any]:
        """Return the peer; `RuntimeError` before `Connect`."""
        if self.peer is None:
            message = "not connected"
            raise RuntimeError(message)
        return self.peer


class Command(Protocol[AnswerT_co]):
    """Runs in the worker and answers with something that pickles."""

    def run(self, session: Session) -> AnswerT_co:
        """Do the work."""


@dataclass(frozen=True, slots=True)
class Logs:
    """What the threads of one worker saw."""

    threads: list[array[int]]
    errors: list[str]
    cpu_s: float = 0.0
    unfinished: int = 0


@dataclass(frozen=True, slots=True)
class Connect:
    """Load a peer and meet the others at a place."""

    peer: str
    place: Place

    def run(self, session: Session) -> None:
        """Replace the peer of the last run."""
        session.peer = backend(self.peer).connect(self.place)


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds that one process has used until an instant (monotonic seconds)."""

    cpu_s: float
    at_s: float

    def load_since(self, before: Usage) -> float:
        """Return the share of one core used since `before`."""
        return (self.cpu_s - before.cpu_s) / (self.at_s - before.at_s)


@dataclass(frozen=True, slots=True)
class Cpu:
    """How much CPU time the process has used."""

    def run(self, session: Session) -> Usage:
        """Return that of all threads. With the instant, since a busy process answers late."""
        del session
        return Usage(time.process_time(), time.monotonic())


@dataclass(frozen=True, slots=True)
class Pairs:
    """Acquire and release in a hot loop, alone."""

    batches: int
    batch_s: float

    def run(self, session: Session) -> float:
        """Return the median over batches of the microseconds per pair."""
        peer = session.connected()
        return statistics.median(self._batch(peer) for _ in range(self.batches))

    def _batch(self, peer: Peer[Any]) -> float:
        begin, pairs = time.perf_counter(), 0
        while time.perf_counter() - begin < self.batch_s:
            for _ in range(10):
                peer.release(peer.acquire(LONG_S))
            pairs += 10
        return (time.perf_counter() - begin) / pairs * 1e6


@dataclass(frozen=True, slots=True)
class Hold:
    """Take slots in the worker's main thread, and keep them."""

    slots: int

    def run(self, session: Session) -> list[int]:
        """Return when each was granted."""
        peer, granted = session.connected(), []
        for _ in range(self.slots):
            session.tokens.append(peer.acquire(LONG_S))
            granted.append(time.monotonic_ns())
        return granted


@dataclass(frozen=True, slots=True)
class LetGo:
    """Release all that is held, one after the other."""

    def run(self, session: Session) -> list[int]:
        """Return when each release began."""
        peer, released = session.connected(), []
        while session.tokens:
            released.append(time.monotonic_ns())
            peer.release(session.tokens.pop(0))
        return released


def _call(peer: Peer[Any], log: array[int], hold_s: float, timeout_s: float) -> None:
    """Make one call, stamping `log` on the way. Extending an array holds the GIL, so a row is never half there."""
    log.extend((time.monotonic_ns(), NOT_YET, NOT_YET, NOT_YET))
    token = peer.acquire(timeout_s)
    log[-3] = time.monotonic_ns()
    if hold_s:
        time.sleep(hold_s)
    log[-2] = time.monotonic_ns()
    peer.release(token)
    log[-1] = time.monotonic_ns()


@dataclass(frozen=True, slots=True)
class Loop:
    """Threads that call again and again from one instant to another (monotonic nanoseconds)."""

    threads: int
    hold_s: float
    go: int
    stop: int

    def run(self, session: Session) -> Logs:
        """Return the logs as they are at the end; who waits then goes on waiting until the process ends."""
        peer, errors = session.connected(), session.errors
        logs = [new_log() for _ in range(self.threads)]
        for log in logs:
            threading.Thread(target=self._repeat, args=(peer, log, errors), daemon=True).start()
        _sleep_until(self.go)
        cpu_s = time.process_time()
        _sleep_until(self.stop)
        cpu_s = time.process_time() - cpu_s
        return Logs([log[:] for log in logs], errors[:], cpu_s)

    def _repeat(self, peer: Peer[Any], log: array[int], errors: list[str]) -> None:
        try:
            _sleep_until(self.go)
            while time.monotonic_ns() < self.stop:
                _call(peer, log, self.hold_s, LONG_S)
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is a result, to be reported
            errors.append(repr(error))


@dataclass(frozen=True, slots=True)
class Queue:
    """Threads that call once each, and find no slot free for now."""

    threads: int
    timeout_s: float = LONG_S

    def run(self, session: Session) -> None:
        """Return when all of them have called; they stay in the session."""
        peer = session.connected()
        session.logs = [new_log() for _ in range(self.threads)]
        session.threads = [
            threading.Thread(target=self._once, args=(peer, log, session.errors), daemon=True) for log in session.logs
        ]
        for thread in session.threads:
            thread.start()
        while not all(session.logs):
            time.sleep(0.005)

    def _once(self, peer: Peer[Any], log: array[int], errors: list[str]) -> None:
        try:
            _call(peer, log, 0, self.timeout_s)
        except Exception as error:  # noqa: BLE001 - whatever a peer raises is a result, to be reported
            errors.append(repr(error))


@dataclass(frozen=True, slots=True)
class Collect:
    """Wait for the threads of `Queue`."""

    deadline: int

    def run(self, session: Session) -> Logs:
        """Return their logs, and how many had not finished by the deadline."""
        for thread in session.threads:
            thread.join(max(0.0, (self.deadline - time.monotonic_ns()) / NS))
        logs = [log[:] for log in session.logs]
        unfinished = sum(log[FIELDS - 1] == NOT_YET for log in logs)
        return Logs(logs, session.errors[:], unfinished=unfinished)


def _sleep_until(instant: int) -> None:
    while (left := instant - time.monotonic_ns()) > 0:
        time.sleep(left / NS)
