# Every figure the benchmark can show, by name: one line here is one row in the report.
"""Names, labels and units of all figures, and how those of several rounds become one."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.benchmarks.measures.handoff import WAITERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Metric:
    """One row: `merge` makes one figure of the rounds' (a median unless the worst is what counts)."""

    name: str
    label: str
    unit: str
    merge: Callable[[Sequence[float]], float] = statistics.median
    has_ratio: bool = True


def _crowds(name: str, label: str, unit: str, *, has_ratio: bool = True) -> list[Metric]:
    return [
        Metric(f"handoff.{waiters}.{name}", f"{label}, {waiters} waiting", unit, has_ratio=has_ratio) for waiters in WAITERS
    ]


def _drains(name: str, label: str, unit: str, *, has_ratio: bool = True) -> list[Metric]:
    return [
        Metric(f"drain.{length}.{name}", f"{label}, queue of {length:,}", unit, has_ratio=has_ratio)
        for length in (10, 100, 1_000, 10_000)
    ]


METRICS: tuple[Metric, ...] = (
    Metric("pair.us", "acquire + release, uncontended", "µs"),
    *_crowds("p50_ms", "hand-off p50", "ms"),
    *_crowds("p90_ms", "hand-off p90", "ms"),
    *_crowds("p99_ms", "hand-off p99", "ms"),
    *_crowds("snatched_pct", "slots snatched by newcomers", "%", has_ratio=False),
    *_crowds("in_use_pct", "slots in use", "%", has_ratio=False),
    *_crowds("stall_ms", "longest time without a grant", "ms", has_ratio=False),
    *_crowds("cpu_ms", "CPU per grant", "ms"),
    *_crowds("overtaken_pct", "grants out of order", "%", has_ratio=False),
    *_crowds("overtaken_within_pct", "out of order by 5 ms within a process", "%", has_ratio=False),
    *(
        Metric(f"handoff.{waiters}.starved", f"starved threads, {waiters} waiting", "", max, has_ratio=False)
        for waiters in WAITERS
    ),
    *_crowds("jain", "Jain's index", "", has_ratio=False),
    Metric("throughput.per_s", "grants per second, no hold, 64 threads", "/s"),
    Metric("idle.cpu_pct", "CPU while 512 wait, of one core", "%"),
    Metric("recovery.p50_ms", "kill -9 to next grant, p50", "ms"),
    Metric("recovery.max_ms", "kill -9 to next grant, worst", "ms", max, has_ratio=False),
    *_drains("cpu_ms", "CPU per grant", "ms"),
    *_drains("per_s", "grants per second", "/s"),
    *_drains("writes", "writes per grant", "", has_ratio=False),
    Metric("rate.reached_pct", "3,000 a minute: rate reached", "%", has_ratio=False),
    Metric("rate.jain", "3,000 a minute: Jain's index", "", has_ratio=False),
    Metric("rate.cpu_ms", "3,000 a minute: CPU per grant", "ms", has_ratio=False),
    Metric("import.ms", "import llm_sched, over bare Python", "ms", has_ratio=False),
    Metric("telemetry.off_us", "pair, telemetry kept out", "µs", has_ratio=False),
    Metric("telemetry.unconfigured_us", "pair, telemetry not configured", "µs", has_ratio=False),
    Metric("telemetry.recording_us", "pair, the SDK recording", "µs", has_ratio=False),
    Metric("telemetry.traced_us", "pair, recording under a sampled span", "µs", has_ratio=False),
    Metric("telemetry.hung_us", "pair, the endpoint hangs", "µs", has_ratio=False),
    Metric("telemetry.export_cpu_pct", "CPU of llm-sched export, asked every second", "%", has_ratio=False),
)

HEADLINES = (
    "pair.us",
    "handoff.8.p50_ms",
    "handoff.64.p50_ms",
    "handoff.512.p50_ms",
    "handoff.512.p90_ms",
    "handoff.64.snatched_pct",
    "handoff.64.in_use_pct",
    "handoff.512.in_use_pct",
    "handoff.64.overtaken_pct",
    "handoff.64.starved",
    "handoff.64.jain",
    "throughput.per_s",
    "idle.cpu_pct",
    "recovery.p50_ms",
    "drain.100.cpu_ms",
    "drain.1000.cpu_ms",
    "drain.10000.cpu_ms",
    "rate.reached_pct",
    "rate.jain",
    "import.ms",
    "telemetry.off_us",
    "telemetry.unconfigured_us",
    "telemetry.recording_us",
    "telemetry.traced_us",
    "telemetry.hung_us",
    "telemetry.export_cpu_pct",
)
"""What a README has room for."""


def merged(metric: Metric, rounds: Sequence[float]) -> float:
    """Return the figure of all rounds; not a number when there is none."""
    known = [value for value in rounds if not math.isnan(value)]
    return metric.merge(known) if known else math.nan
