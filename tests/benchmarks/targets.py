# What the project promised to reach, in one table. A target is data; the report says how far we got.
"""The targets, as ratios within one run wherever a peer gives the scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tests.benchmarks.results import Results

Verdict = Literal["pass", "FAIL", "not measured"]


@dataclass(frozen=True, slots=True)
class Target:
    """Ours, or ours over `against` (a peer, or another figure of ours), has to be at most or at least `limit`."""

    label: str
    metric: str
    relation: Literal["<=", ">="]
    limit: float
    peer: str = ""
    baseline: str = ""

    def value(self, results: Results) -> float:
        """Return what has been reached; not a number when something it needs was not measured."""
        if self.peer:
            return results.ratio(self.metric, self.peer)
        ours = results.figure(self.metric)
        return ours / results.figure(self.baseline) if self.baseline else ours

    def verdict(self, value: float) -> Verdict:
        """Judge what has been reached."""
        if math.isnan(value):
            return "not measured"
        is_met = value <= self.limit if self.relation == "<=" else value >= self.limit
        return "pass" if is_met else "FAIL"


TARGETS: tuple[Target, ...] = (
    Target("uncontended pair / portalocker", "pair.us", "<=", 0.5, peer="portalocker"),
    Target("uncontended pair / Redis", "pair.us", "<=", 0.15, peer="redis"),
    Target("hand-off p50 / Redis, 8 waiting", "handoff.8.p50_ms", "<=", 0.7, peer="redis"),
    Target("hand-off p50 / Redis, 64 waiting", "handoff.64.p50_ms", "<=", 0.7, peer="redis"),
    Target("hand-off p50 / Redis, 512 waiting", "handoff.512.p50_ms", "<=", 0.7, peer="redis"),
    Target("hand-off p90 / Redis, 512 waiting", "handoff.512.p90_ms", "<=", 0.6, peer="redis"),
    Target("hand-off p50 / naive, 8 waiting", "handoff.8.p50_ms", "<=", 0.02, peer="naive"),
    Target("hand-off p50 / naive, 64 waiting", "handoff.64.p50_ms", "<=", 0.02, peer="naive"),
    Target("hand-off p50 / naive, 512 waiting", "handoff.512.p50_ms", "<=", 0.02, peer="naive"),
    Target("slots in use, 64 waiting, %", "handoff.64.in_use_pct", ">=", 97),
    Target("slots in use, 512 waiting, %", "handoff.512.in_use_pct", ">=", 97),
    Target("CPU while 512 wait, % of one core", "idle.cpu_pct", "<=", 2),
    Target("grants out of order, 64 waiting, %", "handoff.64.overtaken_pct", "<=", 1),
    Target("out of order by 5 ms within a process, 64 waiting, %", "handoff.64.overtaken_within_pct", "<=", 0),
    Target("starved threads, 64 waiting", "handoff.64.starved", "<=", 0),
    Target("starved threads, 512 waiting", "handoff.512.starved", "<=", 0),
    Target("Jain's index, 64 waiting", "handoff.64.jain", ">=", 0.99),
    Target("CPU per grant, queue of 10,000 / of 100", "drain.10000.cpu_ms", "<=", 1.5, baseline="drain.100.cpu_ms"),
    Target("writes per grant, queue of 10,000", "drain.10000.writes", "<=", 1.2),
    Target("kill -9 to next grant, p50, ms", "recovery.p50_ms", "<=", 15),
    Target("3,000 a minute: rate reached, %", "rate.reached_pct", ">=", 99),
    Target("3,000 a minute: Jain's index", "rate.jain", ">=", 0.95),
    Target("import over bare Python, ms", "import.ms", "<=", 60),
    Target("pair, telemetry not configured / kept out", "telemetry.unconfigured_us", "<=", 1.05, baseline="telemetry.off_us"),
    Target("pair, the SDK recording / kept out", "telemetry.recording_us", "<=", 1.35, baseline="telemetry.off_us"),
    Target("pair, recording under a span / kept out", "telemetry.traced_us", "<=", 1.35, baseline="telemetry.off_us"),
    Target("pair, the endpoint hangs / the same", "telemetry.hung_us", "<=", 1.05, baseline="telemetry.traced_us"),
    Target("CPU of llm-sched export, % of one core", "telemetry.export_cpu_pct", "<=", 1),
)
