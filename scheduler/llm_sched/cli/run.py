"""`llm-sched run`: one slot around any command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType

import click
from msgspec.structs import replace

from llm_sched.cli.options import seconds, state_option
from llm_sched.cli.reporting import reported
from llm_sched.config import Policy
from llm_sched.errors import SlotTimeout
from llm_sched.inheritance import VARIABLE
from llm_sched.scheduler import Scheduler, Slot

EXIT_TIMEOUT = 75
"""`EX_TEMPFAIL` of sysexits.h: try again later."""


@click.command(context_settings={"ignore_unknown_options": True})
@state_option
@click.option("--provider", help="Label of the provider; default: MAS_LLM_SCHEDULER_PROVIDER, else `default`.")
@click.option("--model", help="Name of the model; default: `default`.")
@click.option("--user", help="Label of the user, also for the command, unless MAS_LLM_SCHEDULER_USER is set.")
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(0),
    callback=seconds,
    help="Longest wait for the slot, 0 = try once, inf = for ever; default: the policy's 300.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    state: Path | None,
    provider: str | None,
    model: str | None,
    user: str | None,
    timeout_s: float | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND while holding one slot: pacing for scripts in any language.

    Exits as the command does (128 + n if signal n ended it), with 75 when no slot came in time, with 127 when there is
    no such command. Python programs inside that use llm-sched borrow the slot instead of taking a second one.

    \b
    Example:
      llm-sched run --provider openai --model gpt-4o -- curl https://api.openai.com/v1/chat/completions ...
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    policy = Policy.from_params({"user": user}, source="--user")
    if state:
        policy = replace(policy, state_path=state.absolute())
    scheduler = Scheduler(policy)
    with reported("llm-sched-run"):
        code = _in_slot(scheduler, provider, model, timeout_s, partial(_run_with, scheduler, policy, user, command))
    sys.exit(code)


def _in_slot(
    scheduler: Scheduler, provider: str | None, model: str | None, timeout_s: float | None, work: Callable[[Slot], int]
) -> int:
    try:
        slot = scheduler.borrowed(provider, model) or scheduler.acquire(provider=provider, model=model, timeout_s=timeout_s)
    except SlotTimeout as error:
        click.echo(f"llm-sched: {error}", err=True)
        return EXIT_TIMEOUT
    except KeyboardInterrupt:
        click.echo("llm-sched: interrupted while waiting for a slot; the command was not run", err=True)
        return 128 + signal.SIGINT
    with slot:
        return work(slot)


def _run_with(scheduler: Scheduler, policy: Policy, user: str | None, command: tuple[str, ...], slot: Slot) -> int:
    lease, value = scheduler.lease(slot)
    environment = {**os.environ, VARIABLE: value, "MAS_LLM_SCHEDULER_STATE": str(policy.path)}
    if user:
        environment.setdefault("MAS_LLM_SCHEDULER_USER", user)
    try:
        return _run(command, environment)
    finally:
        lease.unlink(missing_ok=True)


def _run(command: tuple[str, ...], environment: dict[str, str]) -> int:
    try:
        process = subprocess.Popen(command, env=environment)  # noqa: S603 - the user's own command
    except FileNotFoundError:
        click.echo(f"llm-sched: no such command: {command[0]}", err=True)
        return 127
    except OSError as error:
        click.echo(f"llm-sched: cannot run {command[0]}: {error.strerror}", err=True)
        return 126

    def forward(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    # The terminal sends Ctrl-C to the command as well; what it does with it is its own affair, and then we end as it does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, forward)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, forward)
    code = process.wait()
    return 128 - code if code < 0 else code
