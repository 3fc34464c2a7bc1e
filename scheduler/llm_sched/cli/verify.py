"""`llm-sched verify`: prove the promises on this machine."""

# Law: options in, exit code out. What is done is in `llm_sched.verify`, which is imported when the command runs.

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llm_sched.cli.options import state_option
from llm_sched.cli.signals import ended_by_signals
from llm_sched.config import resolved_state_path

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from llm_sched.verify.summary import Summary

_TITLES = {"cap": "kill, fork, cancel, interrupt", "rate": "requests per minute"}


@click.command()
@state_option
@click.option(
    "--seconds",
    metavar="N",
    type=click.FloatRange(3, 600),
    default=30.0,
    show_default=True,
    help="How long it should take; longer proves more.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON on stdout, and nothing else there.")
@click.pass_context
def verify(context: click.Context, state: Path | None, seconds: float, *, as_json: bool) -> None:
    """Prove the promises on this machine: kills, forks, cancellations. Needs no key.

    Works in a new folder beside the ledger, so on its file system; your ledger is not touched. Worker processes take
    slots, in threads and in asyncio tasks; some are killed with `kill -9` at random instants and replaced, some fork
    while they hold, waits are cancelled, time out and are interrupted by SIGINT. Each process writes down when it held
    a slot, and from that it is judged, not from the ledger.

    Exit code 0: every promise held; 1: one was broken.
    """
    from llm_sched.errors import SchedulerError  # noqa: PLC0415 - see the law above
    from llm_sched.verify.run import verify as run  # noqa: PLC0415 - see the law above

    seed = int.from_bytes(os.urandom(4), "big")
    try:
        with ended_by_signals(), _progress() as progress:
            summary = run(resolved_state_path(state).absolute(), seconds, seed, progress)
    except KeyboardInterrupt:
        click.echo("Interrupted; the workers and their folder are gone.", err=True)
        sys.exit(128 + signal.SIGINT)
    except (SchedulerError, OSError) as error:
        raise click.ClickException(str(error)) from error
    _print(summary, as_json=as_json)
    context.exit(0 if summary.ok else 1)


def _print(summary: Summary, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(summary.to_dict(), indent=2))
        return
    from rich.console import Console  # noqa: PLC0415 - see the law above

    from llm_sched.verify.report import report  # noqa: PLC0415 - see the law above

    Console().print(report(summary))


@contextlib.contextmanager
def _progress() -> Generator[Callable[[str, float], None]]:
    """A bar on the terminal; elsewhere nothing."""
    from rich.console import Console  # noqa: PLC0415 - see the law above
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - likewise

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        line = bar.add_task("starting workers", total=1.0)

        def tell(phase: str, share: float) -> None:
            bar.update(line, description=_TITLES.get(phase, phase), completed=share)

        yield tell
