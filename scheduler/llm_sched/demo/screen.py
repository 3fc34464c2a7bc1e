"""The live display: a table on a terminal, a line now and then elsewhere."""

# Law: views in, text out, and as `Text`: names and URLs may look like markup. It may read no ledger, no provider and no worker.

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from rich.console import RenderableType

    from llm_sched.demo.view import BucketRow, View

LINE_EVERY_S = 2.0
BAR_WIDTH = 36
WIDEST_GAUGE = 24


class Screen(Protocol):
    """Where views go; a context manager that leaves the terminal as it was."""

    def show(self, view: View) -> None:
        """Show this view instead of the one before."""
        ...

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End."""
        ...


def screen_for(console: Console, title: str) -> Screen:
    """A live table when the console is a terminal, else progress lines."""
    return LiveScreen(console, title) if console.is_terminal else LineScreen(console, title)


class LiveScreen:
    """A table that is drawn over itself. The last view stays on the terminal."""

    def __init__(self, console: Console, title: str) -> None:
        """Take the console, and the line above the table."""
        self._title = title
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def show(self, view: View) -> None:
        """Draw."""
        self._live.update(picture(self._title, view), refresh=True)

    def __enter__(self) -> Self:
        """Take over the lower part of the terminal."""
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Give the terminal back."""
        self._live.stop()


class LineScreen:
    """One line each few seconds, for logs and pipes."""

    def __init__(self, console: Console, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the console, the first line, and a clock in seconds."""
        self._console = console
        self._title = title
        self._clock = clock
        self._due = clock()
        self._last = ""

    def show(self, view: View) -> None:
        """Print a line, when it is time for one or the work has just begun or ended."""
        text = line(view)
        begins = view.elapsed_s is not None and not self._last
        ends = view.done == view.calls
        if view.elapsed_s is None or text == self._last or not (begins or ends or self._clock() >= self._due):
            return
        self._due = self._clock() + LINE_EVERY_S
        self._last = text
        self._console.print(Text(text), highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        """Print the first line."""
        self._console.print(Text(self._title), highlight=False, soft_wrap=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Nothing is left to do."""


def line(view: View) -> str:
    """A view in one line."""
    parts = [f"{view.done}/{view.calls} calls"]
    parts += [f"{row.name}: {row.in_flight}/{row.cap or 'no cap'} in flight, {row.waiting} waiting" for row in view.buckets]
    if view.provider is not None:
        seen = view.provider
        parts.append(f"provider: {seen.current} now, peak {seen.peak}, {seen.refused} refused")
    if view.failed:
        parts.append(f"{view.failed} failed")
    return " | ".join(parts)


def picture(title: str, view: View) -> RenderableType:
    """A view as a table."""
    parts: list[RenderableType] = [Text(title, style="bold"), Text(), _progress(view), Text()]
    if view.buckets:
        parts += [_buckets(view), Text()]
    parts.append(_workers(view))
    if view.provider is not None:
        parts += [Text(), _provider(view)]
    return Group(*parts, Text())


def _table(*columns: str, left: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right", no_wrap=True)
    return table


def _progress(view: View) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    bar = ProgressBar(total=max(1, view.calls), completed=view.done, width=BAR_WIDTH)
    if view.elapsed_s is None:
        pace = Text("the workers are loading", style="dim")
    else:
        pace = Text(f"{view.calls_per_s:.1f}/s   {view.elapsed_s:.1f} s")
    grid.add_row(Text("calls"), bar, Text(f"{view.done}/{view.calls}"), pace)
    return grid


def _buckets(view: View) -> Table:
    table = _table("bucket", "in flight", "waiting", "longest", left=2)
    for row in view.buckets:
        longest = f"{row.oldest_wait_s:.2f} s" if row.waiting else ""
        table.add_row(Text(row.name), _gauge(row), str(row.waiting), longest)
    return table


def _gauge(row: BucketRow) -> Text:
    figure = Text(f"{row.in_flight}/{row.cap}" if row.cap else f"{row.in_flight} (no cap)")
    if not 0 < row.cap <= WIDEST_GAUGE:
        return figure
    used = min(row.in_flight, row.cap)
    gauge = Text("●" * used, style="green")
    gauge.append("○" * (row.cap - used) + " ", style="dim")
    return gauge + figure


def _workers(view: View) -> Table:
    table = _table("worker", "by", "pid", "held", "waiting", "done", "failed", left=2)
    for row in view.workers:
        held, waiting = ("-" if count is None else str(count) for count in (row.held, row.waiting))
        failed = Text(str(row.failed), style="red" if row.failed else "dim")
        table.add_row(row.name, row.style, str(row.pid), held, waiting, f"{row.done}/{row.calls}", failed)
    return table


def _provider(view: View) -> Table:
    seen = view.provider
    table = _table("provider saw", "now", "peak", "cap", "429s", left=1)
    if seen is not None:
        peak = Text(str(seen.peak), style="green" if seen.peak <= view.cap else "bold red")
        refused = Text(str(seen.refused), style="bold red" if seen.refused else "dim")
        table.add_row("requests at once", str(seen.current), peak, str(view.cap), refused)
    return table
