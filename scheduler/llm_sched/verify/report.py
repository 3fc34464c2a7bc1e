"""The outcome, for people."""

# Law: a summary in, a renderable out.

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from llm_sched.verify.summary import Figures, Summary

_MOST_DETAILS = 5


def report(summary: Summary) -> RenderableType:
    """Every promise with what was measured, then what happened, then the verdict."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("promise")
    table.add_column("measured", justify="right")
    table.add_column("at most", justify="right")
    table.add_column("")
    for promise in summary.promises:
        mark = Text("ok", style="green") if promise.ok else Text("FAILED", style="bold red")
        table.add_row(promise.name, promise.measured, promise.bound, mark)
    details = [
        Text(f"{promise.name}: {detail}", style="yellow")
        for promise in summary.promises
        for detail in _shortened(promise.details)
    ]
    kind = f" ({summary.file_system})" if summary.file_system else ""
    failed = sum(not promise.ok for promise in summary.promises)
    return Group(
        Text(f"{summary.folder}{kind}, {summary.seconds:.0f} s", style="bold"),
        table,
        *details,
        *map(Text, _story(summary.figures)),
        Text(f"{failed} of {len(summary.promises)} promises were broken here", style="bold red")
        if failed
        else Text("every promise held", style="bold green"),
    )


def _shortened(details: tuple[str, ...]) -> list[str]:
    left = len(details) - _MOST_DETAILS
    return [*details[:_MOST_DETAILS], *([f"and {left} more"] if left > 0 else [])]


def _story(figures: Figures) -> list[str]:
    rate = "" if figures.rate_share is None else f"; {figures.rate_share:.0%} of the allowed rate were used"
    ended = f"{figures.timed_out} waits timed out, {figures.canceled} cancelled, {figures.interrupted} interrupted by SIGINT"
    killed = f"{figures.killed} processes killed with kill -9 ({figures.killed_holding} slots held by them)"
    hand_off = f"hand-off p50 {_ms(figures.hand_off_p50_s)}, p90 {_ms(figures.hand_off_p90_s)}"
    recovery = f"after a kill p50 {_ms(figures.recovery_p50_s)}, worst {_ms(figures.recovery_worst_s)}"
    return [
        f"{figures.granted} slots granted; {ended}{rate}",
        f"{killed}; {figures.forks} forks while holding",
        f"{hand_off}; {recovery}; worst wait {_ms(figures.wait_worst_s)}",
    ]


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:,.1f} ms"
