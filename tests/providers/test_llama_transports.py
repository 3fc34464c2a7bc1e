"""Paced clients of a real llama.cpp, which has four slots and counts what it had to put off."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from llama_watch import watching
from real_providers import LLAMA_MODEL, MANY_TOKENS, Llama, Load
from transport_support import CHAT, FLAVOURS, QUESTION, SDK_FLAVOURS, Ledger, until
from transport_workers import call_often

from llm_sched.demo.lifeline import Child

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import openai

    from llm_sched import Scheduler

SLOTS = 4
FLAVOUR = FLAVOURS[SDK_FLAVOURS[-1]]
"""The library that the installed SDK comes with."""


def sdk(llama: Llama, scheduler: Scheduler) -> openai.OpenAI:
    """A paced client of the real SDK."""
    transport = FLAVOUR.paced.PacedTransport(scheduler=scheduler)
    return FLAVOUR.sdk(llama.base_url, transport, max_retries=0, timeout=60)


def long_stream(client: openai.OpenAI) -> Any:
    """A streamed answer of many tokens; the first is there."""
    body: dict[str, Any] = dict(MANY_TOKENS)
    limit = body.pop("max_tokens")
    stream = client.chat.completions.create(
        model=LLAMA_MODEL, messages=QUESTION, max_tokens=limit, extra_body=body, stream=True
    )
    next(stream)
    return stream


def test_twelve_unpaced_clients_are_put_off(llama: Llama) -> None:
    """The measure works: eight of twelve endless answers wait inside llama.cpp."""
    with FLAVOUR.client(None, timeout=60) as client, ExitStack() as stack:

        def read() -> None:
            with client.stream("POST", llama.base_url + CHAT, json=body) as stream:
                for _ in stream.iter_raw():
                    if seen.is_set():
                        return

        body = {"model": LLAMA_MODEL, "messages": QUESTION, "stream": True, **MANY_TOKENS}
        seen = threading.Event()
        threads = [threading.Thread(target=read) for _ in range(12)]
        for thread in threads:
            thread.start()
            stack.callback(thread.join)
        stack.callback(seen.set)
        until(lambda: llama.load().deferred > 0)


def test_nothing_is_put_off_when_clients_of_three_processes_share_a_cap(llama: Llama, tmp_path: Path) -> None:
    """Threads on httpx, threads on httpx2, and tasks; twenty-four at once, four slots, and none deferred."""
    knobs = {"max_in_flight": SLOTS, "state_path": tmp_path / "state.json"}
    names = ["httpx", "httpx2", "async"]
    with watching(llama) as watcher, ExitStack() as stack:
        children = [
            Child(_call_llama, name, knobs, llama.base_url, 16, name=name)  # sixteen calls each, in eight threads
            for name in names
        ]
        for child in children:
            stack.callback(child.stop)
        assert [child.connection.recv() for child in children] == [{200}] * len(names)
    assert watcher.looks > 10
    assert watcher.most.deferred == 0
    assert 0 < watcher.most.processing <= SLOTS


def _call_llama(connection: Any, name: str, knobs: dict[str, Any], url: str, calls: int) -> None:
    # After a streamed answer llama.cpp closes the connection without having said so; a client that is just sending its next
    # request on it would see that as an error. So each gets a connection of its own.
    call_often(connection, name, knobs, url, calls, headers={"Connection": "close"}, max_tokens=64)


def test_streams_that_end_early_leave_no_slot_taken(llama: Llama, schedulers: Callable[..., Scheduler]) -> None:
    """Closed half way, dropped half read and dropped unread, each more often than there are slots, here and there."""
    scheduler = schedulers(max_in_flight=SLOTS)
    ledger = Ledger(scheduler)
    with sdk(llama, scheduler) as client:
        for _ in range(SLOTS + 1):
            long_stream(client).close()
            long_stream(client)
            client.chat.completions.create(model=LLAMA_MODEL, messages=QUESTION, max_tokens=1900, stream=True)
            gc.collect()
        until(ledger.is_free)
        until(lambda: llama.load() == Load(0, 0))
        answer = client.chat.completions.create(model=LLAMA_MODEL, messages=QUESTION, max_tokens=8)
        assert answer.usage is not None
        assert 0 < answer.usage.completion_tokens <= 8
    assert ledger.is_free()


def test_cancelled_tasks_leave_no_slot_taken(llama: Llama, schedulers: Callable[..., Scheduler]) -> None:
    """While they wait, while they wait for the first token, and in the middle of an answer."""
    scheduler = schedulers(max_in_flight=SLOTS)
    ledger = Ledger(scheduler)

    async def read(client: Any) -> None:
        body = {"model": LLAMA_MODEL, "messages": QUESTION, "stream": True, **MANY_TOKENS}
        async with client.stream("POST", llama.base_url + CHAT, json=body) as stream:
            async for _ in stream.aiter_raw():
                pass

    async def run() -> None:
        async with FLAVOUR.async_client(FLAVOUR.paced.AsyncPacedTransport(scheduler=scheduler), timeout=60) as client:
            for _ in range(3):
                tasks = [asyncio.create_task(read(client)) for _ in range(12)]
                while not (ledger.held() == SLOTS and ledger.waiting()):  # noqa: ASYNC110 - the ledger is a file
                    await asyncio.sleep(0.001)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())
    until(ledger.is_free)
    until(lambda: llama.load() == Load(0, 0))


def test_an_unknown_request_to_llama_costs_no_slot(llama: Llama, schedulers: Callable[..., Scheduler]) -> None:
    """It refuses what it cannot read, more often than there are slots; and goes on serving."""
    scheduler = schedulers(max_in_flight=1)
    with FLAVOUR.client(FLAVOUR.paced.PacedTransport(scheduler=scheduler), timeout=60) as client:
        for _ in range(3):
            assert client.post(llama.base_url + CHAT, json={"model": LLAMA_MODEL}).status_code >= 400
        assert client.get(llama.base_url + "/models").status_code == 200
    assert (Ledger(scheduler).granted(), Ledger(scheduler).is_free()) == (3, True)
