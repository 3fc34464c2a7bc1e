"""One row a process: contention between runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_sched_tui.screens.base import MonitorScreen
from llm_sched_tui.view_model.pages import RunsPage
from llm_sched_tui.widgets.line_table import LineTable

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from llm_sched_tui.view_model.values import View


class RunsScreen(MonitorScreen):
    """All runs."""

    def body(self) -> ComposeResult:
        """See `MonitorScreen`."""
        yield LineTable(id="runs-table")

    def tables(self) -> dict[str, LineTable]:
        """See `MonitorScreen`."""
        return {"runs": self.query_one(LineTable)}

    def draw(self, view: View) -> None:
        """See `MonitorScreen`."""
        if isinstance(view.page, RunsPage):
            self.query_one(LineTable).table = view.page.runs
