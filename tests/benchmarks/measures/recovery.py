"""How long a killed holder's slot is lost."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from tests.benchmarks.analysis import percentile
from tests.benchmarks.calls import NOT_YET
from tests.benchmarks.commands import NS, Collect, Connect, Hold, Queue
from tests.benchmarks.fleet import Fleet, instant_after

if TYPE_CHECKING:
    from tests.benchmarks.bench import Bench
    from tests.benchmarks.peers.base import Backend
    from tests.benchmarks.place import Place

_LIMIT_S = 3.0
"""Well over the lease of the slowest peer that recovers at all."""
_SETTLE_S = 0.15


class Recovery:
    """A process holds the only slot, a thread of another waits, and the holder is killed with SIGKILL.

    From the kill to the return of the waiter's acquire. The killed process is not waited for until then: it stays a
    zombie, as under many a parent. "Never" is more than three seconds; a peer that shows it once is not asked again
    in that round.
    """

    name = "recovery"
    about = "kill -9 of a holder until a waiting process has its slot"

    def applies(self, backend: Backend) -> bool:
        """Everybody."""
        del backend
        return True

    def run(self, bench: Bench, backend: Backend) -> dict[str, float]:
        """Measure several kills, one after the other."""
        times_s: list[float] = []
        with bench.place(backend, cap=1, waiters=1) as place, Fleet(1) as waiters:
            waiters.tell(Connect(backend.name, place))
            while len(times_s) < bench.scale.kills and math.inf not in times_s:
                times_s.append(self._kill(waiters, bench, backend, place))
        return {"recovery.p50_ms": 1e3 * percentile(times_s, 0.5), "recovery.max_ms": 1e3 * max(times_s)}

    def _kill(self, waiters: Fleet, bench: Bench, backend: Backend, place: Place) -> float:
        with Fleet(1) as holders:
            holders.tell(Connect(backend.name, place))
            granted = holders.tell(Hold(1))[0][0]
            waiters.tell(Queue(1, timeout_s=2 * _LIMIT_S))
            time.sleep(_SETTLE_S)
            killed = holders.workers[0].kill()
            log = waiters.tell(Collect(instant_after(_LIMIT_S)), within_s=2 * _LIMIT_S)[0].threads[0]
        _, taken, releasing, _ = log
        holds = [(granted, killed)] + ([(taken, max(taken, releasing))] if taken != NOT_YET else [])
        bench.witness.saw_holds(f"{backend.name}, recovery", holds, place.cap)
        return math.inf if taken == NOT_YET else (taken - killed) / NS
