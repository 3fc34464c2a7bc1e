"""A history as bars, several lines high."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from llm_sched_tui.view_model.cells import BARS, Line, Role, Span, plain_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llm_sched_tui.view_model.pages import Plot

_EIGHT = 8
_FILLS: dict[Role, Role] = {
    "title": "fill-title",
    "accent": "fill-accent",
    "busy": "fill-busy",
    "saturated": "fill-saturated",
}
_LABEL = 6


def draw(plot: Plot, width: int, height: int) -> tuple[Line, ...]:
    """Return `height` lines of at most `width` columns: a title with the present value, then the bars."""
    title: tuple[Span, ...] = ((f" {plot.title}  ", "dim"), (plot.now, plot.role))
    rows = height - 1
    if rows < 1:
        return (plain_line(title),)
    room = max(0, width - _LABEL - 1)
    values = plot.series.columns(room)
    levels = [None if value is None else _level(value, plot.top, rows * _EIGHT) for value in values]
    lines = [plain_line(title)]
    for row in range(rows):
        floor = (rows - 1 - row) * _EIGHT
        label = plot.top_label if row == 0 else "0" if row == rows - 1 else ""
        label_span: Span = (f"{label[:_LABEL]:>{_LABEL}} " + " " * (room - len(levels)), "dim")
        lines.append(plain_line((label_span, *_row(levels, floor, plot.role))))
    return tuple(lines)


def _row(levels: list[int | None], floor: int, role: Role) -> Iterator[Span]:
    """One line of all bars: their tops stand out, what is below is a shade."""
    for is_top, group in groupby(levels, key=lambda level: level is not None and level <= floor + _EIGHT):
        bars = "".join(_bar(level, floor) for level in group)
        yield bars, role if is_top else _FILLS[role]


def _level(value: float, top: float, levels: int) -> int:
    """How many eighths of a line a bar is high: at least one, so that nothing seen differs from nothing known."""
    return max(1, min(levels, round(value / top * levels))) if top > 0 else 1


def _bar(level: int | None, floor: int) -> str:
    if level is None or level <= floor:
        return " "
    return BARS[min(_EIGHT, level - floor) - 1]
