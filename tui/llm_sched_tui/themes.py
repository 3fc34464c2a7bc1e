"""The two themes of our own; `t` goes on to some of Textual's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.theme import Theme

if TYPE_CHECKING:
    from collections.abc import Mapping

DARK = Theme(
    name="llm-sched-dark",
    primary="#6cb6ff",
    secondary="#8b98ab",
    accent="#b392f0",
    foreground="#d3dae3",
    background="#10141a",
    surface="#151b23",
    panel="#202833",
    success="#57c7a5",
    warning="#e8b04b",
    error="#f2746b",
    dark=True,
)
LIGHT = Theme(
    name="llm-sched-light",
    primary="#0a64b4",
    secondary="#5a6675",
    accent="#7446b8",
    foreground="#222b36",
    background="#fbfaf7",
    surface="#f3f1ec",
    panel="#e4e1d9",
    success="#0c7a5e",
    warning="#9a5b00",
    error="#c23a30",
    dark=False,
)
CYCLE = (DARK.name, LIGHT.name, "nord", "gruvbox", "tokyo-night", "catppuccin-latte", "solarized-light")


def first_theme(environment: Mapping[str, str]) -> str:
    """The theme to begin with: `TEXTUAL_THEME`, else light where the terminal says that its background is light.

    `COLORFGBG` (rxvt, konsole and others) ends in the background's number; 7 and 15 are the light ones.
    """
    chosen = environment.get("TEXTUAL_THEME", "")
    if chosen:
        return chosen
    return LIGHT.name if environment.get("COLORFGBG", "").rpartition(";")[2] in {"7", "15"} else DARK.name
