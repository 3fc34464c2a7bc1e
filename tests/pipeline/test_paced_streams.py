"""A stream's slot: held to the last byte, and given back however the stream ends, more often than there are slots."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from pipeline_provider import PATIENCE_S, Provider, Reply, Script, until, until_later
from pipeline_support import CALL, Leaf, asked, granted, in_flight

from llm_sched import LlmSchedulerMiddleware, Policy, SchedulerError, default, llm_slot, read_snapshot
from llm_sched.model import Transition
from llm_sched.pipeline import openai_http, streams
from llm_sched.pipeline.cache import LlmCacheMiddleware
from llm_sched.pipeline.engine_openai import OpenAiEngine
from llm_sched.pipeline.streams import PacedStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from llm_sched.model import State

CAP = 2
OFTEN = 3 * CAP


class Paced:
    """A paced engine on a provider, and a cache around it."""

    def __init__(self, url: str) -> None:
        self.engine = asked(OpenAiEngine("m", api_base=url, timeout_s=20))
        self.layer: Any = LlmSchedulerMiddleware.wrap(self.engine, {"max_in_flight": CAP, "timeout_s": 20, "max_retries": 0})
        self.cached = LlmCacheMiddleware.wrap(self.layer)


@pytest.fixture
def paced(provider: Provider) -> Iterator[Paced]:
    """At most two at once; afterwards nothing is held, nobody is inside, and a call works."""
    paced = Paced(provider.url)
    yield paced
    provider.reply = Reply()
    until(lambda: provider.inside == 0, "the provider is left")
    assert in_flight() == 0
    assert paced.layer.invoke(CALL).text == "four"
    assert provider.peak <= CAP
    paced.engine.close()


def in_task(paced: Paced, how: Callable[[], Any]) -> Any:
    """Run something in a task, and close its connections."""

    async def main() -> Any:
        try:
            return await how()
        finally:
            await paced.engine.aclose()

    return asyncio.run(main())


def test_slow_streams_are_counted_to_the_last_byte(paced: Paced, provider: Provider) -> None:
    """Twelve readers, two slots: the provider never sees three, though each stream lingers before its last byte."""
    gates = [threading.Event() for _ in range(12)]
    waiting = iter(gates)
    provider.reply = lambda _: Reply(text="one two", gate=next(waiting))
    with ThreadPoolExecutor(12) as pool:
        calls = [pool.submit(lambda: paced.layer.stream(CALL).result().text) for _ in gates]
        for number, gate in enumerate(gates):
            inside = min(CAP, 12 - number)
            until(lambda count=number + inside: provider.count == count)  # type: ignore[misc]
            until(lambda inside=inside: provider.inside == inside)  # type: ignore[misc]
            assert provider.inside <= in_flight() <= CAP
            gate.set()
        assert [call.result() for call in calls] == ["one two "] * 12
    assert provider.peak == CAP


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a body is waited for as long as a test may take."""
    monkeypatch.setattr(openai_http, "REST_S", 3600)


@pytest.mark.usefixtures("patience")
def test_the_last_byte_is_after_done(paced: Paced, provider: Provider) -> None:
    """The SDK hangs up at `[DONE]`; the slot is held until the body has ended, and the connection is used again."""
    gate = threading.Event()
    provider.reply = Reply(linger=gate)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(lambda: paced.layer.stream(CALL).result().text)
        until(lambda: provider.inside == 1)
        assert not call.done()
        assert in_flight() == 1
        gate.set()
        assert call.result() == "four "
        paced.layer.stream(CALL).result()
        assert provider.connections == 1


@pytest.mark.usefixtures("patience")
def test_the_last_byte_is_after_done_for_tasks_too(paced: Paced, provider: Provider) -> None:
    """Up to a tenth of a second openai 3 reads on by itself, openai 2 does not."""
    gate = threading.Event()
    provider.reply = Reply(linger=gate)

    async def read() -> str:
        async with await paced.layer.astream(CALL) as stream:
            return str((await stream.result()).text)

    async def main() -> None:
        call = asyncio.create_task(read())
        await until_later(lambda: provider.inside == 1)
        assert not call.done()
        assert in_flight() == 1
        gate.set()
        assert await call == "four "
        await read()
        assert provider.connections == 1

    in_task(paced, main)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_body_that_stays_open_after_done_is_left(
    paced: Paced, provider: Provider, monkeypatch: pytest.MonkeyPatch, *, asynchronous: bool
) -> None:
    """The answer is complete: its end is waited for a moment, then the connection is closed and the slot is free."""
    monkeypatch.setattr(openai_http, "REST_S", 0.05)
    never = threading.Event()
    provider.reply = Reply(linger=never)
    paced.engine._clients._options["timeout"] = 600  # noqa: SLF001 - no silence ends it

    async def read() -> str:
        async with await paced.layer.astream(CALL) as stream:
            return str((await stream.result()).text)

    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(lambda: in_task(paced, read) if asynchronous else paced.layer.stream(CALL).result().text)
        try:
            assert call.result(PATIENCE_S) == "four "
            assert in_flight() == 0
        finally:
            never.set()


def test_a_stream_that_never_ends_can_be_left(paced: Paced, provider: Provider) -> None:
    """Also when all has arrived but the end: who leaves does not wait for it."""
    provider.reply = Reply(text="one two", linger=threading.Event())
    for _ in range(OFTEN):
        with paced.layer.stream(CALL) as stream:
            assert next(stream) == "one "
        until(lambda: provider.inside == 0, "the provider has noticed")


def test_slow_streams_of_tasks_likewise(paced: Paced, provider: Provider) -> None:
    """Twelve tasks, two slots."""

    async def read() -> str:
        async with await paced.layer.astream(CALL) as stream:
            return "".join([piece async for piece in stream])

    async def main() -> list[str]:
        return await asyncio.gather(*[read() for _ in range(12)])

    provider.reply = Reply(text="one two")
    assert in_task(paced, main) == ["one two "] * 12
    assert provider.peak <= CAP


def _abort(stream: Any) -> None:
    next(stream)
    stream.close()
    stream.close()


def _leave(stream: Any) -> None:
    with stream:
        next(stream)


def _break(stream: Any) -> None:
    for _ in stream:
        break


def _raise_inside(stream: Any) -> None:
    with pytest.raises(ZeroDivisionError), stream:
        raise ZeroDivisionError


def _other_thread(stream: Any) -> None:
    thread = threading.Thread(target=stream.close)
    thread.start()
    thread.join()


def _in_a_cycle(stream: Any) -> None:
    ring: list[Any] = [stream]
    ring.append(ring)
    del stream, ring
    gc.collect()


ENDINGS = [_abort, _leave, _break, _raise_inside, _other_thread, _in_a_cycle, lambda stream: stream.close(), lambda _: None]


@pytest.mark.parametrize("end", ENDINGS)
@pytest.mark.parametrize("through", ["layer", "cached"])
def test_ended_early_more_often_than_there_are_slots(paced: Paced, provider: Provider, end: Any, through: str) -> None:
    """Aborted half way, left, closed unread, dropped unread: each time the connection is closed, then the slot is free."""
    provider.reply = Reply(text="one two three", gate=threading.Event())
    for number in range(OFTEN):
        asked(paced.engine, f"question {number}")
        end(getattr(paced, through).stream(CALL))
        until(lambda: in_flight() == 0, "the slot is free")
        until(lambda: provider.inside == 0, "the provider has noticed")  # or it would count him beside the next one
    assert provider.count == OFTEN


async def _abort_later(stream: Any) -> None:
    await anext(stream)
    await stream.aclose()
    await stream.aclose()


async def _leave_later(stream: Any) -> None:
    async with stream:
        await anext(stream)


async def _cancel_reader(stream: Any) -> None:
    async def read() -> None:
        async for _ in stream:
            pass

    reader = asyncio.create_task(read())
    for _ in range(20):
        await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader


async def _drop(stream: Any) -> None:
    await anext(stream)


async def _drop_unread(_: Any) -> None:
    pass


@pytest.mark.parametrize("end", [_abort_later, _leave_later, _cancel_reader, _drop, _drop_unread])
@pytest.mark.parametrize("through", ["layer", "cached"])
def test_tasks_end_early_more_often_than_there_are_slots(paced: Paced, provider: Provider, end: Any, through: str) -> None:
    """A stream that a task drops is closed by its loop, without waiting for the garbage collector of async generators."""
    provider.reply = Reply(text="one two three", gate=threading.Event())

    async def main() -> None:
        for number in range(OFTEN):
            asked(paced.engine, f"question {number}")
            await end(await getattr(paced, through).astream(CALL))
            await until_later(lambda: not in_flight() and not provider.inside)

    in_task(paced, main)
    assert provider.count == OFTEN


def test_a_stream_that_outlives_its_loop_gives_its_slot_back(paced: Paced, provider: Provider) -> None:
    """Its connection went with the loop."""
    provider.reply = Reply(text="one two three", gate=threading.Event())

    async def main() -> Any:
        return await paced.layer.astream(CALL)

    stream = in_task(paced, main)
    assert in_flight() == 1
    del stream
    gc.collect()
    until(lambda: in_flight() == 0)


class _Locked:
    """A stream whose `close` wants a lock that no thread may take twice, as httpcore's pool has one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.closed_by = 0

    def close(self) -> None:
        """Close it."""
        self.closed_by = threading.get_ident()
        if self.closed_by != threading.main_thread().ident:
            with self.lock:
                pass


def test_a_stream_is_collected_where_closing_would_block() -> None:
    """Python collects anywhere, so also inside a lock that closing needs: somebody else closes."""
    inner: Any = _Locked()
    default.install(Policy(max_in_flight=1))
    slot = default.current().acquire()
    stream = PacedStream(inner, slot)
    with inner.lock:
        del stream
        gc.collect()
        until(lambda: inner.closed_by, "somebody closes it")
        assert not slot.released
    until(lambda: slot.released)
    assert inner.closed_by != threading.get_ident()


def test_a_stream_dropped_while_its_loop_stands_still(provider: Provider) -> None:
    """The provider is left before the next one gets the slot, though nobody can close the connection properly."""
    provider.reply = Reply(text="one two three", gate=threading.Event())
    engine = asked(OpenAiEngine("m", api_base=provider.url, timeout_s=20))
    layer: Any = LlmSchedulerMiddleware.wrap(engine, {"max_in_flight": 1, "timeout_s": 20, "max_retries": 0})
    loop = asyncio.new_event_loop()
    try:
        for _ in range(OFTEN):
            stream = loop.run_until_complete(layer.astream(CALL))
            del stream
            gc.collect()
            until(lambda: provider.inside == 0, "the provider has noticed")
            until(lambda: in_flight() == 0)
        assert provider.peak == 1
        loop.run_until_complete(engine.aclose())
    finally:
        loop.close()


def test_a_forked_child_does_not_give_back_the_slot_of_a_task(paced: Paced, provider: Provider) -> None:
    """What the child inherits of a task's stream does nothing when the child drops it."""
    gate = threading.Event()
    provider.reply = Reply(text="one two", gate=gate)

    async def main() -> str:
        stream = await paced.layer.astream(CALL)
        assert await anext(stream) == "one "
        child = os.fork()
        if child == 0:
            stream._loop = None  # noqa: SLF001 - it does not run in the child
            stream.__del__()
            os._exit(0 if stream._slot in streams._open else 1)  # noqa: SLF001 - untouched
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert status == 0
        assert in_flight() == provider.inside == 1
        gate.set()
        return str((await stream.result()).text)

    assert in_task(paced, main) == "one two "


def test_cancelled_calls_more_often_than_there_are_slots(paced: Paced, provider: Provider) -> None:
    """Whether they wait for the first byte or for the last."""

    async def main() -> None:
        for number in range(OFTEN):
            provider.reply = Reply(before=threading.Event()) if number % 2 else Reply(gate=threading.Event())
            call = asyncio.create_task(paced.layer.ainvoke(CALL))
            await until_later(lambda number=number: provider.count > number)  # type: ignore[misc]
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until_later(lambda: not in_flight() and not provider.inside)

    in_task(paced, main)


def test_all_kinds_of_failure_then_healthy(provider: Provider) -> None:
    """Hung, 504, 429, malformed, broken off, each more often than there are slots: nothing is leaked, and then it works."""
    bad = [
        Reply(before=threading.Event()),
        Reply(status=504, body=b"gateway"),
        Reply(status=429, body=b"{}"),
        Reply(body=b"<html>"),
        Reply(body=b'{"choices": 5}'),
        Reply(text="one two", cut=True),
    ]
    provider.reply = Script(*bad * OFTEN * 2, Reply())
    engine = asked(OpenAiEngine("m", api_base=provider.url, timeout_s=0.05))
    layer: Any = LlmSchedulerMiddleware.wrap(engine, {"max_in_flight": CAP, "timeout_s": 20, "max_retries": 0})
    calls = (lambda: layer.invoke(CALL), lambda: layer.stream(CALL).result())
    for number in range(len(bad) * OFTEN * 2):
        try:
            calls[number % 2]()
        except SchedulerError:
            assert in_flight() == 0
    until(lambda: provider.inside == 0)
    assert layer.invoke(CALL).text == "four"
    assert in_flight() == 0
    assert provider.count == len(bad) * OFTEN * 2 + 1
    engine.close()


def test_a_stream_of_an_engine_that_cannot_stream(provider: Provider) -> None:
    """It answers as a whole, and its slot is free before the first piece is read."""
    layer: Any = LlmSchedulerMiddleware.wrap(Leaf(), {"max_in_flight": 1, "timeout_s": 0})
    streams = [layer.stream(CALL) for _ in range(3)]
    assert [list(stream) for stream in streams] == [["four"]] * 3

    async def main() -> list[list[str]]:
        streams = [await layer.astream(CALL) for _ in range(3)]
        return [[piece async for piece in stream] for stream in streams]

    assert asyncio.run(main()) == [["four"]] * 3


def test_two_streams_of_one_thread_take_a_slot_each(paced: Paced, provider: Provider) -> None:
    """Inside a slot the first one borrows it, the second takes its own."""
    provider.reply = Reply(text="one two", gate=threading.Event())
    with llm_slot(provider=provider.host, model="m"):
        first = paced.layer.stream(CALL)
        second = paced.layer.stream(CALL)
        assert in_flight() == 2
        first.close()
        second.close()
    assert granted() == {f"{provider.host}/m": 2}


def test_a_forked_child_does_not_hang_up_for_its_parent(paced: Paced, provider: Provider) -> None:
    """What the child inherits of a stream does nothing when the child ends."""
    gate = threading.Event()
    provider.reply = Reply(text="one two", gate=gate)
    stream = paced.layer.stream(CALL)
    assert next(stream) == "one "
    child = os.fork()
    if child == 0:
        del stream
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert in_flight() == provider.inside == 1
    gate.set()
    assert stream.result().text == "one two "


def test_what_is_held_too_long_is_taken_back(provider: Provider) -> None:
    """`max_hold_s` frees the slot of a stream that somebody keeps and does not read."""
    provider.reply = Reply(text="one two", gate=threading.Event())
    engine = asked(OpenAiEngine("m", api_base=provider.url))
    layer: Any = LlmSchedulerMiddleware.wrap(engine, {"max_in_flight": 1, "max_hold_s": 0.2, "timeout_s": 20})
    kept = layer.stream(CALL)
    with layer.stream(CALL):
        [bucket] = read_snapshot(default.current().policy.path).buckets
        assert (bucket.totals.reclaimed, bucket.in_flight) == (1, 1)
    kept.close()
    engine.close()


def test_a_stream_that_is_held_too_long_is_shown_as_overdue(paced: Paced) -> None:
    """With `max_hold_s: 0` it keeps its slot; who looks sees that ten minutes, openai's own timeout, have passed."""

    def age(state: State) -> Transition:
        (bucket,) = state.buckets.values()
        bucket.leases[0] = replace(bucket.leases[0], since=bucket.leases[0].since - 601)
        return Transition(changed=True)

    def overdue() -> list[bool]:
        return [holder.overdue for bucket in read_snapshot(path).buckets for holder in bucket.holders]

    path = default.current().policy.path
    with paced.layer.stream(CALL):
        before = overdue()
        default.current()._engine.part.store.transact(age, lambda *_: None, time.monotonic() + PATIENCE_S)  # noqa: SLF001
        assert (before, overdue()) == ([False], [True])
