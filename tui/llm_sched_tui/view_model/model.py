"""Readings in, views out: what is remembered, and the answer to a question about it.

The law: `take` is told everything that was seen; `view` changes nothing. Whoever calls them does so from one thread.
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from llm_sched_tui.view_model import bucket as one_bucket
from llm_sched_tui.view_model import overview, record, runs, text
from llm_sched_tui.view_model.cells import plain_line
from llm_sched_tui.view_model.facts import facts
from llm_sched_tui.view_model.filters import filtered
from llm_sched_tui.view_model.history import BucketHistory, History
from llm_sched_tui.view_model.leases import Leases
from llm_sched_tui.view_model.pages import BucketPage, EventsPage, OverviewPage, Plot, RunsPage
from llm_sched_tui.view_model.record import Event, EventRecord
from llm_sched_tui.view_model.status import Facts, status_of
from llm_sched_tui.view_model.tables import Column, R, Table, arranged
from llm_sched_tui.view_model.values import Order, Query, Reading, View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from llm_sched.snapshot import BucketView, Snapshot
    from llm_sched_tui.view_model.cells import Role
    from llm_sched_tui.view_model.overview import BucketRecord
    from llm_sched_tui.view_model.series import Series

_MOST_EVENTS = 2000
_ORDERS = {
    "buckets": Order("name"),
    "holders": Order("held", descending=True),
    "waiters": Order("position"),
    "runs": Order("share", descending=True),
    "events": Order("number"),
}


class Model:
    """One ledger as it was watched.

    Args:
        zone: in which to tell times of day; None = the machine's.
        home: the user's home folder, shown as `~`.
    """

    def __init__(self, zone: dt.tzinfo | None = None, home: str = "") -> None:
        self._zone = zone
        self._home = home
        self._history = History()
        self._leases = Leases()
        self._events: deque[EventRecord] = deque(maxlen=_MOST_EVENTS)
        self._numbered = 0
        self._reading: Reading | None = None
        self._live: Snapshot | None = None

    def copy(self) -> Model:
        """What is known now, which no longer grows: for a picture that stands still."""
        other = Model(self._zone, self._home)
        other._history, other._leases = self._history.copy(), self._leases.copy()
        other._events = self._events.copy()
        other._numbered, other._reading, other._live = self._numbered, self._reading, self._live
        return other

    def take(self, reading: Reading) -> None:
        """Remember one look at the ledger."""
        before, self._reading = self._reading, reading
        snapshot = reading.snapshot
        if snapshot.state != "live" or reading.refused:
            if before is not None and _kind(before) != _kind(reading):
                self._log(reading.wall, [Event("ledger", detail=_EVENTS[_kind(reading)])])
            return
        if before is not None and _kind(before) != "live":
            self._log(reading.wall, [Event("ledger", detail="readable")])
        if not reading.changed and before is not None and before.snapshot is snapshot:
            self._history.again(reading.at, snapshot.buckets, snapshot.owners)
            return
        if self._live is None and before is not None and before.snapshot.state == "absent":
            self._live = msgspec.structs.replace(snapshot, buckets=[], owners=[])  # all that is there came since
        changes = self._leases.follow(reading.taken, snapshot.buckets)
        if self._live is not None:
            self._log(reading.wall, record.differences(self._live, snapshot, changes))
        self._live = snapshot
        self._history.add(reading.at, snapshot.buckets, snapshot.owners)

    def _log(self, wall: float, events: Iterable[Event]) -> None:
        time = text.clock(wall, self._zone)
        for event in events:
            self._numbered += 1
            self._events.append(EventRecord(self._numbered, time, event))

    def view(self, query: Query, now: float, wall: float, progress: str = "") -> View | None:
        """Answer a question; None before anything was seen.

        Args:
            query: what to show.
            now: seconds on the source's clock.
            wall: time of day, in seconds since the epoch.
            progress: where in a recording this is; empty for a ledger.
        """
        reading = self._reading
        if reading is None:
            return None
        path = text.home_short(reading.snapshot.path, self._home)
        clock = text.clock(wall, self._zone)
        known = Facts(path, clock, progress, was_live=self._live is not None)
        status = status_of(reading, now, known)
        if status.advice:
            page = self._events_page(query) if query.screen == "events" and self._events else None
            return View(query, status, page, None)
        if query.screen == "overview":
            return View(query, status, self._overview(query, reading, now), reading.snapshot)
        if query.screen == "bucket":
            return View(query, status, self._bucket(query, reading, now), reading.snapshot)
        if query.screen == "runs":
            return View(query, status, RunsPage(self._runs(query, reading, now)), reading.snapshot)
        return View(query, status, self._events_page(query), reading.snapshot)

    def _record(self, bucket: BucketView, reading: Reading, now: float, window_s: float) -> BucketRecord:
        history = self._history.buckets.get(bucket.name) or BucketHistory()
        return overview.bucket_record(bucket, history, reading.taken, now, window_s)

    def _overview(self, query: Query, reading: Reading, now: float) -> OverviewPage:
        shown = [each for each in reading.snapshot.buckets if not query.user or _takes_part(each, query.user)]
        records = [self._record(each, reading, now, query.window_s) for each in shown]
        records = filtered(records, query.filter)
        note = "no bucket matches" if shown or query.user else "no bucket in use"
        table = _table("buckets", overview.columns(records, query.window_s), records, query, note)
        chosen = next((each for each in records if each.name == query.bucket), table.records[0] if table.records else None)
        if chosen is None:
            return OverviewPage(table, _table("runs", (), [], query, ""), (), "")
        part = [bucket for bucket in reading.snapshot.buckets if bucket.name == chosen.name]
        people = runs.run_records(reading.snapshot.owners, part, self._history, now)
        people = [each for each in people if each.buckets]
        side = _table("runs", runs.brief_columns(people), people, query, "nobody calls")
        return OverviewPage(table, side, self._plots(chosen, query, now)[:2], chosen.name)

    def _bucket(self, query: Query, reading: Reading, now: float) -> BucketPage:
        name = query.bucket or next((each.name for each in reading.snapshot.buckets), "")
        bucket = next((each for each in reading.snapshot.buckets if each.name == name), None)
        if bucket is None:
            return _no_bucket(name, query)
        elapsed = max(0.0, now - reading.taken)
        about = self._record(bucket, reading, now, query.window_s)
        holders = one_bucket.holder_records(name, self._leases.held(name), now)
        waiters = one_bucket.waiter_records(bucket, elapsed, about.per_minute)
        if query.user:
            holders = [each for each in holders if each.user == query.user]
            waiters = [each for each in waiters if each.user == query.user]
        holders, waiters = filtered(holders, query.filter), filtered(waiters, query.filter)
        return BucketPage(
            name,
            facts(bucket, about, elapsed),
            self._plots(about, query, now),
            _table("holders", one_bucket.holder_columns(holders), holders, query, "nobody holds a slot"),
            _table("waiters", one_bucket.waiter_columns(waiters), waiters, query, "nobody waits"),
        )

    def _plots(self, about: BucketRecord, query: Query, now: float) -> tuple[Plot, ...]:
        history = self._history.buckets.get(about.name)
        if history is None:
            return ()
        length = query.window_s
        grants, waits = history.grants(now, length), history.mean_wait(now, length)
        most = max(about.limit, about.in_flight_series.largest())
        rate = text.NONE if about.per_minute is None else f"{text.count(about.per_minute)}/min"
        p50 = text.NONE if about.waits.p50 is None else f"p50 {text.short(about.waits.p50)} s"
        return (
            Plot("in flight", about.in_flight_series, most, "busy", f"{about.in_flight}", f"{most:.0f}"),
            _own_scale("waiting", about.waiting_series, "saturated", f"{about.waiting}", text.count),
            _own_scale("wait of grants", waits, "accent", p50, text.seconds),
            _own_scale("grants a minute", grants, "title", rate, text.count),
        )

    def _runs(self, query: Query, reading: Reading, now: float) -> Table[runs.RunRecord]:
        snapshot = reading.snapshot
        records = runs.run_records(snapshot.owners, snapshot.buckets, self._history, now)
        records = filtered([each for each in records if query.user in {"", each.user}], query.filter)
        return _table("runs", runs.columns(records), records, query, "no run matches" if snapshot.owners else "no run")

    def _events_page(self, query: Query) -> EventsPage:
        events = [each for each in self._events if query.user in {"", each.event.user}]
        shown = tuple(filtered(events, query.filter))
        note = "nothing has happened since this monitor was started" if not self._events else "no event matches"
        return EventsPage(Table(record.columns(shown), shown, _ORDERS["events"], note))


def _no_bucket(name: str, query: Query) -> BucketPage:
    words = f" No bucket {name} in this ledger now; this screen will follow." if name else " No bucket in use."
    holders: Table[one_bucket.HolderRecord] = _table("holders", (), [], query, "")
    waiters: Table[one_bucket.WaiterRecord] = _table("waiters", (), [], query, "")
    return BucketPage(name, (plain_line(((words, "dim"),)),), (), holders, waiters)


def _own_scale(title: str, series: Series, role: Role, now: str, told: Callable[[float], str]) -> Plot:
    top = series.largest()
    return Plot(title, series, top, role, now, told(top) if top else "")


def _table(name: str, columns: tuple[Column[R], ...], records: Sequence[R], query: Query, note: str) -> Table[R]:
    order = query.orders.get(name, _ORDERS[name])
    return Table(columns, arranged(records, columns, order), order, note)


def _takes_part(bucket: BucketView, user: str) -> bool:
    return any(each.user == user for each in bucket.holders) or any(each.user == user for each in bucket.waiters)


def _kind(reading: Reading) -> str:
    return "refused" if reading.refused else reading.snapshot.state


_EVENTS = {
    "refused": "may not be read",
    "absent": "the file is gone",
    "corrupt": "damaged",
    "newer": "of a newer schema",
    "foreign": "somebody else's JSON",
}
