"""One row a bucket; below, what goes on in the one under the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Horizontal, Vertical

from llm_sched_tui.screens.base import MonitorScreen
from llm_sched_tui.view_model.pages import OverviewPage
from llm_sched_tui.widgets.drawn import PlotArea
from llm_sched_tui.widgets.line_table import LineTable

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from llm_sched_tui.view_model.values import View

_LOWEST_PANEL = 8
_WIDEST_WITHOUT_RUNS = 110


class OverviewScreen(MonitorScreen):
    """All buckets."""

    def body(self) -> ComposeResult:
        """See `MonitorScreen`."""
        yield LineTable(id="buckets")
        with Horizontal(id="panel"):
            with Vertical(id="panel-plots"):
                yield PlotArea(id="plot-in-flight")
                yield PlotArea(id="plot-waiting")
            yield LineTable(id="panel-runs")

    def tables(self) -> dict[str, LineTable]:
        """See `MonitorScreen`."""
        return {"buckets": self.query_one("#buckets", LineTable)}

    def draw(self, view: View) -> None:
        """See `MonitorScreen`."""
        page = view.page
        if not isinstance(page, OverviewPage):
            return
        self.query_one("#buckets", LineTable).table = page.buckets
        self._arrange(len(page.buckets.records), has_panel=bool(page.plots))
        panel = self.query_one("#panel")
        if not panel.display:
            return
        if panel.border_title != page.chosen:
            panel.border_title = page.chosen
        self.query_one("#plot-in-flight", PlotArea).value = page.plots[0]
        self.query_one("#plot-waiting", PlotArea).value = page.plots[1]
        self.query_one("#panel-runs", LineTable).table = page.runs

    def _arrange(self, rows: int, *, has_panel: bool) -> None:
        """The table gets what it needs; the panel the rest, if that is enough."""
        room = self.query_one("#body").size.height
        height = rows + 2
        shown = has_panel and room - height >= _LOWEST_PANEL
        panel, table = self.query_one("#panel"), self.query_one("#buckets")
        if panel.display != shown:
            panel.display = shown
        wanted = height if shown else "1fr"
        if table.styles.height is None or str(table.styles.height) != str(wanted):
            table.styles.height = wanted
        wide = self.size.width >= _WIDEST_WITHOUT_RUNS
        side = self.query_one("#panel-runs")
        if side.display != wide:
            side.display = wide
