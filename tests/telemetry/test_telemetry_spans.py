"""The wait span: when there is one, whose child it is, what it says and what it links to."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode, format_span_id
from telemetry_stage import BUCKET, Caller

from llm_sched import SlotTimeout
from llm_sched.telemetry import names

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from telemetry_stage import Stage

OPENAI = {"provider": "openai", "model": "gpt-4o"}


def under(stage: Stage, name: str) -> Any:
    """A span of the program around something."""
    return stage.report.tracers.get_tracer("program").start_as_current_span(name)


def named(stage: Stage, name: str) -> ReadableSpan:
    """The span of that name."""
    return next(span for span in stage.report.spans() if span.name == name)


def is_child(span: ReadableSpan, parent: ReadableSpan) -> bool:
    """Whether a span is directly under another."""
    assert span.parent
    assert parent.context
    return (span.parent.span_id, span.parent.trace_id) == (parent.context.span_id, parent.context.trace_id)


def events(span: ReadableSpan) -> list[str]:
    """Names of a span's events."""
    return [event.name for event in span.events]


def test_a_slot_granted_at_once_has_no_span(stage: Stage) -> None:
    """There is nothing to see."""
    stage.scheduler().acquire(**OPENAI).release()
    assert stage.report.waits() == []


def test_it_has_one_if_asked_for(stage: Stage) -> None:
    """With the same attributes, less what only a queue has."""
    report = stage.another_report(every_span=True)
    stage.scheduler(report, user="ann").acquire(**OPENAI).release()
    (span,) = report.waits()
    assert dict(span.attributes or {}) == {
        "llm_scheduler.bucket": BUCKET,
        "llm_scheduler.user": "ann",
        "llm_scheduler.result": "acquired",
        "llm_scheduler.limit.kind": "none",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
    }
    assert events(span) == ["granted"]


def test_a_wait_has_one_span_with_all_that_is_known(stage: Stage) -> None:
    """Exact name, kind, attributes, value types and events."""
    scheduler = stage.scheduler(max_in_flight=2, user="ann")
    slots = [scheduler.acquire(**OPENAI) for _ in range(2)]
    first = Caller(scheduler)
    stage.until_waiting(1)
    second = Caller(scheduler)
    stage.until_waiting(2)
    for slot in slots:
        slot.release()
    for caller in (first, second):
        caller.ended().release()
    assert [span.name for span in stage.report.spans()] == ["llm_scheduler.acquire"] * 2
    span = next(span for span in stage.report.waits() if (span.attributes or {})["llm_scheduler.queue.position"] == 2)
    assert (span.kind, span.status.status_code, span.parent) == (SpanKind.INTERNAL, StatusCode.UNSET, None)
    assert dict(span.attributes or {}) == {
        "llm_scheduler.bucket": BUCKET,
        "llm_scheduler.user": "ann",
        "llm_scheduler.result": "acquired",
        "llm_scheduler.limit.kind": "in_flight",
        "llm_scheduler.queue.position": 2,
        "llm_scheduler.occupancy.in_flight": 2,
        "llm_scheduler.occupancy.limit": 2,
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
    }
    assert events(span) == ["queued", "granted"]
    assert set(span.attributes or {}) <= set(names.SPAN_ATTRIBUTES)


def test_a_thread_s_wait_is_a_child_of_its_current_span(stage: Stage) -> None:
    """And has ended before anything that comes after begins."""
    scheduler = stage.scheduler(max_in_flight=1)
    slot = scheduler.acquire(**OPENAI)
    caller = Caller(scheduler, under=under(stage, "caller"))
    stage.until_waiting(1)
    slot.release()
    caller.ended().release()
    (wait,) = stage.report.waits()
    assert is_child(wait, named(stage, "caller"))


def test_a_task_s_wait_is_a_child_of_its_current_span(stage: Stage) -> None:
    """Across await; each task has its own; what follows the wait is a sibling that begins after its end."""
    scheduler = stage.scheduler(max_in_flight=1)

    async def call(name: str) -> None:
        with under(stage, name):
            async with scheduler.slot(**OPENAI):
                with under(stage, f"{name} chat"):
                    await asyncio.sleep(0)

    async def body() -> None:
        slot = await scheduler.acquire_async(**OPENAI)
        tasks = [asyncio.create_task(call(name)) for name in ("one", "two")]
        await stage.until_waiting_async(2)
        slot.release()
        await asyncio.gather(*tasks)

    asyncio.run(body())
    assert len(stage.report.waits()) == 2
    for name in ("one", "two"):
        caller, chat = named(stage, name), named(stage, f"{name} chat")
        (wait,) = [span for span in stage.report.waits() if is_child(span, caller)]
        assert is_child(chat, caller)
        assert (caller.start_time or 0) <= (wait.start_time or 0)
        assert (wait.end_time or 0) <= (chat.start_time or 0)


def test_the_context_goes_into_an_executor_s_thread(stage: Stage) -> None:
    """With `asyncio.to_thread`, and with whoever else copies the context."""
    scheduler = stage.scheduler(max_in_flight=1)
    slot = scheduler.acquire(**OPENAI)

    async def body() -> None:
        with under(stage, "task"):
            taken = asyncio.create_task(asyncio.to_thread(scheduler.acquire, **OPENAI))
            await stage.until_waiting_async(1)
            slot.release()
            (await taken).release()

    asyncio.run(body())
    with ThreadPoolExecutor(1) as pool, under(stage, "thread"):
        held = scheduler.acquire(**OPENAI)
        taken = pool.submit(copy_context().run, lambda: scheduler.acquire(**OPENAI))
        stage.until_waiting(1)
        held.release()
        taken.result().release()
    first, second = stage.report.waits()
    assert is_child(first, named(stage, "task"))
    assert is_child(second, named(stage, "thread"))


def test_a_timeout_is_an_error(stage: Stage) -> None:
    """Status, description and `error.type`."""
    scheduler = stage.scheduler(max_in_flight=1)
    slot = scheduler.acquire(**OPENAI)
    caller = Caller(scheduler, timeout_s=4)
    stage.until_waiting(1)
    stage.clock.advance(5)
    error = caller.ended()
    slot.release()
    (span,) = stage.report.waits()
    attributes = dict(span.attributes or {})
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, str(error))
    assert (attributes["llm_scheduler.result"], attributes["error.type"]) == ("timeout", "SlotTimeout")
    assert events(span) == ["queued"]


def test_a_refusal_without_a_wait_is_seen_too(stage: Stage) -> None:
    """`timeout_s=0` does not wait, but it fails."""
    scheduler = stage.scheduler(max_in_flight=1)
    with scheduler.slot(**OPENAI), pytest.raises(SlotTimeout):
        scheduler.acquire(**OPENAI, timeout_s=0)
    (span,) = stage.report.waits()
    assert (span.attributes or {})["llm_scheduler.result"] == "timeout"


def test_a_cancelled_wait_is_no_error(stage: Stage) -> None:
    """Somebody wanted it so."""
    scheduler = stage.scheduler(max_in_flight=1)

    async def body() -> None:
        async with scheduler.slot(**OPENAI):
            task = asyncio.create_task(scheduler.acquire_async(**OPENAI))
            await stage.until_waiting_async(1)
            task.cancel()
            await asyncio.wait([task])

    asyncio.run(body())
    (span,) = stage.report.waits()
    attributes = dict(span.attributes or {})
    assert (attributes["llm_scheduler.result"], attributes["error.type"]) == ("canceled", "CancelledError")
    assert span.status.status_code is StatusCode.UNSET


def test_a_wait_for_a_rate_token_says_so(stage: Stage) -> None:
    """As an event, besides the attribute."""
    scheduler = stage.scheduler(requests_per_minute=60, burst=1)
    with under(stage, "holder"):
        slot = scheduler.acquire(**OPENAI)
    caller = Caller(scheduler)
    stage.until_waiting(1)
    stage.clock.advance(1.1)
    caller.ended().release()
    slot.release()
    (span,) = stage.report.waits()
    assert events(span) == ["queued", "rate_limited", "granted"]
    assert (span.attributes or {})["llm_scheduler.limit.kind"] == "rate"
    assert span.links == ()


def test_a_wait_links_to_whoever_blocks_it(stage: Stage) -> None:
    """The holders' own spans, from the ledger: also those of another process."""
    with under(stage, "holder"):
        slot = stage.scheduler(stage.another_report(), max_in_flight=1).acquire(**OPENAI)
    scheduler = stage.scheduler(max_in_flight=1)
    caller = Caller(scheduler)
    stage.until_waiting(1)
    slot.release()
    caller.ended().release()
    (span,) = stage.report.waits()
    holder = named(stage, "holder")
    assert holder.context
    assert [format_span_id(link.context.span_id) for link in span.links] == [format_span_id(holder.context.span_id)]
    assert span.links[0].context.trace_id == holder.context.trace_id
    assert span.links[0].context.is_remote


def test_only_the_traceparent_goes_into_the_ledger(stage: Stage) -> None:
    """And only while somebody holds or waits."""
    scheduler = stage.scheduler()
    with under(stage, "holder"):
        slot = scheduler.acquire(**OPENAI)
    (lease,) = stage.store.read().buckets[BUCKET].leases
    holder = named(stage, "holder").context
    assert holder
    assert lease.traceparent == f"00-{holder.trace_id:032x}-{holder.span_id:016x}-{holder.trace_flags:02x}"
    slot.release()
    untraced = scheduler.acquire(**OPENAI)
    assert [lease.traceparent for lease in stage.store.read().buckets[BUCKET].leases] == [""]
    untraced.release()


def test_a_waiter_hears_that_a_dead_owner_s_slot_was_taken_back(stage: Stage) -> None:
    """Also the one whose turn it is not yet."""
    dead = stage.scheduler(stage.another_report(), max_in_flight=1)
    lost = dead.acquire(**OPENAI)
    scheduler = stage.scheduler(max_in_flight=1)
    first = Caller(scheduler)
    stage.until_waiting(1)
    second = Caller(scheduler)
    stage.until_waiting(2)
    stage.kill(dead)
    stage.clock.advance(2)
    with pytest.raises(SlotTimeout):
        scheduler.acquire(**OPENAI, timeout_s=0)  # looks for the dead before it gives up
    first.ended().release()
    second.ended().release()
    last = max(stage.report.waits(), key=lambda span: span.end_time or 0)
    assert events(last) == ["queued", "reclaimed", "granted"]
    assert not lost.released


def test_a_provider_called_by_its_host_is_a_server_address(stage: Stage) -> None:
    """With its port, if it has one."""
    report = stage.another_report(every_span=True)
    scheduler = stage.scheduler(report)
    scheduler.acquire(provider="localhost:11434").release()
    scheduler.acquire(provider="llm.example.org").release()
    found = [dict(span.attributes or {}) for span in report.waits()]
    assert [(each.get("server.address"), each.get("server.port")) for each in found] == [
        ("localhost", 11434),
        ("llm.example.org", None),
    ]
    assert all("gen_ai.request.model" not in each for each in found)


def test_nested_layers_have_one_span(stage: Stage) -> None:
    """The inner one borrows, so it never waits."""
    scheduler = stage.scheduler(max_in_flight=1)
    slot = scheduler.acquire(**OPENAI)

    def layers() -> None:
        with scheduler.slot(**OPENAI), scheduler.slot(**OPENAI):
            pass

    thread = threading.Thread(target=layers)
    thread.start()
    stage.until_waiting(1)
    slot.release()
    thread.join()
    assert len(stage.report.waits()) == 1
