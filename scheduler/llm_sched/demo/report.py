"""The summary of a demo run, for humans."""

# Law: a summary in, text out. It judges nothing: the verdict is in the summary.

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from llm_sched.demo.plan import processes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from llm_sched.demo.summary import Gaps, Summary

WITNESSES = {"provider": "as the provider saw it", "workers": "merged from the workers' own call times"}


def report(summary: Summary) -> RenderableType:
    """The summary as a two-column table, the verdict last."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, value in _rows(summary):
        grid.add_row(Text(name, style="dim"), Text(value))
    grid.add_row("", "")
    grid.add_row(Text("verdict", style="dim"), Text(verdict(summary), style="bold green" if summary.ok else "bold red"))
    return grid


def verdict(summary: Summary) -> str:
    """One sentence: whether the cap held and all calls came through."""
    over = summary.peak > summary.max_in_flight
    problems = [f"peak {summary.peak} is over the cap of {summary.max_in_flight}"] if over else []
    if summary.failed:
        problems.append(f"{summary.failed} of {summary.calls} calls failed")
    if summary.refused:
        problems.append(f"{summary.refused} of them refused with 429")
    if not problems and not summary.ok:
        problems.append("a worker ended badly")
    if problems:
        return "NOT OK: " + ", ".join(problems)
    return f"OK: never more than {summary.max_in_flight} at once, all {summary.calls} calls answered"


def _rows(summary: Summary) -> list[tuple[str, str]]:
    calls = f"{summary.completed} answered, {summary.failed} failed, from {processes(summary.workers)}"
    errors = ", ".join(f"{count} x {kind}" for kind, count in summary.errors.items()) or "none"
    example = f"  (first: {summary.example})" if summary.example else ""
    rows = [
        ("bucket", summary.bucket or ("none: --no-scheduler" if not summary.scheduled else "-")),
        ("calls", calls),
        ("errors", errors + example),
        ("peak at once", f"{summary.peak} of {summary.max_in_flight} allowed, {WITNESSES[summary.witness]}{_with(summary)}"),
    ]
    if summary.requests_per_minute:
        limit = f"{summary.requests_per_minute:g} a minute and a burst of as many allowed"
        rows.append(("busiest minute", f"{summary.busiest_minute} requests; {limit}"))
    if summary.scheduled:
        wait = summary.wait_s
        figures = f"p50 {_seconds(wait.p50)}   p95 {_seconds(wait.p95)}   max {_seconds(wait.max)}"
        rows.append(("wait for a slot", figures))
    if summary.slot_handoff_s is not None and summary.slot_handoff_s.count:
        rows.append(("slot hand-off", f"{_gaps(summary.slot_handoff_s)}   from giving back to the next grant"))
    if summary.handoff_s is not None and summary.handoff_s.count:
        rows.append(("next request", f"{_gaps(summary.handoff_s)}   from the last byte of an answer"))
    rows.append(("throughput", f"{summary.calls_per_s:.1f} calls/s in {summary.elapsed_s:.1f} s"))
    if summary.slots_in_use is not None and summary.provider_busy is not None:
        shares = f"{summary.slots_in_use:.1%} of the time; the provider was {summary.provider_busy:.1%} busy"
        rows.append(("slots in use", shares))
    return rows


def _with(summary: Summary) -> str:
    """A peak above what was allowed needs a word: who is refused has arrived all the same."""
    return ", the refused ones included" if summary.refused and summary.witness == "provider" else ""


def _gaps(gaps: Gaps) -> str:
    return f"p50 {_seconds(gaps.p50)}   p90 {_seconds(gaps.p90)}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1000:.0f} ms" if value >= 0.01 else f"{value * 1000:.1f} ms"  # noqa: PLR2004 - three digits at most
