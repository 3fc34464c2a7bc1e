"""Schedulers on a ledger in memory, each like a process of its own, whose telemetry stays in memory."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Metric
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from llm_sched import Policy, Scheduler
from llm_sched.telemetry import names
from llm_sched.telemetry.otel import OTelObserver
from llm_sched.testing import JumpClock, MemoryMailroom, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.metrics.export import MetricsData
    from opentelemetry.sdk.trace import ReadableSpan

PATIENCE_S = 30.0
BUCKET = "openai/gpt-4o"

Points = dict[tuple[tuple[str, Any], ...], Any]
"""Attributes of a point, sorted -> the point."""


def until(condition: Callable[[], object]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it has not happened"
        time.sleep(0.0005)


class Report:
    """Where one process's telemetry goes.

    Attributes:
        tracers: its tracer provider.
        observer: reports to it.
    """

    def __init__(self, **options: Any) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.observer = OTelObserver(self.tracers, self._meters, **options)

    def waits(self) -> list[ReadableSpan]:
        """The wait spans that have ended, in this order."""
        return [span for span in self._spans.get_finished_spans() if span.name == names.SPAN_ACQUIRE]

    def spans(self) -> list[ReadableSpan]:
        """All spans that have ended, in this order."""
        return list(self._spans.get_finished_spans())

    def metrics(self) -> dict[str, Metric]:
        """All metrics as they are now, by name."""
        data: MetricsData | None = self._reader.get_metrics_data()
        scopes = [scope for resource in (data.resource_metrics if data else ()) for scope in resource.scope_metrics]
        return {metric.name: metric for scope in scopes if scope.scope.name == names.SCOPE for metric in scope.metrics}

    def points(self, instrument: names.Instrument) -> Points:
        """The points of a metric; none if it has not been used."""
        metric = self.metrics().get(instrument.name)
        return {tuple(sorted(point.attributes.items())): point for point in (metric.data.data_points if metric else ())}

    def values(self, instrument: names.Instrument) -> dict[tuple[Any, ...], float]:
        """Attribute values (sorted by key) -> the point's value, or a histogram's count."""
        points = self.points(instrument)
        return {
            tuple(value for _, value in attributes): getattr(point, "value", None) or getattr(point, "count", 0)
            for attributes, point in points.items()
        }

    def close(self) -> None:
        """Stop."""
        self.tracers.shutdown()
        self._meters.shutdown()


class Stage:
    """One ledger in memory and the schedulers on it.

    Attributes:
        clock: stands still until it is moved.
        store: the ledger.
        report: where telemetry goes, unless a scheduler got an observer of its own.
    """

    def __init__(self) -> None:
        self.clock = JumpClock()
        self.store = MemoryStore()
        self._room = MemoryMailroom(self.clock)
        self._rooms: dict[int, MemoryMailroom] = {}
        self._schedulers: list[Scheduler] = []
        self._reports: list[Report] = []
        self.report = self.another_report()

    def another_report(self, **options: Any) -> Report:
        """Where another process's telemetry goes."""
        self._reports.append(Report(**options))
        return self._reports[-1]

    def scheduler(self, report: Report | None = None, **knobs: Any) -> Scheduler:
        """Another scheduler on the ledger, like another process."""
        room = self._room.neighbour()
        observer = (report or self.report).observer
        scheduler = Scheduler(Policy(**knobs), observer=observer, store=self.store, mailroom=room, clock=self.clock)
        self._rooms[id(scheduler)] = room
        self._schedulers.append(scheduler)
        return scheduler

    def kill(self, scheduler: Scheduler) -> None:
        """As if a scheduler's process had died."""
        self._rooms[id(scheduler)].kill()

    def waiting(self) -> int:
        """How many calls wait, in all buckets."""
        buckets = self.store.read().buckets
        return sum(member.waiting + member.backlog for name in buckets for member in buckets[name].members.values())

    def until_waiting(self, count: int) -> None:
        """Wait until so many calls wait."""
        until(lambda: self.waiting() == count)

    async def until_waiting_async(self, count: int) -> None:
        """Wait until so many calls wait, while the loop goes on."""
        end = time.monotonic() + PATIENCE_S
        while self.waiting() != count:
            assert time.monotonic() < end, "it has not happened"
            await asyncio.sleep(0)

    def close(self) -> None:
        """Close all."""
        for scheduler in self._schedulers:
            scheduler.close()
        for report in self._reports:
            report.close()


class Caller(threading.Thread):
    """A thread that takes a slot, perhaps under a span of its own.

    Attributes:
        result: the slot, or the error.
    """

    def __init__(self, scheduler: Scheduler, timeout_s: float | None = None, under: Any = None) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._timeout_s = timeout_s
        self._under = under
        self.result: Any = None
        self.start()

    def run(self) -> None:
        """Take it."""
        try:
            if self._under:
                with self._under:
                    self._take()
            else:
                self._take()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.result = error

    def _take(self) -> None:
        self.result = self._scheduler.acquire(provider="openai", model="gpt-4o", timeout_s=self._timeout_s)

    def ended(self) -> Any:
        """What came of it, as soon as it has ended."""
        self.join(PATIENCE_S)
        assert not self.is_alive(), "the call has not ended"
        return self.result
