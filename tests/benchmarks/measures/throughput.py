"""How many slots can change hands in a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks.bench import CAP, FEW_PROCESSES
from tests.benchmarks.measures.crowd import Crowd, loop

if TYPE_CHECKING:
    from tests.benchmarks.bench import Bench
    from tests.benchmarks.peers.base import Backend

_THREADS = 64
_WARM_UP_S = 0.2


class Throughput:
    """64 threads in 8 processes that release as soon as they hold: grants per second in the steady window."""

    name = "throughput"
    about = f"grants per second without a hold, {_THREADS} threads"

    def applies(self, backend: Backend) -> bool:
        """Everybody."""
        del backend
        return True

    def run(self, bench: Bench, backend: Backend) -> dict[str, float]:
        """Measure once."""
        scale = bench.scale
        crowd = Crowd(
            threads=_THREADS,
            processes=FEW_PROCESSES,
            hold_s=0,
            warm_up_s=_WARM_UP_S,
            loop_s=scale.throughput_s,
        )
        with bench.place(backend, waiters=_THREADS - CAP) as place:
            seen = loop(bench, backend, place, crowd)
        grants = sum(seen.window.has(call.granted) for call in seen.calls)
        return {"throughput.per_s": grants / scale.throughput_s}
