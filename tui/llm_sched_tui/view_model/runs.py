"""One row a process: contention between runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_sched_tui.view_model import text
from llm_sched_tui.view_model.cells import Cell, Role, Share, Spark, Words
from llm_sched_tui.view_model.tables import Column, figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llm_sched.snapshot import BucketView, OwnerView
    from llm_sched_tui.view_model.history import History, RunKey
    from llm_sched_tui.view_model.series import Series

_WIDEST_TEXT = 60


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run's facts; `share` (0 to 1) is its part of all grants of the last five minutes, `recent` their number."""

    pid: int
    user: str
    command: str
    alive: bool
    held: int
    waiting: int
    granted: int
    recent: int
    share: float
    buckets: tuple[str, ...]
    series: Series

    @property
    def key(self) -> str:
        """See `Record`."""
        return f"{self.pid} {self.user} {self.command}"

    @property
    def bucket(self) -> str:
        """See `Record`; the bucket in which it waits, else one in which it holds."""
        return self.buckets[0] if self.buckets else ""

    @property
    def words(self) -> str:
        """See `Record`."""
        state = "" if self.alive else " dead"
        places = " ".join(self.buckets)
        return f"{self.pid} {self.user} {self.command}{state} {self.held} held, {self.waiting} waiting {places}".rstrip()


def run_records(owners: Sequence[OwnerView], buckets: Sequence[BucketView], history: History, now: float) -> list[RunRecord]:
    """The runs of a ledger, as they are at `now`; several schedulers in one process are one run."""
    together: dict[RunKey, list[OwnerView]] = {}
    for owner in owners:
        together.setdefault((owner.pid, owner.user, owner.command), []).append(owner)
    recent = {key: run.recent(now) for key, run in history.runs.items()}
    total = sum(recent.values())
    places = _places(buckets)
    records: list[RunRecord] = []
    for key, same in together.items():
        pid, user, command = key
        records.append(
            RunRecord(
                pid,
                user,
                command,
                any(owner.alive for owner in same),
                sum(owner.in_flight for owner in same),
                sum(owner.waiting for owner in same),
                sum(owner.granted for owner in same),
                recent.get(key, 0),
                recent.get(key, 0) / total if total else 0.0,
                tuple(places.get(key, ())),
                history.runs[key].held(now),
            )
        )
    return records


def _places(buckets: Iterable[BucketView]) -> dict[RunKey, dict[str, None]]:
    """The buckets of each run: first those in which it waits, in order."""
    places: dict[RunKey, dict[str, None]] = {}
    held: list[tuple[RunKey, str]] = []
    for bucket in buckets:
        for waiter in bucket.waiters:
            places.setdefault((waiter.pid, waiter.user, waiter.command), {}).setdefault(bucket.name)
        held += [((holder.pid, holder.user, holder.command), bucket.name) for holder in bucket.holders]
    for key, name in held:
        places.setdefault(key, {}).setdefault(name)
    return places


def columns(runs: Sequence[RunRecord]) -> tuple[Column[RunRecord], ...]:
    """The columns, wide enough for these runs."""
    most = max((run.held for run in runs), default=0)
    user = max((len(run.user) for run in runs), default=0)
    command = max((len(run.command) for run in runs), default=0)
    places = max((len(", ".join(run.buckets)) for run in runs), default=0)

    def spark(run: RunRecord) -> Cell:
        return Spark(run.series, most, "busy")

    return (
        Column("pid", "pid", _pid, 8, rank=1, right=True, order=lambda run: run.pid),
        Column("user", "user", _user, 8, max(8, min(_WIDEST_TEXT, user)), order=lambda run: run.user.casefold()),
        figures("held", "held", lambda run: _figure(run.held, "busy"), 4, 2, lambda run: run.held),
        figures("waiting", "waiting", lambda run: _figure(run.waiting, "saturated"), 7, 3, lambda run: run.waiting),
        Column("share", "grants, 5 min", lambda run: Share(run.share), 13, 22, 4, order=lambda run: run.recent, falling=True),
        figures("granted", "granted", lambda run: _figure(run.granted), 7, 6, lambda run: run.granted),
        Column("series", "held, 5 min", spark, 12, 60, 8),
        Column("places", "buckets", _buckets, 12, max(12, min(_WIDEST_TEXT, places)), 7),
        Column("command", "command", _command, 10, max(10, min(_WIDEST_TEXT, command)), 5, order=lambda run: run.command),
    )


def brief_columns(runs: Sequence[RunRecord]) -> tuple[Column[RunRecord], ...]:
    """The columns for a side panel."""
    return tuple(column for column in columns(runs) if column.key in {"user", "pid", "held", "waiting", "share"})


def _pid(run: RunRecord) -> Cell:
    return Words(f"{run.pid}" if run.alive else f"✗ {run.pid}", "dim" if run.alive else "starving", right=True)


def _user(run: RunRecord) -> Cell:
    return Words(text.printable(run.user), "strong" if run.alive else "dim")


def _command(run: RunRecord) -> Cell:
    return Words(text.printable(run.command), "dim")


def _buckets(run: RunRecord) -> Cell:
    return Words(text.printable(", ".join(run.buckets)), "plain")


def _figure(number: int, role: Role = "plain") -> Cell:
    return Words(text.count(number), role if number else "dim", right=True)
