"""Whether a rate is reached, and shared fairly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks import analysis
from tests.benchmarks.bench import FEW_PROCESSES
from tests.benchmarks.measures.crowd import Crowd, loop

if TYPE_CHECKING:
    from tests.benchmarks.bench import Bench
    from tests.benchmarks.peers.base import Backend

_THREADS = 64
_RPM = 3_000
_BURST = 1


class Rate:
    """64 threads in 8 processes want more than 3,000 calls a minute; a slot for each, so that only the rate paces.

    Rate reached: grants over the whole time, as a share of the burst and 50 a second, which is all there can be.
    """

    name = "rate"
    about = f"rate reached and fairness at {_RPM} a minute, burst {_BURST}, {_THREADS} threads"

    def applies(self, backend: Backend) -> bool:
        """Only who can hold a rate."""
        return backend.paces_rate

    def run(self, bench: Bench, backend: Backend) -> dict[str, float]:
        """Measure once."""
        crowd = Crowd(threads=_THREADS, processes=FEW_PROCESSES, hold_s=0, warm_up_s=0, loop_s=bench.scale.rate_s)
        with bench.place(backend, cap=_THREADS, waiters=_THREADS, rpm=_RPM, burst=_BURST) as place:
            seen = loop(bench, backend, place, crowd)
        bench.witness.saw_rate(f"{backend.name}, rate", seen.calls, _RPM, _BURST)
        grants = analysis.grants_by_thread(seen.calls, seen.window)
        return {
            "rate.reached_pct": 100 * sum(grants) / (_BURST + bench.scale.rate_s * _RPM / 60),
            "rate.jain": analysis.jain(grants),
            "rate.cpu_ms": 1e3 * seen.cpu_s_per_grant,
        }
