"""The command line `llm-sched`; each command's module is loaded when it is called."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from importlib import import_module

import click

from llm_sched import __version__
from llm_sched.errors import SchedulerError

COMMANDS = {
    "chat": "Talk with an agent over an infra pipeline.",
    "demo": "Watch real OpenAI clients in several processes share a few slots; needs no key.",
    "doctor": "Check that this machine can keep the promises, and show the policy as it is resolved.",
    "export": "Report the ledger to OpenTelemetry and Prometheus; one for the whole machine.",
    "lab": "Run experiments: prompts x scenarios x runs, in parallel, resumable.",
    "reset": "Empty the ledger.",
    "run": "Run a command while holding one slot: pacing for scripts in any language.",
    "status": "Show who holds slots and who waits.",
    "verify": "Prove the promises on this machine in half a minute: kills, forks, cancellations.",
}


class _Commands(click.Group):
    """Knows all commands by name and loads one when it is needed, so that `status` does not pay for `demo`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"llm_sched.cli.{cmd_name}"), cmd_name)
        return command if isinstance(command, click.Command) else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        close = [] if args[0] in COMMANDS else get_close_matches(args[0], COMMANDS, n=1)
        if close and not ctx.resilient_parsing:  # which completion does
            ctx.fail(f"No such command {args[0]!r}. Did you mean {close[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="llm-sched")
def llm_sched() -> None:
    """One machine-wide pace for live LLM calls.

    Many processes, threads and event loops share one ledger of slots. A call takes a slot before it goes to the
    provider and gives it back when the answer has fully arrived.

    \b
    Policy, from the environment (beats what a program installs):
      MAS_LLM_MAX_IN_FLIGHT       concurrent live calls per bucket; default 8, 0 = no cap
      MAS_LLM_RPM                 requests per minute per bucket; default 0 = off
      MAS_LLM_SCHEDULER_USER      label of the user; default `default`
      MAS_LLM_SCHEDULER_PROVIDER  label of the provider
      MAS_LLM_SCHEDULER_STATE     the ledger; default $XDG_CACHE_HOME/mas/llm_scheduler.json

    \b
    In your program:
      from llm_sched import llm_slot
      with llm_slot(provider="openai", model="gpt-4o"):   # or: async with
          client.chat.completions.create(...)
    """  # noqa: D301 - \b is click's mark for text that keeps its lines


def main() -> None:
    """Run the command line. Errors of ours are one line on standard error and exit code 1; usage errors exit with 2."""
    try:
        llm_sched()
    except SchedulerError as error:
        click.echo(f"llm-sched: {error}", err=True)
        sys.exit(1)
