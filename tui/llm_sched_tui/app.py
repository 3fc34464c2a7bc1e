"""The monitor as a Textual app: keys in, questions to the feed; views to the screen that is shown.

The law: it decides what is asked, never what is answered. All reading is the feed's, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType

from llm_sched import __version__
from llm_sched.errors import SchedulerError
from llm_sched_tui.export import export
from llm_sched_tui.messages import Fresh
from llm_sched_tui.screens.base import MonitorScreen
from llm_sched_tui.screens.bucket import BucketScreen
from llm_sched_tui.screens.events import EventsScreen
from llm_sched_tui.screens.help import HelpScreen
from llm_sched_tui.screens.overview import OverviewScreen
from llm_sched_tui.screens.runs import RunsScreen
from llm_sched_tui.themes import CYCLE, DARK, LIGHT
from llm_sched_tui.view_model.tables import next_order, order_by
from llm_sched_tui.view_model.values import Order, Query, ScreenName, View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from textual.screen import Screen

    from llm_sched_tui.feed import Feed
    from llm_sched_tui.widgets.line_table import LineTable

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes after Ctrl-C and SIGTERM, as a shell counts them."""


class MonitorApp(App[int]):
    """Watches one ledger.

    Args:
        feed: reads and answers.
        query: what to show first.
        theme: name of the first theme.
        folder: where exports go.
        lifeline: descriptor from which lines to show are read; the app ends when it is closed.
    """

    TITLE = "llm-sched"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = True
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal"), (140, "-wide")]  # noqa: RUF012 - as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-low"), (30, "-high")]  # noqa: RUF012 - likewise
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        "overview": partial(OverviewScreen, id="overview"),
        "bucket": partial(BucketScreen, id="bucket"),
        "runs": partial(RunsScreen, id="runs"),
        "events": partial(EventsScreen, id="events"),
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "screen('overview')", "Overview", show=False),
        Binding("2", "screen('bucket')", "Bucket", show=False),
        Binding("3", "screen('runs')", "Runs", show=False),
        Binding("4", "screen('events')", "Events", show=False),
        Binding("slash", "filter", "Filter", show=False),
        Binding("s", "sort", "Sort by the next column", show=False),
        Binding("S", "turn", "Sort the other way round", show=False),
        Binding("space", "pause", "Pause", show=False),
        Binding("plus,equals_sign", "window(1)", "Longer window", show=False),
        Binding("minus,underscore", "window(-1)", "Shorter window", show=False),
        Binding("c", "copy", "Copy the row", show=False),
        Binding("e", "export", "Export", show=False),
        Binding("t", "next_theme", "Next theme", show=False),
        Binding("question_mark", "help", "Help", show=False),
        Binding("escape", "back", "Back", show=False),
        Binding("q", "quit", "Quit", show=False),
        Binding("ctrl+c", "interrupt", "Quit", show=False, priority=True),
    ]

    def __init__(self, feed: Feed, query: Query, *, theme: str, folder: Path, lifeline: int | None = None) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        if theme in self.available_themes:
            self.theme = theme
        else:
            self.theme = DARK.name
        self._feed = feed
        self._folder = folder
        self._lifeline = lifeline
        self._banner = ""
        self._back: list[ScreenName] = []
        self.query_shown = query
        self.view: View | None = None
        self.failure: SchedulerError | None = None

    def on_mount(self) -> None:
        """Begin with the first screen, and to read."""
        self.switch_mode(self.query_shown.screen)
        self._ask(self.query_shown)
        self.run_worker(self._read, thread=True, name="feed")

        if threading.current_thread() is threading.main_thread():  # only there signals can be handled
            with contextlib.suppress(NotImplementedError):  # Windows
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._end_by_signal)
        if self._lifeline is not None:
            os.set_blocking(self._lifeline, False)
            asyncio.get_running_loop().add_reader(self._lifeline, self._hear, self._lifeline)

    def on_unmount(self) -> None:
        """Let the reading end."""
        self._feed.stop()

    def _end_by_signal(self) -> None:
        """A supervisor ends it: the terminal is given back, a recording gets its end."""
        self.exit(return_code=TERMINATED)

    def _hear(self, lifeline: int) -> None:
        """Show the last line that came; end with whoever opened the monitor."""
        data = os.read(lifeline, 4096)
        if not data:
            asyncio.get_running_loop().remove_reader(lifeline)
            self.exit()
            return
        self._banner = data.decode("utf-8", "replace").splitlines()[-1]
        self._draw()

    def _read(self) -> None:
        """In the worker: read until the end. What cannot be written down or played ends the app, with one clear line."""
        try:
            self._feed.run(self._show)
        except SchedulerError as error:
            self.failure = error
            self.call_from_thread(self.exit, return_code=1)

    def _show(self, view: View) -> None:
        self.post_message(Fresh(view))

    def on_fresh(self, message: Fresh) -> None:
        """Something new: for the screen that can be seen."""
        self.view = message.view
        self._draw()

    def _draw(self) -> None:
        screen = self._monitor_screen()
        if screen is not None and self.view is not None and screen.is_mounted:
            screen.view = self.view
            screen.banner = self._banner

    def _monitor_screen(self) -> MonitorScreen | None:
        return next((screen for screen in reversed(self.screen_stack) if isinstance(screen, MonitorScreen)), None)

    def _ask(self, query: Query) -> None:
        self.query_shown = query
        self._feed.query = query

    def _change(self, **changes: Any) -> None:  # noqa: ANN401 - a query's fields
        self._ask(dataclasses.replace(self.query_shown, **changes))

    async def action_screen(self, name: ScreenName) -> None:
        """Show one of the four screens."""
        if name == self.query_shown.screen:
            return
        self._back.append(self.query_shown.screen)
        del self._back[:-8]
        await self._go(name)

    async def _go(self, name: ScreenName) -> None:
        self._change(screen=name)
        await self.switch_mode(name)
        self._draw()

    async def action_back(self) -> None:
        """Close the filter, else forget it, else go where one came from."""
        screen = self._monitor_screen()
        if (screen is not None and screen.close_filter()) or self.query_shown.filter:
            self._ask(self.query_shown.with_filter(""))
        elif self._back:
            await self._go(self._back.pop())
        elif self.query_shown.screen != "overview":
            await self._go("overview")

    async def on_line_table_chosen(self, message: LineTable.Chosen) -> None:
        """Zoom into the bucket of a row."""
        await self._zoom(message.record.bucket)

    async def action_zoom(self) -> None:
        """Zoom into the bucket of the row under the cursor."""
        record = self._record()
        await self._zoom(record.bucket if record else "")

    async def _zoom(self, bucket: str) -> None:
        if bucket and self.query_shown.screen != "bucket":
            self._change(bucket=bucket)
            await self.action_screen("bucket")

    def on_line_table_pointed(self, message: LineTable.Pointed) -> None:
        """The overview shows more of the bucket under the cursor, and the bucket screen shows that one."""
        if message.line_table.id == "buckets" and message.record is not None and self.query_shown.screen == "overview":
            self._change(bucket=message.record.bucket)

    def on_line_table_sort_by(self, message: LineTable.SortBy) -> None:
        """A title was clicked."""
        name = next((name for name, table in self._tables().items() if table is message.line_table), "")
        if name and message.line_table.table is not None:
            table = message.line_table.table
            self._ask(self.query_shown.with_order(name, order_by(table.columns, table.order, message.column)))

    def _tables(self) -> dict[str, LineTable]:
        screen = self._monitor_screen()
        return screen.tables() if screen is not None else {}

    def _pointed(self) -> tuple[str, LineTable] | None:
        tables = self._tables()
        focused = next(((name, table) for name, table in tables.items() if table.has_focus), None)
        return focused or next(iter(tables.items()), None)

    def _record(self) -> Any:  # noqa: ANN401 - any record
        pointed = self._pointed()
        return pointed[1].record if pointed else None

    def action_sort(self) -> None:
        """Sort by the next column."""
        pointed = self._pointed()
        if pointed and pointed[1].table:
            self._ask(self.query_shown.with_order(pointed[0], next_order(pointed[1].table.columns, pointed[1].table.order)))

    def action_turn(self) -> None:
        """Sort the other way round."""
        pointed = self._pointed()
        if pointed and pointed[1].table:
            order = pointed[1].table.order
            self._ask(self.query_shown.with_order(pointed[0], Order(order.column, not order.descending)))

    def action_filter(self) -> None:
        """Let the user type a filter."""
        screen = self._monitor_screen()
        if screen is not None:
            screen.open_filter(self.query_shown.filter)

    def on_monitor_screen_filtered(self, message: MonitorScreen.Filtered) -> None:
        """The filter's text has changed."""
        self._ask(self.query_shown.with_filter(message.text))

    def action_pause(self) -> None:
        """Let the picture stand still, or go on."""
        self._change(paused=not self.query_shown.paused)

    def action_window(self, step: int) -> None:
        """Show a longer or a shorter time."""
        self._ask(self.query_shown.with_window(step))

    def action_copy(self) -> None:
        """Copy the row under the cursor."""
        record = self._record()
        if record is None:
            self.notify("There is no row to copy.", severity="warning")
            return
        self.copy_to_clipboard(record.words)
        self.notify(record.words, title="Copied", markup=False)

    def action_export(self) -> None:
        """Write the snapshot and a picture."""
        try:
            names = export(self._folder, self.view, self.export_screenshot(title=self.TITLE))
        except OSError as error:
            self.notify(f"{self._folder}: {error.strerror}", title="Not exported", severity="error", markup=False)
            return
        self.notify("\n".join(names), title=f"Exported to {self._folder}", markup=False)

    def action_next_theme(self) -> None:
        """Go on to the next theme."""
        index = CYCLE.index(self.theme) if self.theme in CYCLE else -1
        self.theme = CYCLE[(index + 1) % len(CYCLE)]

    def action_help(self) -> None:
        """Show every key."""
        path = self.view.status.facts.path if self.view else ""
        self.push_screen(HelpScreen((("ledger", path), ("version", f"llm-sched {__version__}"))))

    def action_interrupt(self) -> None:
        """Ctrl-C."""
        self.exit(INTERRUPTED, return_code=INTERRUPTED)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """What the command palette offers: every key of ours, and Textual's themes."""
        for binding in self.BINDINGS:
            if isinstance(binding, Binding) and binding.key != "ctrl+c":
                key = binding.key.partition(",")[0]
                yield SystemCommand(binding.description, f"key: {self.get_key_display(binding)}", partial(self._press, key))
        yield SystemCommand("Theme", "Choose one of all themes", self.action_change_theme)
        _ = screen

    def _press(self, key: str) -> None:
        self.simulate_key(key)
