"""The outcome of a run: promises and figures."""

# Law: pure. Figures describe; only promises decide.

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from llm_sched.demo.figures import percentile
from llm_sched.verify import figures, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from llm_sched.verify.account import Call, End
    from llm_sched.verify.plan import BucketPlan
    from llm_sched.verify.verdict import Evidence, Promise


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What happened, in numbers. Durations are in seconds; None where nothing was measured.

    Attributes:
        granted: slots that were got.
        timed_out: waits that ended at their timeout, or calls that did not want to wait.
        canceled: waits that ended because their task was cancelled.
        interrupted: calls that SIGINT ended, waiting or holding.
        killed: processes that were killed with `kill -9`.
        killed_holding: slots that were held by them.
        forks: forks of a process that held.
        wait_worst_s: longest wait for a slot.
        hand_off_p50_s: median time for which a wanted slot stayed unused; `hand_off_p90_s` likewise.
        recovery_p50_s: the same after the kill of its holder; `recovery_worst_s` likewise.
        rate_share: grants of the bucket with a rate, of those that were allowed while it was called, from 0 to 1.
        stall_s: longest time that the machine stood still for the parent; `stalled_s` all of it.
    """

    granted: int
    timed_out: int
    canceled: int
    interrupted: int
    killed: int
    killed_holding: int
    forks: int
    wait_worst_s: float | None
    hand_off_p50_s: float | None
    hand_off_p90_s: float | None
    recovery_p50_s: float | None
    recovery_worst_s: float | None
    rate_share: float | None
    stall_s: float
    stalled_s: float


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything that is reported.

    Attributes:
        folder: where the ledgers were.
        file_system: of that folder, e.g. `ext4`; empty if unknown.
        seconds: how long it took.
        promises: the verdict, line by line.
        figures: what happened.
    """

    folder: Path
    file_system: str
    seconds: float
    promises: tuple[Promise, ...]
    figures: Figures

    @property
    def ok(self) -> bool:
        """Whether every promise held."""
        return all(promise.ok for promise in self.promises)

    def to_dict(self) -> dict[str, object]:
        """The summary as JSON has it."""
        return {
            "ok": self.ok,
            "folder": str(self.folder),
            "file_system": self.file_system,
            "seconds": round(self.seconds, 1),
            "promises": [{**asdict(promise), "details": list(promise.details)} for promise in self.promises],
            "figures": asdict(self.figures),
        }


def figures_of(phases: Sequence[Evidence]) -> Figures:
    """Count and measure what the evidence shows."""
    calls = [call for evidence in phases for call in evidence.calls]
    waits = figures.waits(calls)
    gaps = [
        gap
        for evidence in phases
        for bucket in dict.fromkeys(evidence.buckets)
        if not bucket.requests_per_minute
        for gap in figures.hand_offs(evidence.of(bucket), bucket.max_in_flight)
    ]
    recoveries = verdict.recoveries_of(phases)

    def count(end: End, *, holding: bool) -> int:
        return sum(call.end == end and (call.granted is not None) == holding for call in calls)

    return Figures(
        granted=len(waits),
        timed_out=count("timed_out", holding=False),
        canceled=count("canceled", holding=False),
        interrupted=count("interrupted", holding=False) + count("interrupted", holding=True),
        killed=sum(len(evidence.aftermath.killed) for evidence in phases),
        killed_holding=count("killed", holding=True),
        forks=sum(evidence.forks for evidence in phases),
        wait_worst_s=max(waits, default=None),
        hand_off_p50_s=percentile(gaps, 50),
        hand_off_p90_s=percentile(gaps, 90),
        recovery_p50_s=percentile(recoveries, 50),
        recovery_worst_s=max(recoveries, default=None),
        rate_share=_rate_share(phases),
        stall_s=max((evidence.aftermath.stall_s for evidence in phases), default=0.0),
        stalled_s=sum(evidence.aftermath.stalled_s for evidence in phases),
    )


def _rate_share(phases: Sequence[Evidence]) -> float | None:
    shares = [
        _share(evidence.of(bucket), bucket)
        for evidence in phases
        for bucket in dict.fromkeys(evidence.buckets)
        if bucket.requests_per_minute
    ]
    return min(shares, default=None)


def _share(calls: Sequence[Call], bucket: BucketPlan) -> float:
    grants = [call.granted for call in calls if call.granted is not None]
    if not grants:
        return 0.0
    seconds = max(grants) - min(call.asked for call in calls)
    return len(grants) / (bucket.burst + bucket.requests_per_minute / 60.0 * seconds)
