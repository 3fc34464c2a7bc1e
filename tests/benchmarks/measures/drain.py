"""Whether a long queue costs more per grant than a short one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tests.benchmarks.bench import CAP, MANY_PROCESSES
from tests.benchmarks.calls import NOT_YET, calls_of
from tests.benchmarks.commands import Collect, LetGo
from tests.benchmarks.fleet import Fleet, instant_after
from tests.benchmarks.measures.crowd import connect
from tests.benchmarks.measures.queued import queue_up
from tests.benchmarks.peers import OURS

if TYPE_CHECKING:
    from tests.benchmarks.bench import Bench
    from tests.benchmarks.peers.base import Backend

_SLOWEST_PER_S = 500
"""A long queue gets more time than the shortest by this many grants a second; slower than that is "never"."""


class Drain:
    """n threads in 16 processes wait behind held slots, which are then released; each gets one and returns it.

    From the first release to the last grant: CPU time of all processes (and the peer's server) per grant, grants per
    second, and, where the peer counts them, writes of the shared state per grant. Queueing up is not in it.
    """

    name = "drain"
    about = "cost per grant while a queue of n waiters drains"

    def applies(self, backend: Backend) -> bool:
        """Everybody."""
        del backend
        return True

    def run(self, bench: Bench, backend: Backend) -> dict[str, float]:
        """Measure all lengths, up to the first that takes too long."""
        figures: dict[str, float] = {}
        for waiters in bench.scale.drains:
            if backend.name != OURS and waiters > bench.scale.peers_drain:
                bench.remark(f"drain: only ours is asked for more than {bench.scale.peers_drain:,} waiters")
                break
            drained = self._drain(waiters, bench, backend)
            figures |= {f"drain.{waiters}.{name}": value for name, value in drained.items()}
            if math.isinf(drained["cpu_ms"]):
                break
        return figures

    def _drain(self, waiters: int, bench: Bench, backend: Backend) -> dict[str, float]:
        with (
            bench.place(backend, waiters=waiters) as place,
            Fleet(1) as holders,
            Fleet(min(MANY_PROCESSES, waiters)) as fleet,
        ):
            connect(holders, backend, place)
            connect(fleet, backend, place)
            granted = queue_up(fleet, holders.workers[0], backend, place, waiters)
            cpu_s = holders.cpu_s() + fleet.cpu_s() + backend.server_cpu_s()
            writes = backend.writes(place)
            limit_s = bench.scale.drain_limit_s + waiters / _SLOWEST_PER_S
            released = holders.workers[0].ask(LetGo(), within_s=limit_s + 30)
            deadline = instant_after(limit_s)
            logs = fleet.tell(Collect(deadline), within_s=limit_s + 30)
            cpu_s = holders.cpu_s() + fleet.cpu_s() + backend.server_cpu_s() - cpu_s
            written = None if writes is None else (backend.writes(place) or 0) - writes
        what = f"{backend.name}, drain of {waiters:,}"
        # Who had not finished by the deadline surely held until then, and nobody knows until when.
        calls = [call for call in calls_of(log.threads for log in logs) if call.granted != NOT_YET]
        holds = [*zip(granted, released, strict=True), *((call.granted, call.held_until(deadline)) for call in calls)]
        bench.witness.saw_holds(what, holds, CAP)
        late = sum(log.unfinished for log in logs)
        if late:
            errors = [error for log in logs for error in log.errors]
            bench.remark(f"{what}: {late:,} had no slot after {limit_s:g} s" + (f" ({errors[0]})" if errors else ""))
            return {"cpu_ms": math.inf, "per_s": (waiters - late) / limit_s}
        last = max(stamps[1] for log in logs for stamps in log.threads)
        figures = {"cpu_ms": 1e3 * cpu_s / waiters, "per_s": waiters / ((last - released[0]) / 1e9)}
        return figures if written is None else figures | {"writes": written / waiters}
