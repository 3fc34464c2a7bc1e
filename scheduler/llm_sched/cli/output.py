"""Where commands print for people: text is shown as it is."""

# Law: names of buckets, models, users and commands are anybody's text: `[bold]` or `:100:` in them is no markup. Styles
# are given as styles, never as markup.

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def console(*, stderr: bool = False) -> Console:
    """A console that reads no markup, emoji codes or numbers into what it prints."""
    from rich.console import Console  # noqa: PLC0415 - rich loads slowly

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def text(*parts: str | tuple[str, str], one_line: bool = False) -> Text:
    """Put text together; a pair is text and its style. With `one_line` it is cut to its place, with an ellipsis."""
    from rich.text import Text  # noqa: PLC0415 - rich loads slowly

    line = Text.assemble(*parts)
    if one_line:
        line.no_wrap, line.overflow = True, "ellipsis"
    return line
