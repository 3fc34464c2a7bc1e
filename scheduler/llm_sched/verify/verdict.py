"""Which promises held."""

# Law: pure. Evidence in, promises out, each with what was measured and its bound. Durations are judged only where a
# promise names one, and get as much more time as the machine stood still for a process that only slept and wrote a byte.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_sched.verify import figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llm_sched.verify.account import Call
    from llm_sched.verify.leftovers import Leftovers
    from llm_sched.verify.plan import BucketPlan
    from llm_sched.verify.storm import Aftermath

RECOVERY_S = 2.0
"""How long the slot of a killed holder may stay unused while somebody waits."""

LATE_S = 1.0
"""How long after its timeout a wait may end."""

OVERTAKING_SHARE = 0.01
WINDOWS_S = (1.0, 10.0, 60.0)
_WORTH_SAYING_S = 1.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one phase.

    Attributes:
        phase: its name.
        buckets: what was called.
        calls: all calls, as the witness knows them.
        aftermath: what the parent knows.
        leftovers: what was left.
        failures: what happened in workers that must not happen.
        unclean: workers whose calls were over and of whom the ledger still listed something.
        clean: how many workers said that the ledger lists nothing of them.
        forks: how often workers forked.
    """

    phase: str
    buckets: tuple[BucketPlan, ...]
    calls: tuple[Call, ...]
    aftermath: Aftermath
    leftovers: Leftovers
    failures: tuple[str, ...]
    unclean: tuple[str, ...]
    clean: int
    forks: int

    def of(self, bucket: BucketPlan) -> list[Call]:
        """The calls of one bucket."""
        return [call for call in self.calls if call.bucket == bucket.name]


@dataclass(frozen=True, slots=True)
class Promise:
    """One line of the verdict: `name` says what was promised, `measured` what was found, `bound` what it had to be."""

    name: str
    measured: str
    bound: str
    ok: bool
    details: tuple[str, ...] = ()


def promises(phases: Sequence[Evidence]) -> list[Promise]:
    """Judge everything that was promised."""
    caps = [_cap(evidence, bucket) for evidence in phases for bucket in dict.fromkeys(evidence.buckets)]
    rates = [
        promise
        for evidence in phases
        for bucket in dict.fromkeys(evidence.buckets)
        if bucket.requests_per_minute
        for promise in _rate(evidence.of(bucket), bucket)
    ]
    return [*caps, *rates, *_order(phases), *_durations(phases), *_leaks(phases), _failures(phases)]


def _cap(evidence: Evidence, bucket: BucketPlan) -> Promise:
    calls = evidence.of(bucket)
    peak = figures.peak(calls)
    nothing = () if peak else ("no slot was granted, so nothing was proven",)
    name = f"cap: {bucket.name}"
    return Promise(name, f"{peak} in flight", f"{bucket.max_in_flight}", ok=0 < peak <= bucket.max_in_flight, details=nothing)


def _rate(calls: Sequence[Call], bucket: BucketPlan) -> Iterable[Promise]:
    rpm, burst = bucket.requests_per_minute, bucket.burst
    for span in figures.spans(calls, WINDOWS_S, rpm, burst):
        name = f"rate: {bucket.name}, worst {span.seconds:g} s"
        yield Promise(name, f"{span.grants} grants", f"{span.allowed:.1f}", ok=span.grants <= span.allowed)
    excess = figures.excess(calls, rpm, burst)
    name = f"rate: {bucket.name}, any window"
    yield Promise(name, f"{excess:+.2f} above", "+0", ok=excess <= 0 and bool(calls))


def _order(phases: Sequence[Evidence]) -> Iterable[Promise]:
    orders = [
        figures.order(evidence.of(bucket), bucket.max_in_flight)
        for evidence in phases
        for bucket in dict.fromkeys(evidence.buckets)
        if not bucket.requests_per_minute  # a full bucket is what proves it, and a rate keeps buckets from being full
    ]
    grants, within = sum(order.grants for order in orders), sum(order.within_process for order in orders)
    share = sum(order.overtaking for order in orders) / grants if grants else 0.0
    yield Promise(
        "order: first come, first served", f"{share:.2%} overtook", f"{OVERTAKING_SHARE:.0%}", share <= OVERTAKING_SHARE
    )
    yield Promise("order: within a process", f"{within} overtook", "0", not within)


def _durations(phases: Sequence[Evidence]) -> Iterable[Promise]:
    stalled = max((evidence.aftermath.stalled_s for evidence in phases), default=0.0)
    granted = (f"the machine stood still for {stalled:.1f} s in all, which is granted",) if stalled > _WORTH_SAYING_S else ()
    recoveries = recoveries_of(phases)
    slowest = max(recoveries, default=0.0)
    text = f"{slowest * 1000:.0f} ms" if recoveries else "none was killed"
    bound = f"{RECOVERY_S:g} s"
    yield Promise("crash: killed holders' slots", text, bound, slowest <= RECOVERY_S + stalled, granted)
    latest = max(figures.lateness([call for evidence in phases for call in evidence.calls]), default=0.0)
    text = f"{max(0.0, latest) * 1000:.0f} ms late"
    yield Promise("timeout: no wait goes beyond it", text, f"{LATE_S:g} s", latest <= LATE_S + stalled, granted)


def recoveries_of(phases: Iterable[Evidence]) -> list[float]:
    """Seconds that the slots of killed holders took to be used again, of all buckets that are full for lack of slots."""
    return [
        seconds
        for evidence in phases
        for bucket in dict.fromkeys(evidence.buckets)
        if not bucket.requests_per_minute
        for seconds in figures.recoveries(evidence.of(bucket), bucket.max_in_flight, unless_below_s=RECOVERY_S)
    ]


def _leaks(phases: Sequence[Evidence]) -> Iterable[Promise]:
    unclean = tuple(text for evidence in phases for text in evidence.unclean)
    clean = sum(evidence.clean for evidence in phases)
    yield Promise(
        "leaks: of living processes",
        f"{len(unclean)} of {clean + len(unclean)} processes",
        "0",
        not unclean and clean > 0,
        unclean,
    )
    left = [evidence.leftovers for evidence in phases]
    leases, tickets = sum(each.leases for each in left), sum(each.tickets for each in left)
    owners = sum(each.owners for each in left)
    refused = tuple(text for each in left for text in each.refused)
    counted = f"{leases} slots, {tickets} tickets, {owners} owners"
    yield Promise("leaks: in the ledger", counted, "0", not (leases or tickets or owners or refused), refused)
    files = tuple(name for each in left for name in each.files)
    yield Promise("leaks: files", _count(len(files), "file"), "0", not files, files)
    remaining = tuple(name for evidence in phases for name in evidence.aftermath.remaining)
    yield Promise("leaks: processes", _count(len(remaining), "process", "es"), "0", not remaining, remaining)


def _failures(phases: Sequence[Evidence]) -> Promise:
    failures = tuple(text for evidence in phases for text in (*evidence.failures, *evidence.aftermath.crashed))
    return Promise("errors", _count(len(failures), "failure"), "0", not failures, failures)


def _count(number: int, word: str, plural: str = "s") -> str:
    return f"{number} {word if number == 1 else word + plural}"
