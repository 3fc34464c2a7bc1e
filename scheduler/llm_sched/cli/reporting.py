"""Telemetry of our own commands: set up when the standard `OTEL_*` variables ask for it, sent before the command ends."""

# Law: nothing asked for, nothing loaded. What OpenTelemetry has to complain about is at most one line a minute.

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Generator

import click

from llm_sched.cli.signals import ended_by_signals
from llm_sched.telemetry.setup import is_asked_for, setup

_PATIENCE_S = 3.0
"""A command whose endpoint is away ends so much later."""

_EVERY_S = 60.0
_LONGEST = 200


@contextlib.contextmanager
def reported(service_name: str) -> Generator[None]:
    """Report what the block does, if the environment asks for it, also when a signal ends it.

    Args:
        service_name: unless the variables name the service.
    """
    if not is_asked_for():
        yield
        return
    say_once_a_minute()
    telemetry = setup(service_name=service_name)
    from llm_sched.telemetry.carrier import inherited_parent  # noqa: PLC0415 - see the law above

    try:
        with ended_by_signals(), inherited_parent():
            yield
    finally:
        telemetry.shutdown(_PATIENCE_S)


def say_once_a_minute() -> None:
    """Turn OpenTelemetry's log, which repeats itself while an endpoint is away, into a line now and then."""
    logger = logging.getLogger("opentelemetry")
    if not any(isinstance(handler, _OneLine) for handler in logger.handlers):
        logger.addHandler(_OneLine(logging.WARNING))
        logger.propagate = False


class _OneLine(logging.Handler):
    _said_at = float("-inf")

    def emit(self, record: logging.LogRecord) -> None:
        if time.monotonic() - self._said_at >= _EVERY_S:
            self._said_at = time.monotonic()
            text = " ".join(record.getMessage().split())[:_LONGEST]
            click.echo(f"llm-sched: telemetry: {text}", err=True)
