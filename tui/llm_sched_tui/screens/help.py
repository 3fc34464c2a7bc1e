"""Every key, what the colours and signs mean, and where things are."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.table import Table
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from llm_sched_tui.view_model.severity import Severity

if TYPE_CHECKING:
    from textual.app import ComposeResult

_KEYS = (
    ("1 2 3 4", "overview, bucket, runs, events"),
    ("up down j k", "move; page up, page down, home, end too"),
    ("tab", "from one table to the next"),
    ("enter", "zoom into the bucket of the row; so does a double click"),
    ("esc", "back"),
    ("/", "filter: words, or a regular expression; ! in front: all but these"),
    ("s  S", "sort by the next column; the other way round. Or click a title"),
    ("space", "pause: the picture stands still, history goes on"),
    ("- +", "shorter or longer window: 1, 5, 15, 60 minutes"),
    ("c", "copy the row"),
    ("e", "export the snapshot (JSON) and a picture (SVG) to this folder"),
    ("t", "next theme"),
    ("ctrl+p", "command palette"),
    ("?", "this help"),
    ("q ctrl+c", "quit"),
)
_MEANINGS = {
    Severity.IDLE: "no slot is held, nobody waits",
    Severity.BUSY: "slots are held, nobody waits",
    Severity.SATURATED: "somebody waits",
    Severity.STARVING: "somebody has waited 30 s or will give up within 5 s, or calls timed out within a minute",
}


class HelpScreen(ModalScreen[None]):
    """Shown over the others.

    Args:
        place: names and values: which ledger, which version.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "dismiss", "Close", show=False)]

    def __init__(self, place: tuple[tuple[str, str], ...]) -> None:
        super().__init__(id="help")
        self._place = place

    def compose(self) -> ComposeResult:
        """One text."""
        with VerticalScroll(id="help-box") as box:
            box.border_title = "llm-sched-tui"
            yield Static(self._text(), id="help-text")

    def _text(self) -> Table:
        """Two columns, each of which wraps by itself."""
        table = Table.grid(padding=(0, 2))
        for key, does in _KEYS:
            table.add_row(Text(key, "bold"), Text(does))
        table.add_row()
        for each in Severity:
            table.add_row(Text(f"{each.sign} {each.role}", "bold"), Text(_MEANINGS[each]))
        table.add_row()
        for name, value in self._place:
            table.add_row(Text(name, "bold"), Text(value))
        return table
