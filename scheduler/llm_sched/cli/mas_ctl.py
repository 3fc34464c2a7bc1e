"""The script `mas-ctl`: the host's own where that is installed, else its `chat` command, made by us."""

# Law: two distributions that install a script of one name overwrite each other, and the last one wins. So ours, when it
# won, hands everything over to the other's entry point, which is still in its metadata.

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import cast

import click

from llm_sched import __version__
from llm_sched.cli.chat import chat

SCRIPT = "mas-ctl"
OURS = "llm_sched.cli.mas_ctl:main"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=f"{SCRIPT} (of llm-sched)")
def mas_ctl() -> None:
    """`mas-ctl chat`, as llm-sched has it. Everything else comes with the host's own package."""


mas_ctl.add_command(chat)


def main() -> object:
    """Run the host's `mas-ctl` if another distribution has one, else ours."""
    other = others_script()
    if other is None:
        return mas_ctl(prog_name=SCRIPT)
    try:
        run = cast("Callable[[], object]", other.load())
    except (ImportError, AttributeError) as error:
        owner = other.dist.name if other.dist else other.value
        click.echo(f"{SCRIPT}: the one of {owner} cannot be loaded ({error}); ours is `llm-sched chat`", err=True)
        sys.exit(1)
    return run()


def others_script() -> EntryPoint | None:
    """The `mas-ctl` of another installed distribution."""
    scripts = entry_points(group="console_scripts", name=SCRIPT)
    return next((script for script in scripts if script.value != OURS), None)
