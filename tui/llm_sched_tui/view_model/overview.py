"""One row a bucket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_sched_tui.view_model import text
from llm_sched_tui.view_model.cells import Cell, Gauge, Spark, Words
from llm_sched_tui.view_model.severity import Severity, severity_of
from llm_sched_tui.view_model.tables import Column, figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_sched.snapshot import BucketView
    from llm_sched_tui.view_model.cells import Span
    from llm_sched_tui.view_model.history import BucketHistory, Waits
    from llm_sched_tui.view_model.series import Series

_NARROW_NAME, _WIDEST_NAME = 26, 48
_WIDEST_SPARK = 240


@dataclass(frozen=True, slots=True)
class BucketRecord:
    """A bucket's facts; waits in seconds, `limit` 0 = none, `tokens` None = no rate."""

    name: str
    severity: Severity
    in_flight: int
    limit: int
    waiting: int
    processes: int
    oldest_s: float
    waits: Waits
    per_minute: float | None
    tokens: float | None
    token_in_s: float
    timed_out: int
    reclaimed: int
    in_flight_series: Series
    waiting_series: Series

    @property
    def key(self) -> str:
        """See `Record`."""
        return self.name

    @property
    def bucket(self) -> str:
        """See `Record`."""
        return self.name

    @property
    def words(self) -> str:
        """See `Record`."""
        return f"{self.name} {self.severity.role} {self.in_flight}/{self.limit} in flight, {self.waiting} waiting"


def bucket_record(bucket: BucketView, history: BucketHistory, at: float, now: float, window_s: float) -> BucketRecord:
    """The facts of a bucket that was read at `at`, as they are at `now`."""
    elapsed = max(0.0, now - at)
    tokens, token_in_s = tokens_now(bucket, elapsed)
    return BucketRecord(
        name=bucket.name,
        severity=severity_of(bucket, elapsed, history.recent_timeouts(now)),
        in_flight=bucket.in_flight,
        limit=bucket.max_in_flight or history.limit,
        waiting=bucket.waiting,
        processes=len(bucket.waiters),
        oldest_s=bucket.oldest_wait_s + elapsed if bucket.waiting else 0.0,
        waits=history.waits(now, window_s),
        per_minute=history.per_minute(now),
        tokens=tokens,
        token_in_s=token_in_s,
        timed_out=bucket.totals.timed_out,
        reclaimed=bucket.totals.reclaimed,
        in_flight_series=history.in_flight(now, window_s),
        waiting_series=history.waiting(now, window_s),
    )


def tokens_now(bucket: BucketView, elapsed_s: float) -> tuple[float | None, float]:
    """Rate tokens left, and seconds until the next, `elapsed_s` after the bucket was read; None without a rate."""
    if bucket.rate_available is None:
        return None, 0.0
    tokens = min(bucket.burst, bucket.rate_available + elapsed_s * bucket.requests_per_minute / 60.0)
    return tokens, max(0.0, (bucket.rate_next_s or 0.0) - elapsed_s)


def columns(buckets: Sequence[BucketRecord], window_s: float) -> tuple[Column[BucketRecord], ...]:
    """The columns, wide enough for these buckets."""
    longest = max((len(bucket.name) for bucket in buckets), default=6) + 2
    digits = max((len(f"{bucket.in_flight}/{bucket.limit}") for bucket in buckets), default=3)
    rated = any(bucket.tokens is not None for bucket in buckets)
    length = text.window(window_s)
    # What no bucket has is left out first.
    rate_rank = 6 if rated else 12

    def gauge(row: BucketRecord) -> Cell:
        return Gauge(row.in_flight, row.limit, row.severity.role, digits)

    return (
        Column(
            "name",
            "bucket",
            _name,
            min(_NARROW_NAME, longest),
            min(_WIDEST_NAME, longest),
            order=lambda row: row.name.casefold(),
        ),
        Column("in_flight", "in flight", gauge, max(9, digits + 4), digits + 17, 1, order=_fullness, falling=True),
        figures("waiting", "waiting", _waiting, 8, 2, lambda row: row.waiting),
        figures("oldest", "oldest", _oldest, 6, 3, lambda row: row.oldest_s),
        figures("p50", "p50 s", lambda row: _figure(text.short(row.waits.p50)), 5, 7, lambda row: row.waits.p50 or 0.0),
        figures("p95", "p95 s", lambda row: _figure(text.short(row.waits.p95)), 5, 4, lambda row: row.waits.p95 or 0.0),
        figures("per_minute", "/min", _rate, 5, 5, lambda row: row.per_minute or 0.0),
        figures("tokens", "rpm left", _tokens, 10, rate_rank, lambda row: row.tokens or 0.0),
        figures("timed_out", "timeouts", _timeouts, 8, 9, lambda row: row.timed_out),
        figures("reclaimed", "reclaimed", _reclaimed, 9, 10, lambda row: row.reclaimed),
        Column("in_flight_series", f"in flight, {length}", _in_flight_spark, 16, _WIDEST_SPARK // 2, 8),
        Column("waiting_series", f"waiting, {length}", _waiting_spark, 14, _WIDEST_SPARK // 2, 11),
    )


def _fullness(row: BucketRecord) -> tuple[float, int]:
    return (row.in_flight / row.limit if row.limit else 0.0), row.in_flight


def _name(row: BucketRecord) -> Cell:
    return _Name(row.severity, text.printable(row.name))


@dataclass(frozen=True, slots=True)
class _Name:
    severity: Severity
    name: str

    def draw(self, width: int) -> tuple[Span, ...]:
        """A sign for how the bucket is, and its name; where it is too long its end, which tells more."""
        return (self.severity.sign + " ", self.severity.role), (text.tail(self.name, width - 2), "strong")


def _waiting(row: BucketRecord) -> Cell:
    if not row.waiting:
        return Words("0", "dim", right=True)
    return Words(f"{text.count(row.waiting)} ({row.processes})", row.severity.role, right=True)


def _oldest(row: BucketRecord) -> Cell:
    return Words(text.seconds(row.oldest_s), row.severity.role, right=True) if row.waiting else _figure(text.NONE)


def _rate(row: BucketRecord) -> Cell:
    return _figure(text.NONE if row.per_minute is None else text.count(row.per_minute))


def _tokens(row: BucketRecord) -> Cell:
    if row.tokens is None:
        return _figure(text.NONE)
    if row.tokens >= 1:
        return _figure(f"{int(row.tokens)}")
    return Words(f"0 ({text.seconds(row.token_in_s)})", "saturated", right=True)


def _timeouts(row: BucketRecord) -> Cell:
    return Words(text.count(row.timed_out), "starving" if row.timed_out else "dim", right=True)


def _reclaimed(row: BucketRecord) -> Cell:
    return Words(text.count(row.reclaimed), "saturated" if row.reclaimed else "dim", right=True)


def _in_flight_spark(row: BucketRecord) -> Cell:
    return Spark(row.in_flight_series, row.limit, "busy")


def _waiting_spark(row: BucketRecord) -> Cell:
    return Spark(row.waiting_series, 0.0, "saturated")


def _figure(figure: str) -> Cell:
    return Words(figure, "dim" if figure in {text.NONE, "0"} else "plain", right=True)
