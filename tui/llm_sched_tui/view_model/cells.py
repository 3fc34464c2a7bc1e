"""What stands in one place of a screen, as spans of text with a role; the roles' colours are the theme's.

A cell is told its width when it is drawn, so that gauges and sparklines fill what there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from rich.cells import cell_len, set_cell_size

if TYPE_CHECKING:
    from llm_sched_tui.view_model.series import Series

Role: TypeAlias = Literal[
    "plain",
    "dim",
    "strong",
    "chosen",
    "title",
    "accent",
    "idle",
    "busy",
    "saturated",
    "starving",
    "track",
    "fill-title",
    "fill-accent",
    "fill-busy",
    "fill-saturated",
]
"""Why a piece of text looks as it does."""

Span: TypeAlias = tuple[str, Role]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Spans that stay together in a line: the higher the rank, the sooner they are left out; 0 = never.

    `action`: what a click does.
    """

    spans: tuple[Span, ...]
    rank: int = 0
    action: str = ""

    @property
    def width(self) -> int:
        """Columns."""
        return sum(cell_len(text) for text, _ in self.spans)


Line: TypeAlias = tuple[Chunk, ...]


def plain_line(spans: tuple[Span, ...]) -> Line:
    """A line without anything to click on."""
    return (Chunk(spans),)


BARS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_EIGHT = 8


class Cell(Protocol):
    """Something that can fill a given number of columns."""

    def draw(self, width: int) -> tuple[Span, ...]:
        """Return spans that are at most `width` columns wide together."""
        ...


@dataclass(frozen=True, slots=True)
class Words:
    """Text of one role; what does not fit is cut. With `right`, it is aligned there."""

    text: str
    role: Role = "plain"
    right: bool = False

    def draw(self, width: int) -> tuple[Span, ...]:
        """See `Cell`."""
        wide = cell_len(self.text)
        if wide > width:
            return ((set_cell_size(self.text, max(0, width - 1)) + "…"[:width], self.role),)
        return ((" " * (width - wide) + self.text if self.right else self.text, self.role),)


@dataclass(frozen=True, slots=True)
class Gauge:
    """How much of a limit is used, as a bar and as figures; `limit` 0 = there is none."""

    used: int
    limit: int
    role: Role
    figures: int = 5

    def draw(self, width: int) -> tuple[Span, ...]:
        """See `Cell`."""
        text = f"{self.used}/{self.limit}" if self.limit else f"{self.used}"
        room = width - max(self.figures, len(text)) - 1
        if room < 3:  # noqa: PLR2004 - a bar of two columns says nothing
            return Words(text, self.role, right=True).draw(width)
        return (*bar(self.used / self.limit if self.limit else 0.0, room, self.role), (f" {text}", self.role))


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole, from 0 to 1, as a bar and in percent."""

    part: float
    role: Role = "accent"

    def draw(self, width: int) -> tuple[Span, ...]:
        """See `Cell`."""
        text = f"{self.part * 100:4.0f} %"
        if width < len(text) + 3:
            return Words(text.strip(), "plain", right=True).draw(width)
        return (*bar(self.part, width - len(text) - 1, self.role), (f" {text}", "plain"))


@dataclass(frozen=True, slots=True)
class Spark:
    """A series as one line of bars; `top` is what fills the line, 0 = the largest value."""

    series: Series
    top: float
    role: Role

    def draw(self, width: int) -> tuple[Span, ...]:
        """See `Cell`."""
        values = self.series.columns(width)
        top = self.top or max((value for value in values if value is not None), default=0.0)
        text = "".join(" " if value is None else spark_bar(value, top) for value in values)
        return ((text.rjust(width), self.role),)


def spark_bar(value: float, top: float) -> str:
    """One bar; nothing at all is the flattest, and whatever is above nothing differs from that."""
    if value <= 0 or top <= 0:
        return BARS[0]
    return BARS[max(1, min(_EIGHT - 1, round(value / top * (_EIGHT - 1))))]


def bar(part: float, width: int, role: Role) -> tuple[Span, ...]:
    """A horizontal bar of `width` columns, filled to `part` (0 to 1) in eighths of a column."""
    eighths = round(max(0.0, min(1.0, part)) * width * _EIGHT)
    if part > 0:
        eighths = max(1, eighths)
    whole, rest = divmod(eighths, _EIGHT)
    filled = "█" * whole + (_EIGHTHS[rest] if rest else "")
    return ((filled, role), ("░" * (width - len(filled)), "track"))
