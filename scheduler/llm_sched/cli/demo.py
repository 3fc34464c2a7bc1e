"""`llm-sched demo`: see the scheduler at work, without a key and without a server."""

# Law: options in, exit code out. What is run is in `llm_sched.demo`, which is imported when the command runs:
# it brings rich and multiprocessing, and `llm-sched --help` needs neither.

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from llm_sched.cli.signals import ended_by_signals

if TYPE_CHECKING:
    from llm_sched.demo.messages import Target
    from llm_sched.demo.plan import Options
    from llm_sched.demo.screen import Screen
    from llm_sched.demo.summary import Summary

STUB_MODEL = "gpt-demo"
CAP = 4
ANSWER_S = 3.0


class _Refused(click.ClickException):
    """One line and exit code 2: the options are fine, but something they need is missing."""

    exit_code = 2


def _finite(_context: click.Context, _parameter: click.Parameter, value: float) -> float:
    if not math.isfinite(value):  # nan compares as neither too small nor too large
        message = f"{value} is not a finite number."
        raise click.BadParameter(message)
    return value


def _capped(context: click.Context, parameter: click.Parameter, value: int) -> int:
    """Without a cap there is nothing to see: an option that says so is wrong, a variable is for other programs."""
    if value:
        return value
    if context.get_parameter_source(parameter.name or "") is not ParameterSource.ENVIRONMENT:
        message = "0 is no cap, and then there is nothing to see."
        raise click.BadParameter(message)
    click.echo(f"MAS_LLM_MAX_IN_FLIGHT=0 is no cap; so that there is something to see, the demo has one of {CAP}.", err=True)
    return CAP


@click.command(short_help="See it work: worker processes against an embedded provider.")
@click.option(
    "--workers",
    metavar="N",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Worker processes; half threads, half asyncio.",
)
@click.option("--calls", metavar="N", type=click.IntRange(1, 1_000_000), default=120, show_default=True, help="Calls in all.")
@click.option(
    "--max-in-flight",
    metavar="N",
    type=click.IntRange(0, 1000),
    default=CAP,
    show_default=True,
    callback=_capped,
    envvar="MAS_LLM_MAX_IN_FLIGHT",
    show_envvar=True,
    help="The cap: requests at once. The stub refuses what exceeds it.",
)
@click.option(
    "--rpm",
    metavar="N",
    type=click.FloatRange(0),
    default=0.0,
    show_default="no limit",
    callback=_finite,
    envvar="MAS_LLM_RPM",
    show_envvar=True,
    help="Requests per minute.",
)
@click.option(
    "--latency",
    metavar="SECONDS",
    type=click.FloatRange(0, 600),
    default=0.25,
    show_default=True,
    callback=_finite,
    help="Seconds the stub takes to answer, give or take a fifth.",
)
@click.option("--no-scheduler", is_flag=True, help="Call without slots, to see the 429s one gets.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on stdout, and nothing else there.")
@click.option("--no-monitor", "--plain", "plain", is_flag=True, help="On a terminal, show a table instead of the monitor.")
@click.option("--base-url", metavar="URL", help="Call this OpenAI-compatible endpoint instead (costs real tokens).")
@click.option("--model", metavar="NAME", help="The model to ask for; required with --base-url.")
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="MAS_LLM_SCHEDULER_STATE",
    show_envvar=True,
    help="The ledger to use. Default: a temporary one.",
)
@click.option(
    "--otlp",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[ENDPOINT]",
    help="Report all to this OTLP endpoint, e.g. http://localhost:4318. Without ENDPOINT: what OTEL_EXPORTER_OTLP_ENDPOINT "
    "says, else that one.",
)
@click.pass_context
def demo(  # noqa: PLR0913 - click hands over one argument an option
    context: click.Context,
    *,
    workers: int,
    calls: int,
    max_in_flight: int,
    rpm: float,
    latency: float,
    no_scheduler: bool,
    as_json: bool,
    plain: bool,
    base_url: str | None,
    model: str | None,
    state: Path | None,
    otlp: str | None,
) -> None:
    """Start a provider and several worker processes that call it, and show how they are paced.

    The embedded provider speaks the OpenAI API on a free loopback port, refuses with 429 what exceeds its own
    concurrency limit, and counts. The workers call it through the real openai SDK, each call inside a slot.
    The summary tells what the provider saw. Exit code 0: it never saw more than the cap, and nothing failed.

    On a terminal the monitor opens (llm-sched-tui); q leads to the summary.

    With --base-url and --model the workers call a real endpoint; its key is taken from OPENAI_API_KEY.
    With --otlp it also goes to an OpenTelemetry collector: spans, metrics and the ledger.
    """
    from llm_sched.demo.plan import Options  # noqa: PLC0415 - see the law above

    if base_url is not None and context.get_parameter_source("latency") is not ParameterSource.DEFAULT:
        message = "--latency belongs to the embedded provider; it can't be used with --base-url."
        raise click.UsageError(message)
    options = Options(
        workers=workers,
        calls=calls,
        max_in_flight=max_in_flight,
        requests_per_minute=rpm,
        latency_s=latency,
        scheduled=not no_scheduler,
        endpoint=None if base_url is None else _endpoint(base_url, model),
        stub_model=model or STUB_MODEL,
        state=None if state is None else state.expanduser().absolute(),
        otlp=None if otlp is None else _reported_to(otlp),
    )
    summary = _run(options, plain=plain or as_json or no_scheduler)
    _print(summary, as_json=as_json)
    context.exit(0 if summary.ok else 1)


def _endpoint(base_url: str, model: str | None) -> Target:
    from llm_sched.demo import plan  # noqa: PLC0415 - see the law above

    if not model or not model.strip():
        message = "--base-url needs --model: the name of a model of that endpoint."
        raise click.UsageError(message)
    if not os.environ.get("OPENAI_API_KEY", "").strip():
        message = "--base-url needs that endpoint's key in OPENAI_API_KEY (any word, when it wants none)."
        raise _Refused(message)
    try:
        return plan.endpoint(base_url, model.strip())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--base-url'") from error


def _reported_to(otlp: str) -> str:
    """Set the variables for the workers, and see that somebody answers there."""
    from llm_sched.telemetry.endpoint import GRPC, checked, endpoint_of, problem_at, protocol_of, without_secrets  # noqa: PLC0415

    if otlp:
        for name in [name for name in os.environ if name.startswith("OTEL_EXPORTER_OTLP_") and name.endswith("_ENDPOINT")]:
            del os.environ[name]
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = checked(otlp)
    else:
        os.environ.setdefault("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
    os.environ.setdefault("OTEL_METRIC_EXPORT_INTERVAL", "1000")
    problem = problem_at(endpoint_of("traces"), grpc=protocol_of("traces", None) == GRPC, timeout_s=ANSWER_S)
    if problem:
        where = without_secrets(endpoint_of("traces"))
        raise _Refused(f"--otlp: {where}: {problem}. Start a collector there; dashboards/README.md tells how.")
    return ""


def _run(options: Options, *, plain: bool) -> Summary:
    from llm_sched.demo.run import run_demo  # noqa: PLC0415 - see the law above
    from llm_sched.errors import SchedulerError  # noqa: PLC0415 - see the law above

    try:
        with ended_by_signals(), contextlib.ExitStack() as stack:
            options, screen = _screen(options, stack, plain=plain)
            return run_demo(options, screen)
    except KeyboardInterrupt:
        click.echo("Interrupted; the provider and the workers are gone.", err=True)
        sys.exit(128 + signal.SIGINT)
    except (SchedulerError, OSError, RuntimeError) as error:
        raise click.ClickException(str(error)) from error


def _screen(options: Options, stack: contextlib.ExitStack, *, plain: bool) -> tuple[Options, Screen]:
    """The display, and options that name the ledger which it shows."""
    from rich.console import Console  # noqa: PLC0415 - see the law above

    from llm_sched.demo import monitor  # noqa: PLC0415 - see the law above
    from llm_sched.demo.plan import title  # noqa: PLC0415 - see the law above
    from llm_sched.demo.run import temporary_state  # noqa: PLC0415 - see the law above
    from llm_sched.demo.screen import screen_for  # noqa: PLC0415 - see the law above

    screen = screen_for(Console(stderr=True), title(options))
    if plain or not monitor.can_open(os.environ):
        return options, screen
    state = options.state or temporary_state(stack)
    return dataclasses.replace(options, state=state), monitor.MonitorScreen(state, title(options), screen)


def _print(summary: Summary, *, as_json: bool) -> None:
    from rich.console import Console  # noqa: PLC0415 - see the law above

    from llm_sched.demo.report import report  # noqa: PLC0415 - see the law above

    if as_json:
        click.echo(json.dumps(summary.to_dict(), indent=2))
    else:
        Console().print(report(summary))
