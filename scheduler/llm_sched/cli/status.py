"""`llm-sched status`: who holds, who waits, and for what."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from llm_sched.cli.options import state_option
from llm_sched.cli.output import console as new_console
from llm_sched.cli.output import text
from llm_sched.snapshot import EXPLAINED, read_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from llm_sched.snapshot import BucketView, Snapshot

_REASONS = {"in_flight": "a slot", "rate": "a token", "policy": "a stricter policy", "none": "its turn"}


@click.command()
@state_option
@click.option("--json", "as_json", is_flag=True, help="Print the snapshot as JSON.")
def status(state: Path | None, *, as_json: bool) -> None:
    """Show who holds slots and who waits.

    Takes no lock and changes nothing. Exits with 0 also when there is no ledger yet.
    """
    snapshot = read_snapshot(state)
    if as_json:
        click.echo(json.dumps(snapshot.to_dict(), indent=2))
        return
    console = new_console()
    console.print(text((snapshot.path, "bold")), soft_wrap=True)
    if snapshot.state != "live":
        console.print(EXPLAINED[snapshot.state])
        return
    _print_live(console, snapshot)


def _print_live(console: Console, snapshot: Snapshot) -> None:
    living = sum(owner.alive for owner in snapshot.owners)
    dead = len(snapshot.owners) - living
    line = f"{_plural(living, 'process', 'processes')}, last change {_ago(snapshot.age_s or 0.0)} ago"
    if dead:
        console.print(text(line + ", ", (f"{dead} dead", "yellow"), " (their slots go to the next who asks)"))
    else:
        console.print(line)
    if not snapshot.buckets:
        console.print("no bucket in use")
    for bucket in snapshot.buckets:
        console.print()
        _print_bucket(console, bucket)


def _print_bucket(console: Console, bucket: BucketView) -> None:
    # A cap belongs to those who hold or wait; where nobody does there is none to show.
    cap = f"/{bucket.max_in_flight or 'no cap'}" if bucket.policies else ""
    line = f"  {bucket.in_flight}{cap} in flight, {bucket.waiting} waiting"
    if bucket.rate_available is not None:
        line += f", {bucket.rate_available:.0f} of {bucket.burst:g} tokens left at {bucket.requests_per_minute:g}/min"
        if bucket.rate_next_s:
            line += f" (next in {bucket.rate_next_s:.1f} s)"
    console.print(text((bucket.name, "bold"), line))
    if bucket.holders or bucket.waiters:
        console.print(_table(bucket))
    totals = bucket.totals
    mean = totals.wait_s / totals.granted if totals.granted else 0.0
    _print_indented(
        console,
        f"so far: {totals.granted} granted after {mean:.2f} s on average, {totals.timed_out} timed out, "
        f"{totals.canceled} canceled, {totals.reclaimed} taken back from the dead",
    )
    if len({(each.max_in_flight, each.requests_per_minute, each.burst) for each in bucket.policies}) > 1:
        wanted = ", ".join(
            f"pid {each.pid}: {each.max_in_flight} at {each.requests_per_minute:g}/min" for each in bucket.policies
        )
        _print_indented(console, ("policies disagree", "yellow"), f", the strictest holds: {wanted}")


def _print_indented(console: Console, *parts: str | tuple[str, str]) -> None:
    from rich.padding import Padding  # noqa: PLC0415 - not for scripts that want JSON

    console.print(Padding(text(*parts), (0, 0, 0, 2), expand=False))


def _table(bucket: BucketView) -> object:
    from rich import box  # noqa: PLC0415 - not for scripts that want JSON
    from rich.table import Table  # noqa: PLC0415 - likewise

    table = Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("", "pid", "user", "since", "waited", "command"):
        # Where there is too little room, the texts of users are cut; each caller has one line.
        table.add_column(
            name, justify="right" if name in {"pid", "since", "waited"} else "left", no_wrap=name not in {"user", "command"}
        )
    for holder in bucket.holders:
        label = text(("holds, overdue", "red")) if holder.overdue else text(("holds", "green"))
        user, command = text(holder.user, one_line=True), text(holder.command, one_line=True)
        table.add_row(label, str(holder.pid), user, _ago(holder.held_s), _ago(holder.waited_s), command)
    for waiter in bucket.waiters:
        count = f" x{waiter.count}" if waiter.count > 1 else ""
        label = text(f"waits at {waiter.position}{count} for {_REASONS[waiter.waiting_for]}")
        user, command = text(waiter.user, one_line=True), text(waiter.command, one_line=True)
        table.add_row(label, str(waiter.pid), user, _ago(waiter.oldest_wait_s), "", command)
    return table


def _ago(seconds: float) -> str:
    if seconds < 100:  # noqa: PLR2004 - from there on seconds are noise
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes / 60:.1f} h"  # noqa: PLR2004 - likewise


def _plural(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
