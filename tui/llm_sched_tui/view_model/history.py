"""What the monitor remembers of buckets and runs.

The law: bounded. A bucket or run that is gone is forgotten after a while, and there is a largest number of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from llm_sched_tui.view_model.quantiles import quantile
from llm_sched_tui.view_model.series import WINDOWS_S, Ring, Series

if TYPE_CHECKING:
    from llm_sched.snapshot import BucketView, OwnerView

RATE_WINDOW_S = WINDOWS_S[0]
SHARE_WINDOW_S = WINDOWS_S[1]
_SHARE_STEPS = 60
_SMOOTH_STEPS = 12
_SHORTEST_RATE_S = 2.0
_MOST_BUCKETS = 128
_MOST_RUNS = 1024
_FORGET_BUCKET_S = WINDOWS_S[-1]


@dataclass(frozen=True, slots=True)
class BucketSample:
    """One step of a bucket: the most that were in flight and waiting in it, and the counters at its end."""

    in_flight: int
    waiting: int
    granted: int
    timed_out: int
    wait_s: float
    counts: tuple[int, ...]

    def merged(self, later: BucketSample) -> BucketSample:
        """See `Sample`."""
        in_flight, waiting = max(self.in_flight, later.in_flight), max(self.waiting, later.waiting)
        return BucketSample(in_flight, waiting, later.granted, later.timed_out, later.wait_s, later.counts)


class Waits(NamedTuple):
    """Percentiles of the waits of recent grants, in seconds; None without grants."""

    p50: float | None
    p95: float | None


class BucketHistory:
    """One bucket's history in all windows."""

    def __init__(self) -> None:
        self.seen = 0.0
        self.limit = 0
        self._now: BucketSample | None = None
        self._bounds: tuple[float, ...] = ()
        self._rings = {length: Ring[BucketSample](length) for length in WINDOWS_S}

    def copy(self) -> BucketHistory:
        """The same history, which no longer grows."""
        other = BucketHistory()
        other.seen, other.limit, other._now, other._bounds = self.seen, self.limit, self._now, self._bounds
        other._rings = {length: ring.copy() for length, ring in self._rings.items()}
        return other

    def add(self, at: float, bucket: BucketView) -> None:
        """Remember what was seen at `at` seconds. Counters that went back began anew, and so does the history."""
        totals = bucket.totals
        if self._now is not None and totals.granted < self._now.granted:
            self._rings = {length: Ring[BucketSample](length) for length in WINDOWS_S}
        self.seen = at
        self.limit = bucket.max_in_flight or (0 if bucket.policies else self.limit)
        self._bounds = tuple(bound for bound, _ in totals.wait_histogram if bound is not None)
        counts = tuple(count for _, count in totals.wait_histogram)
        self._now = BucketSample(bucket.in_flight, bucket.waiting, totals.granted, totals.timed_out, totals.wait_s, counts)
        for ring in self._rings.values():
            ring.add(at, self._now)

    def again(self, at: float) -> None:
        """Nothing has changed until `at`."""
        self.seen = at
        if self._now is not None:
            for ring in self._rings.values():
                ring.add(at, self._now)

    def per_minute(self, at: float) -> float | None:
        """Grants a minute over the last minute, or what was watched of it; None before that says anything."""
        ring = self._rings[RATE_WINDOW_S]
        base = ring.before(at - RATE_WINDOW_S)
        if base is None or self._now is None or at - base.until < _SHORTEST_RATE_S:
            return None
        return (self._now.granted - base.sample.granted) * 60.0 / (at - base.until)

    def recent_timeouts(self, at: float) -> int:
        """Calls that gave up within the last minute."""
        base = self._rings[RATE_WINDOW_S].before(at - RATE_WINDOW_S)
        return self._now.timed_out - base.sample.timed_out if base and self._now else 0

    def waits(self, at: float, window_s: float) -> Waits:
        """Percentiles of the waits of those who got a slot within the window."""
        base = self._rings[window_s].before(at - window_s)
        if base is None or self._now is None:
            return Waits(None, None)
        counts = [now - then for now, then in zip(self._now.counts, base.sample.counts, strict=False)]
        return Waits(quantile(0.5, self._bounds, counts), quantile(0.95, self._bounds, counts))

    def in_flight(self, at: float, window_s: float) -> Series:
        """The most slots held in each step."""
        return self._rings[window_s].level(at, lambda sample: sample.in_flight)

    def waiting(self, at: float, window_s: float) -> Series:
        """The most calls waiting in each step."""
        return self._rings[window_s].level(at, lambda sample: sample.waiting)

    def grants(self, at: float, window_s: float) -> Series:
        """Grants a minute, by step, smoothed."""
        return self._rings[window_s].change(at, _rate, _SMOOTH_STEPS)

    def mean_wait(self, at: float, window_s: float) -> Series:
        """Seconds that those waited on average who got a slot around a step; None where nobody did."""
        return self._rings[window_s].change(at, _mean_wait, _SMOOTH_STEPS)


def _rate(before: BucketSample, now: BucketSample, seconds: float) -> float:
    return (now.granted - before.granted) * 60.0 / seconds


def _mean_wait(before: BucketSample, now: BucketSample, _seconds: float) -> float | None:
    granted = now.granted - before.granted
    return (now.wait_s - before.wait_s) / granted if granted > 0 else None


@dataclass(frozen=True, slots=True)
class RunSample:
    """One step of a run: the most it held and waited for, and its grants so far."""

    held: int
    waiting: int
    granted: int

    def merged(self, later: RunSample) -> RunSample:
        """See `Sample`."""
        return RunSample(max(self.held, later.held), max(self.waiting, later.waiting), later.granted)


RunKey = tuple[int, str, str]
"""Pid, user and command: what tells one run from others in a snapshot."""


class RunHistory:
    """One run's last five minutes."""

    def __init__(self) -> None:
        self.seen = 0.0
        self._now: RunSample | None = None
        self._ring = Ring[RunSample](SHARE_WINDOW_S, _SHARE_STEPS)

    def copy(self) -> RunHistory:
        """The same history, which no longer grows."""
        other = RunHistory()
        other.seen, other._now, other._ring = self.seen, self._now, self._ring.copy()
        return other

    def add(self, at: float, sample: RunSample) -> None:
        """Remember what was seen at `at` seconds."""
        if self._now is not None and sample.granted < self._now.granted:
            self._ring = Ring[RunSample](SHARE_WINDOW_S, _SHARE_STEPS)
        self.seen, self._now = at, sample
        self._ring.add(at, sample)

    def again(self, at: float) -> None:
        """Nothing has changed until `at`."""
        if self._now is not None:
            self.add(at, self._now)

    def recent(self, at: float) -> int:
        """Grants within the last five minutes, or what was watched of them."""
        base = self._ring.before(at - SHARE_WINDOW_S)
        return self._now.granted - base.sample.granted if base and self._now else 0

    def held(self, at: float) -> Series:
        """The most slots held in each step."""
        return self._ring.level(at, lambda sample: sample.held)


class History:
    """Everything that is remembered of one ledger."""

    def __init__(self) -> None:
        self.buckets: dict[str, BucketHistory] = {}
        self.runs: dict[RunKey, RunHistory] = {}

    def copy(self) -> History:
        """The same history, which no longer grows."""
        other = History()
        other.buckets = {name: history.copy() for name, history in self.buckets.items()}
        other.runs = {key: history.copy() for key, history in self.runs.items()}
        return other

    def add(self, at: float, buckets: list[BucketView], owners: list[OwnerView]) -> None:
        """Remember a snapshot that was taken at `at` seconds."""
        for bucket in buckets:
            self.buckets.setdefault(bucket.name, BucketHistory()).add(at, bucket)
        for key, sample in _samples(owners).items():
            self.runs.setdefault(key, RunHistory()).add(at, sample)
        self._forget(at)

    def again(self, at: float, buckets: list[BucketView], owners: list[OwnerView]) -> None:
        """Nothing has changed until `at`."""
        for bucket in buckets:
            if bucket.name in self.buckets:
                self.buckets[bucket.name].again(at)
        for owner in owners:
            if (run := self.runs.get((owner.pid, owner.user, owner.command))) is not None:
                run.again(at)

    def _forget(self, at: float) -> None:
        for name in [name for name, history in self.buckets.items() if at - history.seen > _FORGET_BUCKET_S]:
            del self.buckets[name]
        for key in [key for key, history in self.runs.items() if at - history.seen > SHARE_WINDOW_S]:
            del self.runs[key]
        _keep_newest(self.buckets, _MOST_BUCKETS)
        _keep_newest(self.runs, _MOST_RUNS)


def _samples(owners: list[OwnerView]) -> dict[RunKey, RunSample]:
    samples: dict[RunKey, RunSample] = {}
    for owner in owners:
        key = (owner.pid, owner.user, owner.command)
        other = samples.get(key, RunSample(0, 0, 0))  # several schedulers in one process are one run
        samples[key] = RunSample(owner.in_flight + other.held, owner.waiting + other.waiting, owner.granted + other.granted)
    return samples


class _Seen(Protocol):
    seen: float


K = TypeVar("K")
H = TypeVar("H", bound=_Seen)


def _keep_newest(histories: dict[K, H], most: int) -> None:
    if len(histories) > most:
        for key, _ in sorted(histories.items(), key=lambda item: item[1].seen)[: len(histories) - most]:
            del histories[key]
