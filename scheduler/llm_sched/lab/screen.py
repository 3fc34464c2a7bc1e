"""What is shown while an experiment runs, and at its end."""

# Law: views and summaries in, text out. It reads no ledger, no worker and no file.

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, Self

from rich import box
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from llm_sched.lab.progress import View
    from llm_sched.lab.summary import Summary

LINE_EVERY_S = 5.0


class Screen(Protocol):
    """Where views go; a context manager that leaves the terminal as it was."""

    def show(self, view: View) -> None:
        """Show this view instead of the one before."""
        ...

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(self, *error: object) -> None:
        """End."""
        ...


def screen_for(console: Console) -> Screen:
    """A progress bar when the console is a terminal, else a line now and then."""
    return BarScreen(console) if console.is_terminal else LineScreen(console)


class BarScreen:
    """One progress bar."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[calls]}"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=console)
        self._bar = self._progress.add_task("loading", total=None, calls="")

    def show(self, view: View) -> None:
        """See `Screen`."""
        self._progress.update(self._bar, description=view.name, total=view.total, completed=view.finished, calls=calls(view))

    def __enter__(self) -> Self:
        """See `Screen`."""
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        """See `Screen`."""
        self._progress.stop()


class LineScreen:
    """A line every few seconds, for logs and pipes."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._due = clock()

    def show(self, view: View) -> None:
        """See `Screen`."""
        if self._clock() < self._due and view.finished < view.total:
            return
        self._due = self._clock() + LINE_EVERY_S
        self._console.print(f"{view.name}: {view.finished}/{view.total}  {calls(view)}", highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        """See `Screen`."""
        return self

    def __exit__(self, *error: object) -> None:
        """See `Screen`."""


def calls(view: View) -> str:
    """The pace, and where the calls are."""
    parts = [f"{view.per_s:.1f}/s", f"{view.in_flight} in flight", f"{view.waiting} waiting"]
    if view.before:
        parts.append(f"{view.before} done before")
    if view.failed:
        parts.append(f"{view.failed} failed")
    return "  ".join(parts)


def table(summary: Summary) -> Table:
    """The summary for a person."""
    grid = Table(box=box.SIMPLE_HEAD, title=summary.name, title_justify="left", pad_edge=False)
    for number, column in enumerate(("scenario", "answers", "score", "wait p50", "max", "cached", "live calls", "errors")):
        grid.add_column(column, justify="right" if number else "left", no_wrap=True)
    for row in summary.scenarios:
        spread = "" if row.score_sd is None else f" ± {row.score_sd:.2f}"
        grid.add_row(
            row.name,
            f"{row.answers}/{row.tasks}",
            "-" if row.score is None else f"{row.score:.2f}{spread}",
            _seconds(row.wait_p50_s),
            _seconds(row.wait_max_s),
            str(row.cached),
            str(row.live),
            f"[red]{row.errors}[/]" if row.errors else "0",
        )
    return grid


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"
