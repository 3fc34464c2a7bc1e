"""The demo's telemetry: its workers report what they do, and its parent reports the ledger."""

# Law: only what `OTEL_*` asks for, which `--otlp` sets. Nothing of OpenTelemetry is imported before.

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from llm_sched.telemetry import names
from llm_sched.telemetry.setup import PATIENCE_S, is_asked_for, setup

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager
    from pathlib import Path

SERVICE = "llm-sched-demo"
_INTERVAL_S = 1.0


@contextlib.contextmanager
def ledger_reported(path: Path, endpoint: str) -> Generator[None]:
    """Report the ledger at `path` to an OTLP endpoint within the block, as `llm-sched export` does."""
    from llm_sched.telemetry.exporter import Exporter  # noqa: PLC0415 - see the law above

    exporter = Exporter(path, lambda _: None, otlp=endpoint, prometheus=None, interval_s=_INTERVAL_S)
    try:
        yield
    finally:
        exporter.close(PATIENCE_S)


@contextlib.contextmanager
def worker_reported() -> Generator[Callable[[], AbstractContextManager[object]]]:
    """Report what this process does within the block, if it is asked for; yields what makes the span around a call."""
    if not is_asked_for():
        yield contextlib.nullcontext
        return
    telemetry = setup(service_name=SERVICE)
    from llm_sched.telemetry.carrier import span  # noqa: PLC0415 - see the law above

    try:
        yield partial(span, names.SPAN_DEMO_CALL)
    finally:
        telemetry.shutdown(PATIENCE_S)
