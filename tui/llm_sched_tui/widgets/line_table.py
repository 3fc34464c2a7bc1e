"""A table of lines: its price is that of the cells that can be seen, and only if they have changed.

The law: the cursor stays with the thing, not with the line. Sorting and filtering are the view model's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from llm_sched_tui.view_model.cells import Words
from llm_sched_tui.view_model.tables import GAP, Table, fit
from llm_sched_tui.widgets.paint import Painted

if TYPE_CHECKING:
    from textual import events

    from llm_sched_tui.view_model.cells import Span
    from llm_sched_tui.view_model.tables import Column, Record

_MARGIN = 1
_TITLE = 1


class LineTable(Painted, ScrollView, can_focus=True):
    """Draws `table`.

    Args:
        follow: whether the cursor stays on the last line while lines are added, as with `tail -f`.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"table--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "move(-1000000)", "First", show=False),
        Binding("end,G", "move(1000000)", "Last", show=False),
        Binding("enter", "choose", "Zoom in", show=False),
    ]

    table: reactive[Table[Any] | None] = reactive(None, repaint=False)

    class Pointed(Message):
        """The cursor is on another thing now; None = there is none."""

        def __init__(self, table: LineTable, record: Record | None) -> None:
            super().__init__()
            self.line_table = table
            self.record = record

    class Chosen(Message):
        """A row was chosen with Enter or a double click."""

        def __init__(self, record: Record) -> None:
            super().__init__()
            self.record = record

    class SortBy(Message):
        """A column's title was clicked."""

        def __init__(self, table: LineTable, column: str) -> None:
            super().__init__()
            self.line_table = table
            self.column = column

    def __init__(self, *, follow: bool = False, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self._follow = follow
        self._key = ""
        self._index = 0
        self._keys: list[str] = []
        self._told = False
        self._fitted: tuple[tuple[int, int], ...] = ()
        self._drawn: dict[int, tuple[Span, ...]] = {}

    @property
    def record(self) -> Record | None:
        """The thing under the cursor."""
        records = self.table.records if self.table else ()
        return records[self._index] if self._index < len(records) else None

    def watch_table(self) -> None:
        """New records: find the thing again, and paint the lines that have changed."""
        self._find()
        self._lay_out()

    def on_resize(self) -> None:
        """A new size: what was painted at another one, or never, is worth nothing."""
        self._drawn = {}
        self._lay_out()
        self.refresh()

    def watch_has_focus(self, has_focus: bool) -> None:  # noqa: FBT001 - Textual's signature
        """The cursor looks different."""
        super().watch_has_focus(has_focus)
        self._repaint(self._index)

    def _find(self) -> None:
        records = self.table.records if self.table else ()
        at_end = self._follow and (not self._key or self._index >= len(self._keys) - 1)
        self._keys = [record.key for record in records]
        before = self._index
        if at_end:
            self._index = max(0, len(records) - 1)
        elif self._key in self._keys:
            self._index = self._keys.index(self._key)
        else:
            self._index = max(0, min(self._index, len(records) - 1))
        if self._index != before:
            self._repaint(before)
            self._repaint(self._index)
        self._point()

    def _point(self) -> None:
        record = self.record
        key = record.key if record else ""
        if key != self._key or not self._told:
            self._key, self._told = key or self._key, True
            self.post_message(self.Pointed(self, record))

    def _lay_out(self) -> None:
        table, width = self.table, self.size.width
        if table is None or not width:
            return
        count = len(table.records)
        self.virtual_size = Size(width, count + _TITLE)
        fitted = fit(table.columns, width - 2 * _MARGIN)
        if fitted != self._fitted:
            self._fitted, self._drawn = fitted, {}
            self.refresh()
        self._keep_in_sight()
        top = round(self.scroll_offset.y)
        drawn = {index: self._row(table, index) for index in range(top, min(count, top + self.size.height - _TITLE))}
        titles = self._titles(table)
        before, self._drawn = self._drawn, {**drawn, -1: titles}
        for index in {*before, *self._drawn}:
            if before.get(index) != self._drawn.get(index):
                self._repaint(index)

    def _keep_in_sight(self) -> None:
        height = self.size.height - _TITLE
        top = round(self.scroll_offset.y)
        if height > 0 and not top <= self._index < top + height:
            wanted = self._index if self._index < top else self._index - height + 1
            self.scroll_to(y=wanted, animate=False, force=True, immediate=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Other lines are in sight."""
        super().watch_scroll_y(old_value, new_value)
        self._drawn = {}
        self.refresh()

    def _repaint(self, index: int) -> None:
        y = 0 if index < 0 else index - round(self.scroll_offset.y) + _TITLE
        if 0 <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def _row(self, table: Table[Any], index: int) -> tuple[Span, ...]:
        record = table.records[index]
        spans: list[Span] = [(" " * _MARGIN, "plain")]
        for number, (column, width) in enumerate(self._fitted):
            if number:
                spans.append((" " * GAP, "plain"))
            spans += _filled(table.columns[column].cell(record).draw(width), width)
        return tuple(spans)

    def _titles(self, table: Table[Any]) -> tuple[Span, ...]:
        spans: list[Span] = [(" " * _MARGIN, "plain")]
        for number, (index, width) in enumerate(self._fitted):
            if number:
                spans.append((" " * GAP, "plain"))
            column = table.columns[index]
            is_sorted = table.order.column == column.key
            title = column.title + (("▾" if table.order.descending else "▴") if is_sorted and len(column.title) < width else "")
            spans += _filled(Words(title, "accent" if is_sorted else "dim", column.right).draw(width), width)
        return tuple(spans)

    def render_line(self, y: int) -> Strip:
        """The titles, or the row that is scrolled to this line."""
        width, table = self.size.width, self.table
        base = self.base_style
        if table is None or (not table.records and y):
            note = f"  {table.note}" if table is not None and y == 1 else ""
            return Strip(self.segments(((note, "dim"),), base)).adjust_cell_length(width, base)
        if y == 0:
            return Strip(self.segments(self._titles(table), base)).adjust_cell_length(width, base)
        index = y - _TITLE + round(self.scroll_offset.y)
        if index >= len(table.records):
            return Strip.blank(width, base)
        if index == self._index and self.has_focus:
            base += self.get_component_rich_style("table--cursor", partial=True)
        spans = self._drawn.get(index) or self._row(table, index)
        return Strip(self.segments(spans, base)).adjust_cell_length(width, base)

    def action_move(self, step: int) -> None:
        """Move the cursor by lines."""
        if self.table and self.table.records:
            before, self._index = self._index, max(0, min(len(self.table.records) - 1, self._index + step))
            self._repaint(before)
            self._repaint(self._index)
            self._point()
            self._lay_out()

    def action_page(self, pages: int) -> None:
        """Move the cursor by screens."""
        self.action_move(pages * max(1, self.size.height - _TITLE - 1))

    def action_choose(self) -> None:
        """Choose the row."""
        if self.record is not None:
            self.post_message(self.Chosen(self.record))

    def on_click(self, event: events.Click) -> None:
        """Sort by a title, move to a row, choose it with the second click."""
        if event.y == 0:
            column = self._column_at(event.x)
            if column is not None and column.order is not None:
                self.post_message(self.SortBy(self, column.key))
            return
        index = event.y - _TITLE + round(self.scroll_offset.y)
        if self.table and index < len(self.table.records):
            self.action_move(index - self._index)
            if event.chain > 1:
                self.action_choose()

    def _column_at(self, x: int) -> Column[Any] | None:
        left = _MARGIN
        for index, width in self._fitted:
            if left <= x < left + width + GAP and self.table:
                return self.table.columns[index]
            left += width + GAP
        return None


def _filled(spans: tuple[Span, ...], width: int) -> tuple[Span, ...]:
    missing = width - sum(cell_len(text) for text, _ in spans)
    return (*spans, (" " * missing, "plain")) if missing > 0 else spans
