"""Where OTLP over HTTP arrives: decodes it and remembers it. A collector can stand in front of it."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

    from llm_sched.telemetry.names import Instrument


class Span(NamedTuple):
    """A span that arrived."""

    name: str
    instance: str
    resource: dict[str, Any]
    attributes: dict[str, Any]
    raw: ProtoSpan


class Point(NamedTuple):
    """One point of a metric: `value` is a number, or a histogram's count; `at` when it was observed (ns)."""

    name: str
    instance: str
    attributes: dict[str, Any]
    value: float
    sum: float
    at: int


class Sink:
    """A server on the loopback; its address is `endpoint`."""

    def __init__(self) -> None:
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                sink.take(self.path, body)
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
                """Say nothing."""

        self._lock = threading.Lock()
        self._spans: list[Span] = []
        self._points: list[Point] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def take(self, path: str, body: bytes) -> None:
        """Remember what one request brought."""
        if path.endswith("/v1/traces"):
            spans = list(_spans(ExportTraceServiceRequest.FromString(body)))
            with self._lock:
                self._spans += spans
        else:
            points = list(_points(ExportMetricsServiceRequest.FromString(body)))
            with self._lock:
                self._points += points

    def spans(self, name: str | None = None) -> list[Span]:
        """The spans that have arrived, of that name."""
        with self._lock:
            return [span for span in self._spans if name in {None, span.name}]

    def points(self, instrument: Instrument, since: int = 0) -> list[Point]:
        """The last point of each series of a metric, if it was observed after `since` (ns)."""
        last: dict[tuple[str, str], Point] = {}
        with self._lock:
            for point in self._points:
                key = (point.instance, repr(sorted(point.attributes.items())))
                if point.name == instrument.name and point.at >= since and point.at >= getattr(last.get(key), "at", 0):
                    last[key] = point
        return list(last.values())

    def total(self, instrument: Instrument, since: int = 0, **attributes: str) -> float:
        """The sum over all instances and series that have those attributes (keys without `llm_scheduler.`)."""
        wanted = {f"llm_scheduler.{key}": value for key, value in attributes.items()}
        points = self.points(instrument, since)
        return sum(point.value for point in points if wanted.items() <= point.attributes.items())

    def instances(self, since: int = 0) -> set[str]:
        """The instances that have sent metrics after `since` (ns)."""
        with self._lock:
            return {point.instance for point in self._points if point.at >= since}

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _plain(items: Iterable[KeyValue]) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value") or "string_value") for item in items}


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for group in request.resource_spans:
        resource = _plain(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield Span(span.name, resource["service.instance.id"], resource, _plain(span.attributes), span)


def _points(request: ExportMetricsServiceRequest) -> Iterator[Point]:
    for group in request.resource_metrics:
        instance = _plain(group.resource.attributes)["service.instance.id"]
        for scope in group.scope_metrics:
            for metric in scope.metrics:
                for point in getattr(metric, metric.WhichOneof("data") or "gauge").data_points:
                    kind = point.WhichOneof("value") if hasattr(point, "as_int") else None
                    value, total = (getattr(point, kind), 0.0) if kind else (point.count, point.sum)
                    yield Point(metric.name, instance, _plain(point.attributes), value, total, point.time_unix_nano)
