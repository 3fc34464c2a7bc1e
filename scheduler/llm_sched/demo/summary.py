"""What came out of a demo run, as one value."""

# Law: pure. Calls and the provider's records in, figures and the verdict out. What the provider saw beats what
# the workers say of themselves; only without a stub the workers' own intervals have to do, and `witness` says so.

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from llm_sched.demo import figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llm_sched.demo.messages import CallRecord, Failure
    from llm_sched.demo.plan import Options
    from llm_sched.demo.progress import Progress
    from llm_sched.demo.witness import ProviderStats

Witness = Literal["provider", "workers"]


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds waited for a slot; None without a single call."""

    p50: float | None
    p95: float | None
    max: float | None


class Gaps(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that `count` freed slots stayed unused although somebody waited."""

    count: int
    p50: float | None
    p90: float | None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Seconds throughout; `ok` is the verdict that the exit code tells.

    `peak` and `provider_busy` (a share of the cap, 0 to 1) are what the `witness` saw; `slots_in_use` is the share of
    the slots that were held. `handoff_s` is from the last byte of one answer to the next
    request (the SDK's own work included), `slot_handoff_s` from giving a slot back to the next grant; both are None
    without a scheduler, and when a rate limit keeps slots empty on purpose.
    """

    ok: bool
    witness: Witness
    scheduled: bool
    bucket: str
    workers: int
    calls: int
    completed: int
    failed: int
    errors: dict[str, int]
    example: str
    max_in_flight: int
    peak: int
    refused: int
    requests_per_minute: float
    busiest_minute: int
    wait_s: Waits
    handoff_s: Gaps | None
    slot_handoff_s: Gaps | None
    elapsed_s: float
    calls_per_s: float
    slots_in_use: float | None
    provider_busy: float | None

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values, as `--json` prints it."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values


def summarize(options: Options, progress: Progress, stats: ProviderStats | None) -> Summary:
    """Sum up a run; `stats` None when the provider was not our stub."""
    records = progress.records
    failures = [*_call_failures(records), *_worker_failures(progress)]
    errors = Counter(failure.kind for failure in failures)
    completed = sum(record.failure is None for record in records)
    inside = _inside(records) if stats is None else _seen(stats)
    highest = figures.peak(inside) if stats is None else stats.peak
    began, ended = _span(records)
    paced = options.scheduled and options.requests_per_minute == 0
    waits = [(record.asked_s, _granted(record)) for record in records]
    slots = options.max_in_flight
    return Summary(
        ok=completed == options.calls and not failures and highest <= slots,
        witness="workers" if stats is None else "provider",
        scheduled=options.scheduled,
        bucket=next((record.bucket for record in records if record.bucket), ""),
        workers=options.workers,
        calls=options.calls,
        completed=completed,
        failed=options.calls - completed,
        errors=dict(errors.most_common()),
        example=failures[0].detail if failures else "",
        max_in_flight=slots,
        peak=highest,
        refused=sum(count for kind, count in errors.items() if kind.startswith("429")),
        requests_per_minute=options.requests_per_minute,
        busiest_minute=figures.busiest_minute(begin for begin, _ in inside),
        wait_s=_waits([record.waited_s for record in records]),
        handoff_s=_gaps(figures.handoffs(_ends(inside), _begins(inside), waits, slots)) if paced else None,
        slot_handoff_s=_slot_gaps(records, waits, slots) if paced else None,
        elapsed_s=ended - began,
        calls_per_s=completed / (ended - began) if ended > began else 0.0,
        slots_in_use=figures.busy_share(_inside(records), slots) if options.scheduled else None,
        provider_busy=figures.busy_share(inside, slots),
    )


def _call_failures(records: Iterable[CallRecord]) -> list[Failure]:
    return [record.failure for record in records if record.failure is not None]


def _worker_failures(progress: Progress) -> list[Failure]:
    # A worker that ended badly counts for each call it didn't make, and once when it had made them all.
    return [
        worker.failure for worker in progress.workers.values() if worker.failure is not None for _ in range(max(1, worker.lost))
    ]


def _inside(records: Iterable[CallRecord]) -> list[figures.Interval]:
    return [(record.granted_s, record.ended_s) for record in records if record.granted_s is not None]


def _seen(stats: ProviderStats) -> list[figures.Interval]:
    return [(row.arrived_s, row.ended_s) for row in stats.records if row.ended_s is not None]


def _granted(record: CallRecord) -> float:
    return record.ended_s if record.granted_s is None else record.granted_s


def _span(records: Sequence[CallRecord]) -> figures.Interval:
    begins, ends = (record.asked_s for record in records), (record.ended_s for record in records)
    return min(begins, default=0.0), max(ends, default=0.0)


def _begins(intervals: Iterable[figures.Interval]) -> list[float]:
    return [begin for begin, _ in intervals]


def _ends(intervals: Iterable[figures.Interval]) -> list[float]:
    return [end for _, end in intervals]


def _waits(values: Sequence[float]) -> Waits:
    return Waits(p50=figures.percentile(values, 50), p95=figures.percentile(values, 95), max=max(values, default=None))


def _gaps(values: Sequence[float]) -> Gaps:
    return Gaps(count=len(values), p50=figures.percentile(values, 50), p90=figures.percentile(values, 90))


def _slot_gaps(records: Sequence[CallRecord], waits: Sequence[figures.Interval], slots: int) -> Gaps:
    held = _inside(records)
    return _gaps(figures.handoffs(_ends(held), _begins(held), waits, slots))
