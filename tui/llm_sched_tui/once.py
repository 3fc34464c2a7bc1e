"""The overview as plain text, for scripts and for terminals that can do no more.

The columns are the monitor's own, without what needs a history; percentiles are of all waits since the bucket's first call.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text

from llm_sched_tui.view_model.history import Waits
from llm_sched_tui.view_model.pages import BucketPage, OverviewPage
from llm_sched_tui.view_model.quantiles import quantile
from llm_sched_tui.view_model.tables import GAP, Table, fit
from llm_sched_tui.view_model.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from llm_sched.snapshot import BucketView
    from llm_sched_tui.view_model import overview
    from llm_sched_tui.view_model.cells import Line, Role, Span
    from llm_sched_tui.view_model.values import View

_STYLES: dict[Role, str] = {
    "dim": "dim",
    "strong": "bold",
    "idle": "dim",
    "track": "dim",
    "busy": "green",
    "saturated": "yellow",
    "starving": "bold red",
    "accent": "cyan",
    "title": "bold cyan",
}
_NEEDS_HISTORY = {"in_flight_series", "waiting_series", "per_minute"}
_ASCII = str.maketrans("█▉▊▋▌▍▎▏░●○▲■◌✗–…▾▴·", "########.*o^!o!-~v^.")


def print_once(console: Console, views: list[View]) -> None:
    """Print views, the overview first.

    Args:
        console: where to; its width decides which columns there are.
        views: of the overview, and of a bucket if one was asked for.
    """
    status = views[0].status
    age = f", last change {status.age} ago" if status.age else ""
    _print(console, ((f"{status.facts.path}", "strong"),))
    _print(console, ((f"{status.sign} {status.word}", status.role), (f"{age}, {_totals(views[0])}" if age else "", "plain")))
    for line in status.advice:
        _print(console, ((line, "plain"),))
    for view in views:
        if isinstance(view.page, OverviewPage) and view.snapshot is not None:
            _print_table(console, _of_all_time(view.page.buckets, view.snapshot.buckets))
        elif isinstance(view.page, BucketPage):
            _print_bucket(console, view.page)


def _totals(view: View) -> str:
    status = view.status
    return f"{plural(status.runs, 'run')}, {status.in_flight} in flight, {status.waiting} waiting"


def _of_all_time(table: Table[overview.BucketRecord], buckets: list[BucketView]) -> Table[overview.BucketRecord]:
    histograms = {bucket.name: bucket.totals.wait_histogram for bucket in buckets}
    records: list[overview.BucketRecord] = []
    for record in table.records:
        bounds = [bound for bound, _ in histograms[record.name] if bound is not None]
        counts = [count for _, count in histograms[record.name]]
        waits = Waits(quantile(0.5, bounds, counts), quantile(0.95, bounds, counts))
        records.append(dataclasses.replace(record, waits=waits))
    columns = tuple(column for column in table.columns if column.key not in _NEEDS_HISTORY)
    return Table(columns, tuple(records), table.order, table.note)


def _print_bucket(console: Console, page: BucketPage) -> None:
    console.print()
    for fact in page.facts:
        _print(console, tuple(_spans(fact)))
    for title, table in (("holds", page.holders), ("waits", page.waiters)):
        console.print()
        _print(console, ((title, "strong"),))
        _print_table(console, table)


def _spans(line: Line) -> Iterator[Span]:
    for number, chunk in enumerate(line):
        if number:
            yield "   ", "plain"
        yield from chunk.spans


def _print_table(console: Console, table: Table[Any]) -> None:
    if not table.records:
        _print(console, ((table.note, "dim"),))
        return
    fitted = fit(table.columns, console.width)
    titles: list[str] = []
    for index, width in fitted:
        title = table.columns[index].title[:width]
        titles.append(title.rjust(width) if table.columns[index].right else title.ljust(width))
    _print(console, (((" " * GAP).join(titles), "dim"),))
    for record in table.records:
        spans: list[Span] = []
        for number, (index, width) in enumerate(fitted):
            if number:
                spans.append((" " * GAP, "plain"))
            drawn = table.columns[index].cell(record).draw(width)
            spans.extend(drawn)
            spans.append((" " * (width - sum(cell_len(text) for text, _ in drawn)), "plain"))
        _print(console, tuple(spans))


def _print(console: Console, spans: tuple[Span, ...]) -> None:
    line = Text()
    for text, role in spans:
        line.append(text if console.encoding.startswith("utf") else text.translate(_ASCII), _STYLES.get(role, ""))
    line.rstrip()
    console.print(line, soft_wrap=True, highlight=False)
