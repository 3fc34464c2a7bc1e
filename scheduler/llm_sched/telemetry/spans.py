"""The span of a wait, `llm_scheduler.acquire`: one per attempt, child of whatever is current where the call was made.

The law: it starts when the call was made and has ended when the slot is there, so it is never open while the provider is
called. A call that was granted at once has none, unless asked for. It is never made current: nothing nests in it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from llm_sched.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.trace import Span, Tracer

    from llm_sched.calls import Call

_MOST_LINKS = 32
_VERSION_TRACE_SPAN_FLAGS = 4


def current_traceparent() -> str:
    """The current span in the form of W3C's Trace Context; empty if there is none or it is not recorded."""
    current = trace.get_current_span().get_span_context()
    last, text = _last[0]
    return text if last is current else _formatted(current)


def _formatted(current: SpanContext) -> str:
    sampled = current.is_valid and current.trace_flags.sampled
    text = f"00-{current.trace_id:032x}-{current.span_id:016x}-{current.trace_flags:02x}" if sampled else ""
    _last[0] = (current, text)
    return text


_last: list[tuple[SpanContext | None, str]] = [(None, "")]
"""Programs make many calls under one span."""


class WaitSpans:
    """The open wait spans of a process.

    Args:
        tracer: makes them.

    Attributes:
        every: make one also for a slot that was granted without a wait.

    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self.every = False
        self._open: dict[tuple[str, int], tuple[str, Span]] = {}

    def start(self, call: Call, waited_s: float) -> None:
        """The call has to wait, and has been for `waited_s` seconds."""
        self._open[call.owner, call.number] = (call.bucket, self._begin(call, waited_s))

    def _begin(self, call: Call, waited_s: float) -> Span:
        links = list(_links(call))
        started = time.time_ns() - round(waited_s * 1e9)
        span = self._tracer.start_span(
            names.SPAN_ACQUIRE, kind=SpanKind.INTERNAL, attributes=_attributes(call), links=links, start_time=started
        )
        if call.seen:
            span.add_event(names.EVENT_QUEUED, timestamp=started)
            if call.seen.waits_for == "rate":
                span.add_event(names.EVENT_RATE_LIMITED)
        return span

    def end(self, call: Call, result: str, kind: str, waited_s: float, error: BaseException | None = None) -> None:
        """The call has got its slot, or an error, after `waited_s` seconds."""
        _, span = self._open.pop((call.owner, call.number), ("", None))
        if span is None:
            if error is None and not self.every:
                return
            span = self._begin(call, waited_s)
        if span.is_recording():
            span.set_attributes({names.RESULT: result, names.LIMIT_KIND: kind})
            if error is None:
                span.add_event(names.EVENT_GRANTED)
            else:
                span.set_attribute(names.ERROR_TYPE, type(error).__qualname__)
                if result != names.CANCELED:
                    span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end()

    def reclaimed(self, bucket: str) -> None:
        """A slot was taken back from an owner that is gone: whoever waits for one of that bucket is told."""
        for name, span in list(self._open.values()):
            if name == bucket:
                span.add_event(names.EVENT_RECLAIMED)

    def after_fork(self) -> None:
        """In a forked child: the parent's spans are the parent's."""
        self._open = {}


def _attributes(call: Call) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {names.BUCKET: call.bucket, names.USER: call.labels["user"]}
    for key, name in (("provider", names.PROVIDER), ("model", names.MODEL)):
        if key in call.labels:
            attributes[name] = call.labels[key]
    host, _, port = call.labels.get("provider", "").partition(":")
    if port.isdigit():  # a provider without a name of its own is called by its host and port
        attributes |= {names.SERVER_ADDRESS: host, names.SERVER_PORT: int(port)}
    elif "." in host:
        attributes[names.SERVER_ADDRESS] = host
    if call.seen:
        attributes[names.QUEUE_POSITION] = call.seen.ahead + 1
        attributes[names.OCCUPANCY_IN_FLIGHT] = call.seen.in_flight
        attributes[names.OCCUPANCY_LIMIT] = call.seen.limit
    return attributes


def _links(call: Call) -> Iterator[Link]:
    """Links to the spans in which the slots are held that this call waits for."""
    if call.seen and call.seen.waits_for in {"in_flight", "policy"}:
        for traceparent in list(dict.fromkeys(call.seen.holders))[:_MOST_LINKS]:
            parts = traceparent.split("-")
            if len(parts) == _VERSION_TRACE_SPAN_FLAGS:
                flags = TraceFlags(int(parts[3], 16))
                yield Link(SpanContext(int(parts[1], 16), int(parts[2], 16), is_remote=True, trace_flags=flags))
