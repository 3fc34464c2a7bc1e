"""Options that several commands share."""

from __future__ import annotations

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
