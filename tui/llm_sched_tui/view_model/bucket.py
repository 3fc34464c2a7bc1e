"""One bucket: who holds, who waits and for what, when their turn comes, and under which limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_sched_tui.view_model import text
from llm_sched_tui.view_model.cells import Cell, Role, Words
from llm_sched_tui.view_model.tables import Column, figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llm_sched.snapshot import BucketView
    from llm_sched_tui.view_model.leases import Lease

_WIDEST_TEXT = 60
_REASONS: dict[str, tuple[str, Role]] = {
    "in_flight": ("a slot", "saturated"),
    "rate": ("rate token", "accent"),
    "policy": ("stricter policy", "starving"),
    "none": ("its turn", "busy"),
}
_NEAR_S = 10.0


@dataclass(frozen=True, slots=True)
class HolderRecord:
    """Who holds one slot; times in seconds."""

    number: int
    bucket: str
    pid: int
    user: str
    command: str
    held_s: float
    waited_s: float
    overdue: bool

    @property
    def key(self) -> str:
        """See `Record`."""
        return f"{self.number:012}"

    @property
    def words(self) -> str:
        """See `Record`."""
        return f"{self.pid} {self.user} {self.command} holds {self.held_s:.1f} s{' overdue' if self.overdue else ''}"


@dataclass(frozen=True, slots=True)
class WaiterRecord:
    """One process's waiting calls; `turn_s` estimates when the turn of the first comes, None = nobody can tell."""

    key: str
    bucket: str
    position: int
    pid: int
    user: str
    command: str
    count: int
    oldest_s: float
    deadline_s: float | None
    waiting_for: str
    turn_s: float | None

    @property
    def words(self) -> str:
        """See `Record`."""
        reason = _REASONS[self.waiting_for][0]
        return f"{self.pid} {self.user} {self.command} waits {self.oldest_s:.1f} s x{self.count} for {reason}"


def holder_records(bucket: str, leases: Iterable[Lease], now: float) -> list[HolderRecord]:
    """Who holds, as it is at `now`."""
    return [
        HolderRecord(
            lease.number,
            bucket,
            lease.holder.pid,
            lease.holder.user,
            lease.holder.command,
            max(0.0, now - lease.since),
            lease.holder.waited_s,
            lease.holder.overdue,
        )
        for lease in leases
    ]


def waiter_records(bucket: BucketView, elapsed_s: float, per_minute: float | None) -> list[WaiterRecord]:
    """Who waits, `elapsed_s` after the bucket was read; `per_minute` is the recent rate of grants."""
    seen: dict[str, int] = {}
    records: list[WaiterRecord] = []
    for waiter in bucket.waiters:
        key = f"{waiter.pid} {waiter.user}"
        seen[key] = seen.get(key, 0) + 1  # several schedulers in one process
        records.append(
            WaiterRecord(
                f"{key} {seen[key]}",
                bucket.name,
                waiter.position,
                waiter.pid,
                waiter.user,
                waiter.command,
                waiter.count,
                waiter.oldest_wait_s + elapsed_s,
                None if waiter.deadline_s is None else waiter.deadline_s - elapsed_s,
                waiter.waiting_for,
                turn_s(bucket, waiter.position, elapsed_s, per_minute),
            )
        )
    return records


def turn_s(bucket: BucketView, position: int, elapsed_s: float, per_minute: float | None) -> float | None:
    """Estimate in how many seconds the turn of a place in the queue comes.

    From the recent rate of grants, and not before the rate limit has tokens for all up to that place.
    """
    estimate = position * 60.0 / per_minute if per_minute else None
    if not bucket.requests_per_minute or bucket.rate_available is None:
        return estimate
    missing = position - max(1.0, bucket.rate_available)
    due = (bucket.rate_next_s or 0.0) + max(0.0, missing) * 60.0 / bucket.requests_per_minute
    return max(estimate or 0.0, due - elapsed_s)


def holder_columns(records: Sequence[HolderRecord]) -> tuple[Column[HolderRecord], ...]:
    """The columns, wide enough for these holders."""
    user, command = _longest((record.user for record in records), 4), _longest((record.command for record in records), 8)
    return (
        Column("pid", "pid", lambda row: Words(f"{row.pid}", "dim", right=True), 7, right=True, order=lambda row: row.pid),
        Column("user", "user", lambda row: _label(row.user), min(12, user), user, order=lambda row: row.user.casefold()),
        Column("held", "since", _held, 9, rank=1, right=True, order=lambda row: row.held_s, falling=True),
        figures("waited", "waited", lambda row: _seconds(row.waited_s), 6, 2, lambda row: row.waited_s),
        Column("command", "command", lambda row: _command(row.command), 8, max(8, command), 3, order=lambda row: row.command),
    )


def waiter_columns(records: Sequence[WaiterRecord]) -> tuple[Column[WaiterRecord], ...]:
    """The columns, wide enough for these waiters."""
    user, command = _longest((record.user for record in records), 4), _longest((record.command for record in records), 8)
    return (
        Column("position", "#", _position, 4, right=True, order=lambda row: row.position),
        Column("pid", "pid", lambda row: Words(f"{row.pid}", "dim", right=True), 7, 2, right=True, order=lambda row: row.pid),
        Column("user", "user", lambda row: _label(row.user), min(12, user), user, order=lambda row: row.user.casefold()),
        figures("count", "calls", lambda row: Words(f"{row.count}", "saturated", right=True), 5, 1, lambda row: row.count),
        figures("oldest", "since", lambda row: _seconds(row.oldest_s), 6, 1, lambda row: row.oldest_s),
        Column("turn", "turn in", _turn, 7, rank=3, right=True, order=lambda row: _last(row.turn_s)),
        Column("deadline", "gives up in", _deadline, 11, rank=5, right=True, order=lambda row: _last(row.deadline_s)),
        Column("reason", "waits for", _reason, 10, 15, 4, order=lambda row: row.waiting_for),
        Column("command", "command", lambda row: _command(row.command), 8, max(8, command), 6, order=lambda row: row.command),
    )


def _longest(texts: Iterable[str], least: int) -> int:
    return min(_WIDEST_TEXT, max((len(each) for each in texts), default=0)) or least


def _last(value: float | None) -> float:
    return float("inf") if value is None else value


def _label(label: str) -> Cell:
    return Words(text.printable(label), "strong")


def _command(command: str) -> Cell:
    return Words(text.printable(command), "dim")


def _seconds(value: float) -> Cell:
    return Words(text.seconds(value), "plain", right=True)


def _held(row: HolderRecord) -> Cell:
    shown = text.seconds(row.held_s)
    return Words(f"! {shown}", "starving", right=True) if row.overdue else Words(shown, "busy", right=True)


def _position(row: WaiterRecord) -> Cell:
    return Words(f"{row.position}", "strong", right=True)


def _turn(row: WaiterRecord) -> Cell:
    if row.turn_s is None:
        return Words(text.NONE, "dim", right=True)
    return Words(f"~{text.seconds(row.turn_s)}", "plain", right=True)


def _deadline(row: WaiterRecord) -> Cell:
    if row.deadline_s is None:
        return Words("never", "dim", right=True)
    return Words(text.seconds(row.deadline_s), "starving" if row.deadline_s < _NEAR_S else "plain", right=True)


def _reason(row: WaiterRecord) -> Cell:
    return Words(*_REASONS[row.waiting_for])
