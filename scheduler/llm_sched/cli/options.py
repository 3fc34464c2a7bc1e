"""Options that several commands share."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")


def state_option(command: F) -> F:
    """Add `--state PATH`."""
    return click.option(
        "--state",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The ledger; default: MAS_LLM_SCHEDULER_STATE, else $XDG_CACHE_HOME/mas/llm_scheduler.json.",
    )(command)


def seconds(_context: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse what is no number: it compares as neither too small nor too large."""
    if value is not None and math.isnan(value):
        raise click.BadParameter(f"{value} is not a number.")
    return value
