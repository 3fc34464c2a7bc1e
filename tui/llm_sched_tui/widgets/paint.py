"""From roles to styles: the colours are the theme's, through `role--...` classes in `app.tcss`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from llm_sched_tui.view_model.cells import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llm_sched_tui.view_model.cells import Line, Role, Span


class Painted(Widget):
    """A widget that paints spans."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"role--{role}" for role in ROLES}
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
            style = self._styles_of[role] = self._resolved(f"role--{role}")
        return style

    def _resolved(self, component: str) -> Style:
        """A component's style with its colour laid over this widget's background, as far as it is transparent."""
        rules = self.get_component_styles(component)
        color = (self.background_colors[1] + rules.color).rich_color if rules.has_rule("color") else None
        return Style(color=color) + rules.text_style

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
