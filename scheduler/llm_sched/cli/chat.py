"""`llm-sched chat` and `mas-ctl chat`: talk with an agent over an infra pipeline."""

# Law: options in, text out. What a conversation is, is in `pipeline.conversation`; the pipeline is imported when the
# command runs, for it brings pydantic.

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from llm_sched.cli.failures import debug_option, one_line
from llm_sched.cli.signals import ended_by_signals
from llm_sched.errors import SchedulerError

if TYPE_CHECKING:
    from llm_sched.pipeline.conversation import Conversation

QUIT = {"/quit", "/exit", "/q"}
RESET = "/reset"
CUT_OFF = {"length": "cut off at its largest number of tokens (max_tokens)", "incomplete": "broken off by the provider"}
MODEL_VARIABLES = ("MAS_CTL_MODEL", "MAS_LLM_MODEL")


@click.command()
@click.argument("manifest", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-q", "--query", "queries", metavar="TEXT", multiple=True, help="Ask this and end; may be given several times.")
@click.option("-p", "--prompt", metavar="TEXT", help="Ask this first.")
@click.option(
    "-i/-I",
    "--interactive/--no-interactive",
    default=None,
    help="Go on asking at a prompt, or not. Default: on a terminal, unless there is something to ask already.",
)
@click.option("--single-turn", is_flag=True, help="End after the first answer.")
@click.option(
    "--infra-ref",
    "refs",
    metavar="REF",
    multiple=True,
    help="library:name, a file, or the URL of an OpenAI-compatible endpoint. Repeatable: the first one is outermost.",
)
@click.option("--model", metavar="NAME", help="Instead of the manifest's; also MAS_CTL_MODEL or MAS_LLM_MODEL.")
@debug_option
def chat(  # noqa: PLR0913 - click hands over one argument an option
    *,
    manifest: Path,
    queries: tuple[str, ...],
    prompt: str | None,
    interactive: bool | None,
    single_turn: bool,
    refs: tuple[str, ...],
    model: str | None,
    debug: bool,
) -> None:
    """Talk with the agent in MANIFEST.

    Which infra it uses: --infra-ref, else MAS_INFRA_REFS (comma-separated), else infra_refs in the workspace's
    config.yaml, else $XDG_CONFIG_HOME/mas/infra/default.yaml.

    At the prompt: /quit, /exit or /q ends, /reset forgets the conversation.

    \b
    Examples:
      llm-sched chat agent.yaml --infra-ref standard:llm-proxy-paced
      llm-sched chat agent.yaml --infra-ref http://localhost:8000/v1 -q "What is 2+2?"
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    from llm_sched.pipeline.problems import NoRefsError, UnknownRefError  # noqa: PLC0415 - see the law above

    questions = [text for text in (prompt, *queries) if text]
    terminal = sys.stdin.isatty()
    if interactive is None:
        interactive = terminal and not questions
    with one_line(debug=debug, usage=(NoRefsError, UnknownRefError)), ended_by_signals():
        conversation = _conversation(manifest, refs, model)
        if not questions and not interactive:
            questions = [text for text in [sys.stdin.read().strip()] if text]
            if not questions:
                message = "nothing to ask: pass -q TEXT, or a question on standard input."
                raise click.UsageError(message)
        if single_turn:
            questions, interactive = questions[:1], interactive and not questions
        for question in questions:
            click.echo(f"You: {question}")
            _answer(conversation, question)
        if interactive:
            _talk(conversation, single_turn=single_turn, debug=debug)


def _conversation(manifest: Path, refs: tuple[str, ...], model: str | None) -> Conversation:
    from llm_sched.pipeline.agents import load_agent  # noqa: PLC0415 - see the law above
    from llm_sched.pipeline.conversation import Conversation  # noqa: PLC0415 - likewise
    from llm_sched.pipeline.loading import load_infra  # noqa: PLC0415 - likewise
    from llm_sched.pipeline.registry import build  # noqa: PLC0415 - likewise

    agent = load_agent(manifest, os.environ)
    infra = load_infra(refs, folder=agent.folder)
    for note in infra.notes:
        click.echo(f"{_name()}: warning: {note}", err=True)
    override = model or next((os.environ[name] for name in MODEL_VARIABLES if os.environ.get(name)), None)
    return Conversation(agent, build(infra, override or agent.model))


def _name() -> str:
    """The command's name, as messages begin with it."""
    return str(click.get_current_context().find_root().info_name)


def _answer(conversation: Conversation, question: str) -> None:
    """Print the answer while it arrives; the label comes with its first piece, so that an error has a line of its own."""
    printer = _Printer()
    try:
        result = conversation.ask(question, printer)
        if not printer.began:  # an engine that does not stream, or an empty answer
            printer(result.text)
    finally:
        printer.end()
    if getattr(result, "finish_reason", "") in CUT_OFF:
        click.echo(f"{_name()}: warning: the answer was {CUT_OFF[result.finish_reason]}", err=True)


class _Printer:
    """Writes pieces of an answer as they come."""

    def __init__(self) -> None:
        self.began = False

    def __call__(self, text: str) -> None:
        if not self.began:
            self.began = True
            text = f"Agent: {text}"
        click.echo(text, nl=False)
        sys.stdout.flush()

    def end(self) -> None:
        """End the line."""
        if self.began:
            click.echo()


def _talk(conversation: Conversation, *, single_turn: bool, debug: bool) -> None:
    """Ask at a prompt until the user ends it. A failed turn is told, and the next may go better."""
    ask = _prompt()
    while (question := ask()) is not None and question not in QUIT:
        if not question:
            continue
        if question == RESET:
            conversation.reset()
            click.echo("(forgotten)")
            continue
        try:
            _answer(conversation, question)
        except KeyboardInterrupt:
            click.echo("(interrupted)")
        except SchedulerError as error:
            if single_turn or debug:
                raise
            click.echo(f"{_name()}: {error}", err=True)
            continue
        if single_turn:
            return


def _prompt() -> Callable[[], str | None]:
    """A function that asks for a line; None when there is no more. With history where the system has it."""
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")  # it changes what `input` does, so only here

    def ask() -> str | None:
        try:
            return input("You: ").strip()
        except EOFError:
            click.echo()
            return None

    return ask
