# Workers that report to OpenTelemetry, in the ways of which the price is asked. The SDK is imported in the worker only.
"""A scheduler with telemetry: kept out, not configured, recording, or sending to an endpoint that hangs."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from llm_sched import Policy, Scheduler
from llm_sched.observer import NullObserver
from llm_sched.telemetry import setup

if TYPE_CHECKING:
    from tests.benchmarks.commands import Session
    from tests.benchmarks.place import Place

    from llm_sched import Slot

Kind = Literal["off", "unconfigured", "recording", "traced", "hung"]
KINDS: tuple[Kind, ...] = ("off", "unconfigured", "recording", "traced", "hung")


@dataclass(frozen=True, slots=True)
class ConnectReporting:
    """Connect a worker with telemetry of that kind; `endpoint` is one that takes connections and never answers."""

    place: Place
    kind: Kind
    endpoint: str

    def run(self, session: Session) -> None:
        """Set it up for the rest of the process's life."""
        if self.kind == "unconfigured":
            from opentelemetry import metrics, trace  # noqa: F401, PLC0415 - loaded, as many libraries do, and no more
        elif self.kind in {"recording", "traced"}:
            _record()
        elif self.kind == "hung":
            setup(self.endpoint)
        state = Path(self.place.folder) / f"{self.kind}.json"
        observer = NullObserver() if self.kind == "off" else None
        session.peer = Reporting(
            Scheduler(Policy(state_path=state), observer=observer), in_a_span=self.kind in {"traced", "hung"}
        )


class Reporting:
    """A peer that makes its calls under a span of the program's, as traced programs do."""

    def __init__(self, scheduler: Scheduler, *, in_a_span: bool) -> None:
        self._scheduler = scheduler
        self._stack = ExitStack()
        if in_a_span:
            from opentelemetry import trace  # noqa: PLC0415 - see above

            self._stack.enter_context(trace.get_tracer("bench").start_as_current_span("bench"))

    def acquire(self, timeout: float) -> Slot:
        """Take a slot."""
        return self._scheduler.acquire(provider="bench", model="m", timeout_s=timeout)

    def release(self, token: Slot) -> None:
        """Give it back."""
        token.release()


def _record() -> None:
    """Configure the SDK as a program does; what it exports is dropped."""
    from opentelemetry import metrics, trace  # noqa: PLC0415 - see above
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415
        MetricExporter,
        MetricExportResult,
        PeriodicExportingMetricReader,
    )
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: PLC0415

    class Drop(MetricExporter):
        """Takes everything and keeps nothing."""

        def export(self, metrics_data: Any, timeout_millis: float = 10_000, **_: Any) -> MetricExportResult:
            del metrics_data, timeout_millis
            return MetricExportResult.SUCCESS

        def force_flush(self, timeout_millis: float = 10_000) -> bool:
            del timeout_millis
            return True

        def shutdown(self, timeout_millis: float = 30_000, **_: Any) -> None:
            del timeout_millis

    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(Drop(), 1000)]))
