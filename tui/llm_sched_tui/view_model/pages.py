"""The four screens as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_sched_tui.view_model.bucket import HolderRecord, WaiterRecord
    from llm_sched_tui.view_model.cells import Line, Role
    from llm_sched_tui.view_model.overview import BucketRecord
    from llm_sched_tui.view_model.record import EventRecord
    from llm_sched_tui.view_model.runs import RunRecord
    from llm_sched_tui.view_model.series import Series
    from llm_sched_tui.view_model.tables import Table


@dataclass(frozen=True, slots=True)
class Plot:
    """One history: `top` is the value at its upper edge, `now` the present one, as it is told."""

    title: str
    series: Series
    top: float
    role: Role
    now: str
    top_label: str


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """One row a bucket, and what goes on in the one that was looked at last."""

    buckets: Table[BucketRecord]
    runs: Table[RunRecord]
    plots: tuple[Plot, ...]
    chosen: str


@dataclass(frozen=True, slots=True)
class BucketPage:
    """One bucket: facts, each a line that may be broken between its chunks; its history; who holds and who waits."""

    name: str
    facts: tuple[Line, ...]
    plots: tuple[Plot, ...]
    holders: Table[HolderRecord]
    waiters: Table[WaiterRecord]


@dataclass(frozen=True, slots=True)
class RunsPage:
    """One row a process."""

    runs: Table[RunRecord]


@dataclass(frozen=True, slots=True)
class EventsPage:
    """What happened, oldest first."""

    events: Table[EventRecord]
