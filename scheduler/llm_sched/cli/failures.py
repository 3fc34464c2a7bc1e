"""What goes wrong in a command becomes one line and an exit code; with `--debug` the traceback as well."""

from __future__ import annotations

import contextlib
import signal
import sys
import traceback
from collections.abc import Callable, Generator
from typing import TypeVar

import click

from llm_sched.errors import SchedulerError

F = TypeVar("F", bound="Callable[..., object]")

EXIT_FAILURE, EXIT_USAGE = 1, 2


def debug_option(command: F) -> F:
    """Add `--debug`."""
    return click.option("--debug", is_flag=True, help="On an error show the traceback as well.")(command)


@contextlib.contextmanager
def one_line(*, debug: bool, usage: tuple[type[SchedulerError], ...] = ()) -> Generator[None]:
    """End the command with one line on standard error when the block fails.

    Args:
        debug: show the traceback too.
        usage: errors that are about how the command was called; they exit with 2, others with 1.
    """
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        sys.exit(128 + signal.SIGINT)
    except Exception as error:  # noqa: BLE001 - whatever it is, its reader is a person at a terminal
        if debug:
            traceback.print_exc()
        known = isinstance(error, (SchedulerError, OSError))
        text = str(error) if known else f"unexpected {type(error).__name__}: {error} (--debug shows where)"
        click.echo(f"{click.get_current_context().find_root().info_name}: {text}", err=True)
        sys.exit(EXIT_USAGE if isinstance(error, usage) else EXIT_FAILURE)
