"""`llm-sched export`: report the ledger to OpenTelemetry and Prometheus."""

# Law: options in, exit code out. The SDK is imported when the command runs.

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from types import FrameType

import click

from llm_sched.cli.options import state_option
from llm_sched.cli.reporting import say_once_a_minute
from llm_sched.config import resolved_state_path
from llm_sched.store.location import local_path
from llm_sched.telemetry.endpoint import endpoint_of, without_secrets
from llm_sched.telemetry.setup import PATIENCE_S, is_asked_for

_FROM_ENVIRONMENT = ""
_LARGEST_PORT = 65535


def _address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, int] | None:
    if value is None:
        return None
    name, _, port = value.rpartition(":")
    if not port.isdigit() or int(port) > _LARGEST_PORT:
        raise click.BadParameter(f"{value!r} is no HOST:PORT, for example 127.0.0.1:9464 or just 9464.")
    return name.strip("[]") or "127.0.0.1", int(port)


@click.command()
@state_option
@click.option(
    "--otlp",
    is_flag=False,
    flag_value=_FROM_ENVIRONMENT,
    default=None,
    metavar="[ENDPOINT]",
    help="Send to this OTLP endpoint, e.g. http://localhost:4318 (:4317 is gRPC). Without ENDPOINT: what "
    "OTEL_EXPORTER_OTLP_ENDPOINT and its like say, else http://localhost:4318.",
)
@click.option(
    "--prometheus",
    metavar="[HOST:]PORT",
    callback=_address,
    help="Let Prometheus ask here, e.g. 9464. HOST is 127.0.0.1 unless given; port 0 takes a free one.",
)
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 3600),
    default=10.0,
    show_default=True,
    help="How often to send to the OTLP endpoint.",
)
def export(state: Path | None, otlp: str | None, prometheus: tuple[str, int] | None, interval: float) -> None:
    """Report the ledger: slots in flight, waiting, limits, by bucket.

    Programs report what they do themselves, if they use OpenTelemetry; this reports what only the ledger knows, once for
    the whole machine. It reads the file, takes no lock, and may run for ever: whether there is a ledger or not.
    Refuses to start a second time on one ledger.
    """
    if otlp is None and prometheus is None:
        if not is_asked_for():
            raise click.UsageError("Where to? Give --otlp [ENDPOINT] or --prometheus [HOST:]PORT, or both.")
        otlp = _FROM_ENVIRONMENT
    from llm_sched.telemetry.exporter import Address, Exporter, the_only_one  # noqa: PLC0415 - see the law above

    path = local_path(resolved_state_path(state).absolute())
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), end)
    say_once_a_minute()
    with the_only_one(path):
        address = Address(*prometheus) if prometheus else None
        exporter = Exporter(path, _tell, otlp=otlp, prometheus=address, interval_s=interval)
        _tell(f"{path}{_where(otlp, interval)}{f' at {exporter.listening.url}' if exporter.listening else ''}")
        try:
            ended.wait()
        finally:
            exporter.close(PATIENCE_S)


def _where(otlp: str | None, interval: float) -> str:
    if otlp is None:
        return ""
    return f" to {without_secrets(otlp or endpoint_of('metrics'))} every {interval:g} s"


def _tell(line: str) -> None:
    click.echo(f"llm-sched export ({os.getpid()}): {line}", err=True)
