"""The one message from the worker that reads to the screens that draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from llm_sched_tui.view_model.values import View


class Fresh(Message, bubble=False):
    """There is something new to draw."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        """Only the newest view is worth drawing."""
        return isinstance(message, Fresh)
