"""Snapshots made by hand, a source that shows them, and the app around it."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Any

from llm_sched.snapshot import BucketTotals, BucketView, Holder, OwnerView, PolicyView, Snapshot, Waiters
from llm_sched_tui.app import MonitorApp
from llm_sched_tui.feed import Feed
from llm_sched_tui.themes import DARK
from llm_sched_tui.view_model.model import Model
from llm_sched_tui.view_model.values import Query, Reading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from textual.pilot import Pilot

PATIENCE_S = 20.0
"""A generous deadline: passing it means "never", not "slow"."""

WALL = 1_700_000_000.0
BOUNDS = (0.1, 1.0, 10.0)


def holder(pid: int = 11, user: str = "ann", held_s: float = 1.0, waited_s: float = 0.5, *, overdue: bool = False) -> Holder:
    """Somebody who holds a slot."""
    return Holder(pid, user, f"run-{user}.py", held_s, waited_s, overdue)


def waiters(pid: int = 12, user: str = "bob", count: int = 2, **facts: Any) -> Waiters:
    """A process that waits."""
    known = {"oldest_wait_s": 3.0, "position": 1, "waiting_for": "in_flight", "deadline_s": 297.0, **facts}
    return Waiters(pid, user, f"run-{user}.py", count, **known)


def policy(pid: int = 11, cap: int = 2, rpm: float = 0.0, source: str = "default") -> PolicyView:
    """A policy in force."""
    return PolicyView(pid, cap, rpm, max(1.0, rpm), 300.0, source)


def totals(granted: int = 0, counts: tuple[int, ...] = (0, 0, 0, 0), **facts: Any) -> BucketTotals:
    """Counters; `counts` are cumulative, by `BOUNDS` and above."""
    known = {"timed_out": 0, "canceled": 0, "reclaimed": 0, "wait_s": 0.0, **facts}
    histogram = list(zip((*BOUNDS, None), counts, strict=True))
    return BucketTotals(granted, wait_histogram=histogram, **known)


def bucket(name: str = "p/m", cap: int = 2, **facts: Any) -> BucketView:
    """A bucket; what is not said follows from who holds and waits."""
    holders, waiting = facts.pop("holders", []), facts.pop("waiters", [])
    known = {
        "requests_per_minute": 0.0,
        "burst": 1.0,
        "rate_available": None,
        "rate_next_s": None,
        "in_flight": len(holders),
        "waiting": sum(each.count for each in waiting),
        "oldest_wait_s": max((each.oldest_wait_s for each in waiting), default=0.0),
        "totals": totals(),
        "policies": [policy(each.pid, cap) for each in (*holders, *waiting)],
        **facts,
    }
    return BucketView(name=name, max_in_flight=cap, holders=holders, waiters=waiting, **known)


def owners_of(*buckets: BucketView) -> list[OwnerView]:
    """The processes in these buckets, all alive."""
    found: dict[int, OwnerView] = {}
    for each in buckets:
        for person in (*each.holders, *each.waiters):
            held = sum(other.pid == person.pid for one in buckets for other in one.holders)
            waiting = sum(other.count for one in buckets for other in one.waiters if other.pid == person.pid)
            found[person.pid] = OwnerView(person.pid, person.user, person.command, True, held, waiting, 0)  # noqa: FBT003
    return list(found.values())


def snapshot(*buckets: BucketView, seq: int = 1, age_s: float = 0.1, owners: list[OwnerView] | None = None) -> Snapshot:
    """A live ledger."""
    people = owners_of(*buckets) if owners is None else owners
    return Snapshot("/home/ann/ledger.json", 1, seq, "2023-11-14T22:13:20.000Z", age_s, "live", list(buckets), people)


def missing(state: str = "absent") -> Snapshot:
    """A ledger that cannot be read."""
    return Snapshot("/home/ann/ledger.json", 1, 0, None, None, state)  # type: ignore[arg-type]


def reading(shown: Snapshot, at: float = 0.0, *, taken: float | None = None, refused: str = "") -> Reading:
    """A look at a ledger."""
    return Reading(at, at if taken is None else taken, WALL + at, shown, refused)


def model() -> Model:
    """A model that tells the time in UTC."""
    return Model(dt.UTC, "/home/ann")


class FakeSource:
    """Shows the snapshot it was given last; its clock is moved by hand.

    Attributes:
        still: whether somebody asked it to stand still.
    """

    def __init__(self, shown: Snapshot) -> None:
        self.at = 0.0
        self.still = False
        self._shown = shown
        self._refused = ""
        self._taken = 0.0
        self._seen: float | None = None

    def show(self, shown: Snapshot, refused: str = "", seconds: float = 1.0) -> None:
        """Show another snapshot, some seconds later."""
        self.at += seconds
        self._taken, self._shown, self._refused = self.at, shown, refused

    def poll(self) -> list[Reading]:
        """See `Source`."""
        at, taken = self.at, self._taken
        fresh, self._seen = self._seen != taken, taken
        return [Reading(taken if fresh else max(at, taken + 1e-6), taken, WALL + at, self._shown, self._refused)]

    def now(self) -> float:
        """See `Source`."""
        return self.at

    def wall(self) -> float:
        """See `Source`."""
        return WALL + self.at

    def hold(self, *, still: bool) -> None:
        """See `Source`."""
        self.still = still

    def progress(self) -> str:
        """See `Source`."""
        return ""


CONTENTION = (
    bucket(
        "openai/gpt-4o",
        2,
        holders=[holder(11, "ann", 4.0), holder(12, "bob", 2.0)],
        waiters=[waiters(12, "bob", 3), waiters(13, "cid", 1, position=2, oldest_wait_s=2.0)],
    ),
    bucket("ollama/llama", 4, holders=[holder(13, "cid", 1.5)]),
    bucket("openai/embed", 16, policies=[]),
)


def app_of(source: FakeSource, folder: Path, query: Query | None = None, **options: Any) -> MonitorApp:
    """The app around a fake source, which it looks at a hundred times a second."""
    return MonitorApp(Feed(source, model(), 0.01), query or Query(), theme=DARK.name, folder=folder, **options)


async def until(pilot: Pilot[Any], condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition that nobody announces."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}\n{screen_text(pilot)}"
        await pilot.pause(0.01)


def screen_text(pilot: Pilot[Any]) -> str:
    """What stands on the screen."""
    strips = pilot.app.screen._compositor.render_strips()  # noqa: SLF001 - Textual has no public way to the characters
    return "\n".join(strip.text.rstrip() for strip in strips)


async def shows(pilot: Pilot[Any], *texts: str) -> None:
    """Wait until all of these stand on the screen."""
    await until(pilot, lambda: all(text in screen_text(pilot) for text in texts), f"shows {texts}")


async def lacks(pilot: Pilot[Any], text: str) -> None:
    """Wait until this does not stand on the screen."""
    await until(pilot, lambda: text not in screen_text(pilot), f"shows no {text!r}")
