"""What happened, the newest last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_sched_tui.screens.base import MonitorScreen
from llm_sched_tui.view_model.pages import EventsPage
from llm_sched_tui.widgets.line_table import LineTable

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from llm_sched_tui.view_model.values import View


class EventsScreen(MonitorScreen):
    """The log."""

    def body(self) -> ComposeResult:
        """See `MonitorScreen`."""
        yield LineTable(id="events-table", follow=True)

    def tables(self) -> dict[str, LineTable]:
        """See `MonitorScreen`."""
        return {"events": self.query_one(LineTable)}

    def draw(self, view: View) -> None:
        """See `MonitorScreen`."""
        if isinstance(view.page, EventsPage):
            self.query_one(LineTable).table = view.page.events
