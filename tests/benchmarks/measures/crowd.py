"""The one run that hand-off, throughput and rate share: threads in several processes that call in a loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.benchmarks.analysis import Window
from tests.benchmarks.calls import Call, calls_of
from tests.benchmarks.commands import NS, Connect, Loop
from tests.benchmarks.fleet import Fleet, WorkerError, instant_after, shares

if TYPE_CHECKING:
    from tests.benchmarks.bench import Bench
    from tests.benchmarks.peers.base import Backend
    from tests.benchmarks.place import Place

_START_S_PER_THREAD = 0.001
_START_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """How many threads in how many processes, and for how long: unmeasured `warm_up_s`, then `loop_s`."""

    threads: int
    processes: int
    hold_s: float
    warm_up_s: float
    loop_s: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What came out: all calls since `go`, the steady window, and the CPU time of all processes per grant."""

    calls: list[Call]
    go: int
    window: Window
    cpu_s_per_grant: float


def connect(fleet: Fleet, backend: Backend, place: Place) -> None:
    """Connect all workers, and wait until they have come up."""
    fleet.tell(Connect(backend.name, place))


def loop(bench: Bench, backend: Backend, place: Place, crowd: Crowd) -> Seen:
    """Run one crowd at a fresh `place`, and let the witness look at it."""
    with Fleet(crowd.processes) as fleet:
        connect(fleet, backend, place)
        go = instant_after(_START_S + crowd.threads * _START_S_PER_THREAD)
        length_s = crowd.warm_up_s + crowd.loop_s
        stop = go + int(length_s * NS)
        server_cpu_s = backend.server_cpu_s()
        commands = [Loop(threads, crowd.hold_s, go, stop) for threads in shares(crowd.threads, crowd.processes)]
        logs = fleet.ask_all(commands, within_s=length_s + 60)
        server_cpu_s = backend.server_cpu_s() - server_cpu_s
    errors = [error for log in logs for error in log.errors]
    if errors:
        message = f"{len(errors)} of {crowd.threads} threads failed, first: {errors[0]}"
        raise WorkerError(message)
    calls = calls_of(log.threads for log in logs)
    window = Window(go + int(crowd.warm_up_s * NS), stop)
    if place.cap:
        bench.witness.saw(f"{backend.name}, {crowd.threads} threads", calls, place.cap, stop)
    grants = sum(0 < call.granted <= stop for call in calls)
    return Seen(calls, go, window, (sum(log.cpu_s for log in logs) + server_cpu_s) / max(1, grants))
