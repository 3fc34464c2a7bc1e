"""A real collector: what several processes report arrives, over gRPC and over HTTP, and adds up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from telemetry_commands import llm_sched
from telemetry_stage import until

from llm_sched import read_snapshot
from llm_sched.telemetry import names

if TYPE_CHECKING:
    from telemetry_crew import Crew
    from telemetry_rotel import Collector
    from telemetry_sink import Sink, Span

pytestmark = pytest.mark.timeout(180)

TIMES = 5
WORKERS = ("one", "two", "three")
CALLS = len(WORKERS) * (3 * TIMES + 1)


def run_workers(crew: Crew, endpoint: str, protocol: str) -> None:
    """Three processes that want the same slot at the same time; return when they have ended."""
    crew.environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    children = [crew.start("contend", times=TIMES, name=name) for name in WORKERS]
    for child in children:
        child.hear("ready")
    for child in children:
        child.tell()
    for child in children:
        child.end()


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_several_processes_through_a_collector(sink: Sink, crew: Crew, collector: Collector, protocol: str) -> None:
    """Sums, kinds, parents, links and instances."""
    run_workers(crew, collector.grpc if protocol == "grpc" else collector.http, protocol)
    (bucket,) = read_snapshot(crew.folder / "ledger.json").buckets
    assert bucket.totals.granted == CALLS
    until(lambda: sink.total(names.REQUESTS, result="acquired") == CALLS)
    until(lambda: sink.total(names.HOLD_DURATION) == CALLS)
    assert sink.total(names.REQUESTS, result="timeout") == sink.total(names.TIMEOUTS) == bucket.totals.timed_out
    assert sink.total(names.WAIT_DURATION, result="acquired") == CALLS
    assert sink.total(names.IN_FLIGHT) == sink.total(names.WAITING) == 0
    assert len({point.instance for point in sink.points(names.REQUESTS)}) == len(WORKERS)
    waited = sum(point.sum for point in sink.points(names.WAIT_DURATION) if point.attributes[names.RESULT] == "acquired")
    assert waited == pytest.approx(bucket.totals.wait_s, rel=0.2, abs=0.1)
    until(lambda: len(sink.spans("chat")) == len(WORKERS) * 3 * TIMES)
    check_spans(sink.spans())


def check_spans(spans: list[Span]) -> None:
    """Waits are children of the program's spans, and link to the spans of those who held the slot."""
    waits = [span for span in spans if span.name == names.SPAN_ACQUIRE]
    programs = {span.raw.span_id: span for span in spans if span.name in {"chat", "hold"}}
    assert waits
    assert {span.raw.parent_span_id for span in waits} <= set(programs)
    assert all(span.raw.kind == ProtoSpan.SPAN_KIND_INTERNAL for span in waits)
    assert {span.resource["service.name"] for span in waits} == set(WORKERS)
    assert len({span.instance for span in waits}) == len(WORKERS)
    for span in waits:
        parent = programs[span.raw.parent_span_id]
        assert (parent.instance, parent.raw.trace_id) == (span.instance, span.raw.trace_id)
        assert parent.raw.start_time_unix_nano <= span.raw.end_time_unix_nano <= parent.raw.end_time_unix_nano
    timeouts = [span for span in waits if span.attributes[names.RESULT] == "timeout"]
    assert all(span.raw.status.code == Status.STATUS_CODE_ERROR for span in timeouts)
    linked = [(span, programs[link.span_id]) for span in waits for link in span.raw.links if link.span_id in programs]
    assert linked
    assert any(span.instance != holder.instance for span, holder in linked), "somebody waited for another process"


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_forked_children_through_a_collector(sink: Sink, crew: Crew, collector: Collector, protocol: str) -> None:
    """Each has a connection of its own: the parent's is already in use when it forks."""
    endpoint = collector.grpc if protocol == "grpc" else collector.http
    crew.environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    crew.start("fork", times=5, children=3).end()
    until(lambda: sink.total(names.REQUESTS, result="acquired") == 25)
    until(lambda: sink.total(names.HOLD_DURATION) == 25)
    assert len({point.instance for point in sink.points(names.REQUESTS)}) == 4


@pytest.mark.soak
def test_the_demo_end_to_end(sink: Sink, collector: Collector) -> None:
    """`llm-sched demo --otlp`: the workers' spans and metrics, and the ledger's from the demo itself."""
    done = llm_sched(
        "demo", "--calls", "12", "--latency", "0.05", "--workers", "2", "--max-in-flight", "2", "--otlp", collector.http
    )
    assert done.returncode == 0, done.stderr
    assert "telemetry" not in done.stderr
    until(lambda: sink.total(names.REQUESTS, result="acquired") == 12)
    until(lambda: len(sink.spans(names.SPAN_DEMO_CALL)) == 12)
    until(lambda: sink.points(names.LEDGER_LIMIT))
    assert {point.value for point in sink.points(names.LEDGER_LIMIT)} == {2}
    calls = {span.raw.span_id for span in sink.spans(names.SPAN_DEMO_CALL)}
    assert {span.raw.parent_span_id for span in sink.spans(names.SPAN_ACQUIRE)} <= calls
