"""From roles to styles: the colours are the theme's.

A table here instead of component classes in the style sheet: resolving these for every widget took a tenth of the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.strip import Strip
from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llm_sched_tui.view_model.cells import Line, Role, Span


_COLORS: dict[Role, tuple[str, float]] = {
    "plain": ("foreground", 1.0),
    "dim": ("foreground", 0.55),
    "strong": ("foreground", 1.0),
    "chosen": ("primary", 1.0),
    "title": ("primary", 1.0),
    "accent": ("accent", 1.0),
    "idle": ("foreground", 0.55),
    "busy": ("success", 1.0),
    "saturated": ("warning", 1.0),
    "starving": ("error", 1.0),
    "track": ("foreground", 0.18),
    "fill-title": ("primary", 0.38),
    "fill-accent": ("accent", 0.38),
    "fill-busy": ("success", 0.38),
    "fill-saturated": ("warning", 0.38),
}
"""Each role's colour: a variable of the theme, and how much of it is laid over the background."""

_BOLD: frozenset[Role] = frozenset(("strong", "chosen", "title", "starving"))


class Painted(Widget):
    """A widget that paints spans."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id, classes=classes)
        self._styles_of: dict[Role, Style] = {}
        self._base: Style | None = None

    @property
    def base_style(self) -> Style:
        """This widget's background and text; kept, because it is asked for with every line."""
        if self._base is None:
            self._base = self.rich_style
        return self._base

    def style_of(self, role: Role) -> Style:
        """The style of a role; always one, for Textual's NO_COLOR filter wants no segment without."""
        style = self._styles_of.get(role)
        if style is None:
            name, part = _COLORS[role]
            variables = self.app.theme_variables  # pyright: ignore[reportUnknownMemberType] # Textual says `App` of what
            color = self.background_colors[1] + Color.parse(variables[name]).multiply_alpha(part)
            style = Style(color=color.rich_color, bold=role in _BOLD or None, underline=role == "chosen" or None)
            self._styles_of[role] = style
        return style

    def notify_style_update(self) -> None:
        """The theme has changed."""
        super().notify_style_update()
        self._styles_of, self._base = {}, None

    def segments(self, spans: Iterable[Span], base: Style) -> list[Segment]:
        """Spans on a background."""
        return [Segment(text, base + self.style_of(role)) for text, role in spans]

    def strip(self, line: Line, width: int, base: Style) -> Strip:
        """A line, filled up to `width` columns; its chunks are links where they have an action."""
        segments: list[Segment] = []
        for chunk in line:
            link = Style(meta={"@click": chunk.action}) if chunk.action else Style()
            segments += [Segment(text, base + self.style_of(role) + link) for text, role in chunk.spans]
        return Strip(segments).adjust_cell_length(width, base)
