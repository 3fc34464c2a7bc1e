"""`llm-sched-tui`: options in, exit code out. Textual is imported only when a screen is to be drawn."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import math
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llm_sched import __version__
from llm_sched.errors import SchedulerError
from llm_sched_tui.feed import Feed
from llm_sched_tui.recording import Recorder, ReplaySource
from llm_sched_tui.source import LiveSource
from llm_sched_tui.view_model.model import Model
from llm_sched_tui.view_model.series import WINDOWS_S
from llm_sched_tui.view_model.values import Query

if TYPE_CHECKING:
    from llm_sched_tui.source import Source
    from llm_sched_tui.view_model.values import View

_FASTEST_S, _SLOWEST_S = 0.05, 3600.0
_LONG_S = 1e9


def _number(_context: click.Context, _parameter: click.Parameter, value: float) -> float:
    if not math.isfinite(value):  # nan compares as neither too small nor too large
        message = f"{value} is not a finite number."
        raise click.BadParameter(message)
    return value


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="llm-sched-tui")
@click.argument("state", required=False, type=click.Path(path_type=Path))
@click.option(
    "--refresh",
    metavar="SECONDS",
    type=click.FloatRange(_FASTEST_S, _SLOWEST_S),
    default=0.25,
    show_default=True,
    callback=_number,
    help="Seconds from one look to the next.",
)
@click.option("--bucket", metavar="NAME", default="", help="Begin with this bucket.")
@click.option("--user", metavar="NAME", default="", help="Show only this user's runs, and the buckets they are in.")
@click.option(
    "--window",
    metavar="MINUTES",
    type=click.Choice([f"{length / 60:.0f}" for length in WINDOWS_S]),
    default="5",
    show_default=True,
    help="How much history is shown at first: 1, 5, 15 or 60 minutes.",
)
@click.option("--record", metavar="FILE", type=click.Path(path_type=Path), help="Write what is seen to a file, to be replayed.")
@click.option("--replay", metavar="FILE", type=click.Path(path_type=Path), help="Show a recording instead of a ledger.")
@click.option(
    "--speed",
    metavar="X",
    type=click.FloatRange(0.01, 10_000),
    default=1.0,
    show_default=True,
    callback=_number,
    help="How many times as fast as it happened a recording is shown.",
)
@click.option("--once", is_flag=True, help="Print the overview as text and exit.")
@click.option("--lifeline", type=int, hidden=True, help="Descriptor: text to show; quit when it is closed.")
@click.pass_context
def command(  # noqa: PLR0913 - click hands over one argument an option
    context: click.Context,
    *,
    state: Path | None,
    refresh: float,
    bucket: str,
    user: str,
    window: str,
    record: Path | None,
    replay: Path | None,
    speed: float,
    once: bool,
    lifeline: int | None,
) -> None:
    """Watch runs contend for slots.

    STATE is the ledger; default: MAS_LLM_SCHEDULER_STATE, else $XDG_CACHE_HOME/mas/llm_scheduler.json. It is only
    read, without a lock; it need not exist yet. Press ? for the keys.

    Without a terminal, or on one that can only print lines, the overview is printed once.
    """
    if replay is not None and (state is not None or record is not None):
        message = "--replay shows a recording: it goes with neither STATE nor --record."
        raise click.UsageError(message)
    if replay is None and context.get_parameter_source("speed") is click.core.ParameterSource.COMMANDLINE:
        message = "--speed goes with --replay."
        raise click.UsageError(message)
    plain = once or not _can_draw()
    # Printed once, a recording is shown as it ended: its clock jumps there.
    clock = partial(next, itertools.count(0.0, _LONG_S)) if plain else time.monotonic
    source = ReplaySource(replay, speed, clock) if replay else LiveSource(str(state) if state else None)
    query = Query(screen="bucket" if bucket else "overview", bucket=bucket, user=user, window_s=float(window) * 60)
    model = Model(home=str(Path.home()))
    if plain:
        if record is not None:
            message = "--record needs a terminal to watch on; it does not go with --once."
            raise click.UsageError(message)
        _print_once(source, model, query)
        return
    recorder = Recorder(record, str(Path.home())) if record else None
    try:
        code = _watch(Feed(source, model, refresh, recorder), query, lifeline)
    finally:
        if recorder is not None:
            recorder.close()
    context.exit(code)


def _can_draw() -> bool:
    if os.environ.get("TEXTUAL_DRIVER"):  # a browser instead of a terminal
        return True
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)) and os.environ.get("TERM", "") not in {
        "",
        "dumb",
    }


def _print_once(source: Source, model: Model, query: Query) -> None:
    from rich.console import Console  # noqa: PLC0415 - not for the monitor itself

    from llm_sched_tui.once import print_once  # noqa: PLC0415 - likewise

    for _ in range(2):
        for reading in source.poll():
            model.take(reading)
    queries = [dataclasses.replace(query, screen="overview"), *([query] if query.bucket else [])]
    views: list[View] = []
    for each in queries:
        view = model.view(each, source.now(), source.wall())
        if view is not None:
            views.append(view)
    print_once(Console(), views)


def _watch(feed: Feed, query: Query, lifeline: int | None) -> int:
    from llm_sched_tui.app import MonitorApp  # noqa: PLC0415 - slow to import; not for --once
    from llm_sched_tui.themes import first_theme  # noqa: PLC0415 - likewise

    # A warning printed over the screen would spoil it; the path that is read stands in the first line.
    logging.getLogger("llm_sched").addHandler(logging.NullHandler())
    logging.getLogger("llm_sched").propagate = False
    app = MonitorApp(feed, query, theme=first_theme(os.environ), folder=Path.cwd(), lifeline=lifeline)
    app.run()
    if app.failure is not None:
        raise app.failure
    return app.return_code or 0


def main() -> None:
    """Run the command line. Errors of ours are one line on standard error and exit code 1; usage errors exit with 2."""
    try:
        command(prog_name="llm-sched-tui")
    except SchedulerError as error:
        click.echo(f"llm-sched-tui: {error}", err=True)
        sys.exit(1)
