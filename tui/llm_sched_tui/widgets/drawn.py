"""Lines made from a value: the head, the tabs, the plots, the facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from textual.geometry import Region
from textual.reactive import reactive

from llm_sched_tui.view_model import bars, plots
from llm_sched_tui.view_model.cells import Line, plain_line
from llm_sched_tui.view_model.pages import Plot
from llm_sched_tui.view_model.text import elided
from llm_sched_tui.view_model.values import Query, View
from llm_sched_tui.widgets.paint import Painted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.geometry import Size
    from textual.strip import Strip

T = TypeVar("T")


class Drawn(Painted, Generic[T]):
    """Draws `value`; only lines that have changed are painted again."""

    value: reactive[T | None] = reactive(None, repaint=False)

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self._lines: tuple[Line, ...] = ()

    def lines(self, value: T, width: int, height: int) -> Sequence[Line]:
        """The lines for a size."""
        raise NotImplementedError

    def watch_value(self) -> None:
        """A new value."""
        self._draw()

    def on_resize(self) -> None:
        """A new size: what was painted at another one, or never, is worth nothing."""
        self._draw()
        self.refresh()

    def _draw(self) -> None:
        width, height = self.size
        before = self._lines
        self._lines = () if self.value is None else tuple(self.lines(self.value, width, height))
        for y in range(height):
            if self._line(before, y) != self._line(self._lines, y):
                self.refresh(Region(0, y, width, 1))

    @staticmethod
    def _line(lines: tuple[Line, ...], y: int) -> Line:
        return lines[y] if y < len(lines) else ()

    def render_line(self, y: int) -> Strip:
        """One line of what was drawn."""
        return self.strip(self._line(self._lines, y), self.size.width, self.base_style)


class Head(Drawn[View]):
    """Which ledger, how old, how much goes on."""

    def lines(self, value: View, width: int, height: int) -> Sequence[Line]:  # noqa: ARG002 - one line
        """See `Drawn`."""
        return (bars.head(value, width),)


class Tabs(Drawn[Query]):
    """The screens, and how what is shown was chosen."""

    def lines(self, value: Query, width: int, height: int) -> Sequence[Line]:  # noqa: ARG002 - one line
        """See `Drawn`."""
        return (bars.tabs(value, width),)


class KeyBar(Drawn[bool]):
    """The keys that matter most."""

    def lines(self, value: bool, width: int, height: int) -> Sequence[Line]:  # noqa: ARG002, FBT001 - always the same
        """See `Drawn`."""
        return (bars.keys(width),)


class Banner(Drawn[str]):
    """A sentence above everything else."""

    def lines(self, value: str, width: int, height: int) -> Sequence[Line]:  # noqa: ARG002 - one line
        """See `Drawn`."""
        return (plain_line(((elided(value, width).center(width), "strong"),)),)


class PlotArea(Drawn[Plot]):
    """One history."""

    def lines(self, value: Plot, width: int, height: int) -> Sequence[Line]:
        """See `Drawn`."""
        return plots.draw(value, width, height)


class Flow(Drawn[tuple[Line, ...]]):
    """Facts, each broken into as many lines as it needs."""

    def lines(self, value: tuple[Line, ...], width: int, height: int) -> Sequence[Line]:  # noqa: ARG002 - as many as needed
        """See `Drawn`."""
        return [line for fact in value for line in bars.flow(fact, width)]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002 - Textual's signature
        """As many lines as the facts need."""
        return len(self.lines(self.value, width, 0)) if self.value else 0

    def watch_value(self) -> None:
        """A new value, which may need another height."""
        super().watch_value()
        if len(self._lines) != self.size.height:
            self.refresh(layout=True)


class Notice(Drawn[tuple[str, ...]]):
    """Why there is nothing else to show, in the middle."""

    def lines(self, value: tuple[str, ...], width: int, height: int) -> Sequence[Line]:
        """See `Drawn`."""
        told = [line for text in value for line in _broken(text, max(10, width - 8))]
        top = max(0, (height - len(told)) // 2 - 1)
        blank = plain_line((("", "plain"),))
        first = len(_broken(value[0], max(10, width - 8))) if value else 0
        shown = [plain_line(((text.center(width), "strong" if number < first else "dim"),)) for number, text in enumerate(told)]
        return [*[blank] * top, *shown[:first], blank, *shown[first:]]


def _broken(text: str, width: int) -> list[str]:
    import textwrap  # noqa: PLC0415 - rare

    return textwrap.wrap(text, width) or [""]
