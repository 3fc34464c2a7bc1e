"""What waiting costs while nothing happens."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.benchmarks.bench import CAP, MANY_PROCESSES, MANY_WAITERS
from tests.benchmarks.commands import Usage
from tests.benchmarks.fleet import Fleet
from tests.benchmarks.measures.crowd import connect
from tests.benchmarks.measures.queued import queue_up

if TYPE_CHECKING:
    from tests.benchmarks.bench import Bench
    from tests.benchmarks.peers.base import Backend


class Idle:
    """All slots are held by one process while 512 threads in 16 others wait.

    CPU time of all of them, and of the peer's server, over some seconds, as a percentage of one core. Nobody is
    granted anything after the holder, so the witness has nothing to see.
    """

    name = "idle"
    about = f"CPU while {MANY_WAITERS} threads in {MANY_PROCESSES} processes wait"

    def applies(self, backend: Backend) -> bool:
        """Everybody."""
        del backend
        return True

    def run(self, bench: Bench, backend: Backend) -> dict[str, float]:
        """Measure once."""
        with (
            bench.place(backend, waiters=MANY_WAITERS) as place,
            Fleet(1) as holders,
            Fleet(MANY_PROCESSES) as fleet,
        ):
            connect(holders, backend, place)
            connect(fleet, backend, place)
            granted = queue_up(fleet, holders.workers[0], backend, place, MANY_WAITERS)
            before = _usage(holders, fleet, backend)
            time.sleep(bench.scale.idle_s)
            after = _usage(holders, fleet, backend)
        end = time.monotonic_ns()
        bench.witness.saw_holds(f"{backend.name}, idle", [(instant, end) for instant in granted], CAP)
        return {"idle.cpu_pct": 100 * sum(map(Usage.load_since, after, before))}


def _usage(holders: Fleet, fleet: Fleet, backend: Backend) -> list[Usage]:
    return [*holders.usage(), *fleet.usage(), Usage(backend.server_cpu_s(), time.monotonic())]
