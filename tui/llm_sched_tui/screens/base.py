"""What every screen has: a head, tabs, a body, the keys; and what it does with a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.widgets import Input

from llm_sched_tui.widgets.drawn import Banner, Head, KeyBar, Notice, Tabs

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

    from llm_sched_tui.view_model.values import View
    from llm_sched_tui.widgets.line_table import LineTable


class MonitorScreen(Screen[None]):
    """One of the four screens; `view` is all it knows."""

    view: reactive[View | None] = reactive(None, repaint=False)
    banner: reactive[str] = reactive("", repaint=False)
    AUTO_FOCUS: ClassVar[str | None] = "LineTable"

    class Filtered(Message):
        """The filter's text has changed."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def body(self) -> ComposeResult:
        """The widgets between tabs and keys."""
        raise NotImplementedError

    def draw(self, view: View) -> None:
        """Tell each widget of the body its part of a view whose page is this screen's."""
        raise NotImplementedError

    def tables(self) -> dict[str, LineTable]:
        """This screen's tables, by their names in a query."""
        return {}

    def compose(self) -> ComposeResult:
        """Head, tabs, body, filter, keys."""
        yield Head(id="head")
        yield Tabs(id="tabs")
        yield Banner(id="banner")
        with Vertical(id="body"):
            yield from self.body()
        yield Notice(id="notice")
        yield Input(placeholder="words, or a regular expression; ! in front: all but these", id="filter", compact=True)
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """The last line is always the same."""
        self.query_one(KeyBar).value = True

    def watch_view(self, view: View | None) -> None:
        """Hand the parts on."""
        if view is None:
            return
        self.query_one(Head).value = view
        self.query_one(Tabs).value = view.query
        self._show_either(view)
        if view.page is not None and view.query.screen == self.id:
            self.draw(view)

    def watch_banner(self, banner: str) -> None:
        """Something to be said above everything else."""
        line = self.query_one(Banner)
        line.display = bool(banner)
        line.value = banner

    def _show_either(self, view: View) -> None:
        missing = view.page is None
        notice, body = self.query_one(Notice), self.query_one("#body")
        if notice.display != missing:
            notice.display, body.display = missing, not missing
            if not missing and self.focused is None:  # a table that was hidden has lost it
                self.call_after_refresh(self.focus_table)
        notice.value = view.status.advice if missing else None

    def open_filter(self, text: str) -> None:
        """Let the user type a filter."""
        line = self.query_one("#filter", Input)
        line.value = text
        line.display = True
        line.focus()

    def close_filter(self) -> bool:
        """Take the line away; return whether it was there."""
        line = self.query_one("#filter", Input)
        was_open = line.display
        line.display = False
        if was_open:
            self.focus_table()
        return was_open

    def focus_table(self) -> None:
        """Back to the first table."""
        first: Widget | None = next(iter(self.tables().values()), None)
        if first is not None:
            first.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while typing."""
        event.stop()
        if event.input.display:
            self.post_message(self.Filtered(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter."""
        event.stop()
        self.close_filter()
