"""One bucket: facts, history, who holds and who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Container

from llm_sched_tui.screens.base import MonitorScreen
from llm_sched_tui.view_model.pages import BucketPage
from llm_sched_tui.widgets.drawn import Flow, PlotArea
from llm_sched_tui.widgets.line_table import LineTable

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from llm_sched_tui.view_model.values import View

_PLOTS = 4


class BucketScreen(MonitorScreen):
    """One bucket."""

    def body(self) -> ComposeResult:
        """See `MonitorScreen`."""
        yield Flow(id="facts")
        with Container(id="plots"):
            for number in range(_PLOTS):
                yield PlotArea(id=f"plot-{number}", classes="plot")
        with Container(id="people"):
            yield LineTable(id="holders")
            yield LineTable(id="waiters")

    def tables(self) -> dict[str, LineTable]:
        """See `MonitorScreen`."""
        return {name: self.query_one(f"#{name}", LineTable) for name in ("holders", "waiters")}

    def draw(self, view: View) -> None:
        """See `MonitorScreen`."""
        page = view.page
        if not isinstance(page, BucketPage):
            return
        body = self.query_one("#body")
        if body.border_title != page.name:
            body.border_title = page.name
        self.query_one("#facts", Flow).value = page.facts
        plots = self.query_one("#plots")
        if plots.display != bool(page.plots):
            plots.display = bool(page.plots)
            self.query_one("#people").display = bool(page.plots)
        for number, plot in enumerate(page.plots):
            self.query_one(f"#plot-{number}", PlotArea).value = plot
        for name, table in (("holders", page.holders), ("waiters", page.waiters)):
            widget = self.query_one(f"#{name}", LineTable)
            widget.table = table
            title = f"{'holds' if name == 'holders' else 'waits'} {len(table.records)}"
            if widget.border_title != title:
                widget.border_title = title
