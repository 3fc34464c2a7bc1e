"""Beside other instrumentations: the wait is over before the chat begins, and nothing is told twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from llm_sched.telemetry import names

if TYPE_CHECKING:
    from telemetry_crew import Crew
    from telemetry_sink import Sink


@pytest.mark.parametrize("style", ["threads", "asyncio"])
def test_a_paced_call_is_caller_wait_chat_and_http(sink: Sink, crew: Crew, style: str) -> None:
    """Caller over wait and chat, in this order; chat over HTTP; none doubled, though two layers take a slot."""
    crew.start("instrumented", style=style).end()
    (caller,) = sink.spans("caller")
    spans = [span for span in sink.spans() if span.raw.trace_id == caller.raw.trace_id]
    parents = {span.raw.span_id: span.name for span in spans}
    tree = [
        (span.name, parents.get(span.raw.parent_span_id)) for span in sorted(spans, key=lambda s: s.raw.start_time_unix_nano)
    ]
    assert tree == [
        ("caller", None),
        (names.SPAN_ACQUIRE, "caller"),
        ("chat gpt-4o", "caller"),
        ("POST", "chat gpt-4o"),
    ]
    _, wait, chat, post = sorted(spans, key=lambda span: span.raw.start_time_unix_nano)
    assert wait.raw.end_time_unix_nano <= chat.raw.start_time_unix_nano
    assert post.raw.end_time_unix_nano <= chat.raw.end_time_unix_nano
    assert not any(key.startswith("gen_ai.usage") for key in wait.attributes)
    assert sink.total(names.REQUESTS) == 2  # the one that waited, and the one it waited for
