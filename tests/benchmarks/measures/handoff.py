"""How fast and in which order slots change hands when there are more callers than slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks import analysis
from tests.benchmarks.bench import CAP, FEW_PROCESSES, HOLD_S, MANY_PROCESSES, MANY_WAITERS
from tests.benchmarks.measures.crowd import Crowd, loop

if TYPE_CHECKING:
    from tests.benchmarks.bench import Bench, Scale
    from tests.benchmarks.peers.base import Backend

WAITERS = (1, 8, 64, MANY_WAITERS)
_WARM_UP_TURNS = 1.5


class HandOff:
    """`CAP` slots held for 20 ms each by `CAP` + n threads in a loop, so that n of them wait.

    Hand-off times, share of slots in use, and order over the steady window, as `analysis.py` defines them; and the
    longest time without a grant from the very start, when all threads call at once.
    """

    name = "handoff"
    about = f"hand-off, slots in use and order, cap {CAP}, hold {HOLD_S * 1e3:g} ms"

    def applies(self, backend: Backend) -> bool:
        """Everybody."""
        del backend
        return True

    def run(self, bench: Bench, backend: Backend) -> dict[str, float]:
        """Measure all numbers of waiters."""
        figures: dict[str, float] = {}
        for waiters in WAITERS:
            figures |= self._with(waiters, bench, backend)
        return figures

    def _with(self, waiters: int, bench: Bench, backend: Backend) -> dict[str, float]:
        with bench.place(backend, waiters=waiters) as place:
            seen = loop(bench, backend, place, _crowd(waiters, bench.scale))
        handed = analysis.hand_offs(seen.calls, CAP, seen.window)
        gaps = [gap / 1e6 for gap in handed.gaps]
        grants = analysis.grants_by_thread(seen.calls, seen.window)
        figures = {
            "p50_ms": analysis.percentile(gaps, 0.5),
            "p90_ms": analysis.percentile(gaps, 0.9),
            "p99_ms": analysis.percentile(gaps, 0.99),
            "in_use_pct": 100 * analysis.in_use(seen.calls, CAP, seen.window),
            "snatched_pct": 100 * handed.snatched,
            "stall_ms": analysis.longest_gap(seen.calls, seen.go, seen.window.end) / 1e6,
            "cpu_ms": 1e3 * seen.cpu_s_per_grant,
            "overtaken_pct": 100 * analysis.overtaken(seen.calls, seen.window),
            "overtaken_within_pct": 100 * analysis.overtaken_within_workers(seen.calls, seen.window),
            "starved": grants.count(0),
            "jain": analysis.jain(grants),
        }
        return {f"handoff.{waiters}.{name}": value for name, value in figures.items()}


def _crowd(waiters: int, scale: Scale) -> Crowd:
    is_crowded = waiters >= MANY_WAITERS
    return Crowd(
        threads=CAP + waiters,
        processes=MANY_PROCESSES if is_crowded else FEW_PROCESSES,
        hold_s=HOLD_S,
        # The first turn is not yet a steady state: everybody starts at once, and calls reach the queue when they can.
        warm_up_s=max(scale.warm_up_s, _WARM_UP_TURNS * (CAP + waiters) * HOLD_S / CAP),
        loop_s=scale.crowded_loop_s if is_crowded else scale.loop_s,
    )
