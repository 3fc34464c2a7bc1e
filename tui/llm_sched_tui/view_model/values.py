"""What goes in and out of the view model: readings, the question, and the view. Frozen, all of it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from llm_sched_tui.view_model.series import WINDOWS_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_sched.snapshot import Snapshot
    from llm_sched_tui.view_model.pages import BucketPage, EventsPage, OverviewPage, RunsPage
    from llm_sched_tui.view_model.status import Status

ScreenName: TypeAlias = Literal["overview", "bucket", "runs", "events"]


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the ledger.

    `at` is when it was looked, `taken` when what was seen was read: both in seconds of the source's clock. `wall` is the
    time of day of the look, in seconds since the epoch. `refused`: why the file may not be read at all.
    """

    at: float
    taken: float
    wall: float
    snapshot: Snapshot
    refused: str = ""

    @property
    def changed(self) -> bool:
        """Whether this may differ from the reading before."""
        return self.taken == self.at


@dataclass(frozen=True, slots=True)
class Order:
    """By which column a table is sorted."""

    column: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """What a user wants to see."""

    screen: ScreenName = "overview"
    bucket: str = ""
    user: str = ""
    window_s: float = WINDOWS_S[1]
    paused: bool = False
    filters: Mapping[str, str] = field(default_factory=dict[str, str])
    orders: Mapping[str, Order] = field(default_factory=dict[str, Order])

    @property
    def filter(self) -> str:
        """The filter of the screen that is shown."""
        return self.filters.get(self.screen, "")

    def with_filter(self, text: str) -> Query:
        """The same question with another filter on this screen."""
        return dataclasses.replace(self, filters={**self.filters, self.screen: text})

    def with_order(self, table: str, order: Order) -> Query:
        """The same question with a table sorted otherwise."""
        return dataclasses.replace(self, orders={**self.orders, table: order})

    def with_window(self, step: int) -> Query:
        """The next longer (`step` 1) or shorter (-1) window, as far as there is one."""
        index = WINDOWS_S.index(self.window_s) + step
        return dataclasses.replace(self, window_s=WINDOWS_S[max(0, min(len(WINDOWS_S) - 1, index))])


@dataclass(frozen=True, slots=True)
class View:
    """All that is drawn: one answer to one question. `pages` is None where there is nothing but a status to show."""

    query: Query
    status: Status
    page: OverviewPage | BucketPage | RunsPage | EventsPage | None
    snapshot: Snapshot | None
