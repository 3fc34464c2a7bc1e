"""One slot around one HTTP attempt, from an asyncio task, until the body of the answer is closed."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest
import trio
from strict_provider import Cut, Gone, Hang, Malformed, Refuse, StrictProvider
from transport_support import BODY, CHAT, STREAM_BODY, Flavour, Ledger, until, until_async

from llm_sched import SchedulerError, SlotTimeout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from strict_provider import Fault

    from llm_sched import Scheduler


@pytest.fixture
def transport(flavour: Flavour, scheduler: Scheduler) -> Any:
    """A paced transport, of each library."""
    return flavour.paced.AsyncPacedTransport(scheduler=scheduler)


async def open_stream(client: Any, provider: StrictProvider) -> Any:
    """Send a request whose answer is streamed; its head is there."""
    request = client.build_request("POST", provider.base_url + CHAT, json=STREAM_BODY)
    return await client.send(request, stream=True)


def test_never_more_tasks_at_once_than_the_cap_to_the_last_byte(flavour: Flavour, schedulers: Callable[..., Scheduler]) -> None:
    """Thirty tasks, streaming and not, on a provider that refuses the fourth."""
    scheduler = schedulers(max_in_flight=3)

    async def run(provider: StrictProvider) -> set[int]:
        async with flavour.async_client(flavour.paced.AsyncPacedTransport(scheduler=scheduler), timeout=30) as client:
            calls = [client.post(provider.base_url + CHAT, json=STREAM_BODY if odd % 2 else BODY) for odd in range(30)]
            return {answer.status_code for answer in await asyncio.gather(*calls)}

    with StrictProvider(limit=3, latency_s=0.02) as provider:
        assert asyncio.run(run(provider)) == {200}
        stats = provider.stats()
    assert (stats.peak, stats.refused, stats.answered) == (3, 0, 30)
    assert Ledger(scheduler).is_free()


def test_a_tasks_stream_holds_its_slot_until_its_last_byte(
    flavour: Flavour, transport: Any, provider: StrictProvider, ledger: Ledger
) -> None:
    """Reading all gives it back, without a `close`."""

    async def run() -> None:
        async with flavour.async_client(transport) as client:
            (gate,) = provider.gates(1)
            stream = await open_stream(client, provider)
            parts = stream.aiter_raw()
            assert await anext(parts)
            assert ledger.held() == 1
            gate.open()
            assert b"[DONE]" in b"".join([part async for part in parts])
            await until_async(ledger.is_free)
            stream = await open_stream(client, provider)
            assert b"[DONE]" in b"".join([part async for part in stream.stream])  # past the client's own `aclose`
            await until_async(ledger.is_free)

    asyncio.run(run())


def test_a_tasks_stream_that_is_left_early_gives_its_slot_back(
    flavour: Flavour, transport: Any, provider: StrictProvider, ledger: Ledger
) -> None:
    """By `async with`, and by `aclose`, twice; more often than there are slots."""

    async def run() -> None:
        async with flavour.async_client(transport) as client:
            provider.gates(6)
            for count in range(3):
                async with client.stream("POST", provider.base_url + CHAT, json=STREAM_BODY) as stream:
                    await anext(stream.aiter_lines())
                await until_async(ledger.is_free)
                stream = await open_stream(client, provider)
                await stream.aclose()
                await stream.aclose()
                await until_async(ledger.is_free)
                await until_async(lambda count=count: provider.stats().dropped == 2 * count + 2)

    asyncio.run(run())


@pytest.mark.parametrize("half_read", [False, True], ids=["unread", "half-read"])
def test_a_tasks_stream_that_is_dropped_is_closed_by_its_loop(
    flavour: Flavour, transport: Any, provider: StrictProvider, ledger: Ledger, *, half_read: bool
) -> None:
    """More often than there are slots; the provider is hung up on, and then the slot is back."""

    async def drop(client: Any) -> None:
        stream = await open_stream(client, provider)
        if half_read:
            assert await anext(stream.aiter_lines())

    async def run() -> None:
        async with flavour.async_client(transport) as client:
            provider.gates(3)
            for count in range(1, 4):
                await drop(client)
                gc.collect()
                await until_async(ledger.is_free)
                await until_async(lambda count=count: provider.stats().dropped == count)

    asyncio.run(run())


def test_what_outlives_its_loop_gives_its_slot_back(flavour: Flavour, scheduler: Scheduler, ledger: Ledger) -> None:
    """Nobody can close it any more, and nobody needs to."""

    class Endless(flavour.lib.AsyncByteStream):  # type: ignore[name-defined,misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"never read"

    inner = flavour.lib.MockTransport(lambda _: flavour.lib.Response(200, stream=Endless()))
    transport = flavour.paced.AsyncPacedTransport(inner, scheduler=scheduler)

    async def run() -> Any:
        client = flavour.async_client(transport)
        return await client.send(client.build_request("POST", "http://host", json=BODY), stream=True)

    kept = [asyncio.run(run())]
    assert ledger.held() == 1
    kept.clear()
    gc.collect()
    until(ledger.is_free)


def test_closing_an_async_client_ends_open_streams(
    flavour: Flavour, transport: Any, provider: StrictProvider, ledger: Ledger
) -> None:
    """Their connections are gone, so their slots are back, though somebody still keeps them."""

    async def run() -> None:
        provider.gates(2)
        client = flavour.async_client(transport)
        kept = [await open_stream(client, provider) for _ in range(2)]
        assert ledger.held() == 2
        await client.aclose()
        await until_async(ledger.is_free)
        for stream in kept:
            await stream.aclose()

    asyncio.run(run())


@pytest.mark.parametrize("fault", [Refuse(429), Refuse(504), Malformed(), Cut(), Gone(), Hang()], ids=repr)
def test_no_fault_of_the_provider_costs_a_task_a_slot(
    flavour: Flavour, transport: Any, provider: StrictProvider, ledger: Ledger, fault: Fault
) -> None:
    """More often than there are slots; and then it serves well again."""
    timeout = flavour.lib.Timeout(30, read=0.05 if isinstance(fault, Hang) else 30)

    async def run() -> None:
        async with flavour.async_client(transport, timeout=timeout) as client:
            provider.break_down(fault)
            for _ in range(3):
                if isinstance(fault, (Refuse, Malformed)):
                    await client.post(provider.base_url + CHAT, json=STREAM_BODY)
                else:
                    with pytest.raises(flavour.lib.TransportError):
                        await client.post(provider.base_url + CHAT, json=STREAM_BODY)
                await until_async(ledger.is_free)
            provider.heal()
            answer = await client.post(provider.base_url + CHAT, json=STREAM_BODY, timeout=30)
            assert answer.status_code == 200

    asyncio.run(run())
    assert (ledger.granted(), ledger.is_free(), provider.stats().requests) == (4, True, 4)


class Tedious:
    """An inner transport and its stream that give way to others at every step."""

    def __init__(self, flavour: Flavour) -> None:
        outer = self
        self.closed = 0

        class Stream(flavour.lib.AsyncByteStream):  # type: ignore[name-defined,misc]
            async def __aiter__(self) -> AsyncIterator[bytes]:
                for _ in range(3):
                    await asyncio.sleep(0)
                    yield b"part"
                    await asyncio.sleep(0)

            async def aclose(self) -> None:
                try:
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                finally:
                    outer.closed += 1

        async def answer(_: object) -> Any:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return flavour.lib.Response(200, stream=Stream())

        self.transport = flavour.lib.MockTransport(answer)


@pytest.mark.parametrize("cancels", [1, 2], ids=["once", "twice"])
def test_a_cancellation_at_any_await_gives_the_slot_back(
    flavour: Flavour, schedulers: Callable[..., Scheduler], cancels: int
) -> None:
    """From the first step to the last; also when it is cancelled again while it is being cleaned up."""
    scheduler = schedulers(max_in_flight=1)
    ledger = Ledger(scheduler)
    tedious = Tedious(flavour)

    async def cancelled_after(turns: int) -> bool:
        async with flavour.async_client(flavour.paced.AsyncPacedTransport(tedious.transport, scheduler=scheduler)) as client:
            task = asyncio.create_task(client.post("http://host", json=BODY))
            for _ in range(turns):
                await asyncio.sleep(0)
            completed = task.done()
            for _ in range(cancels):
                task.cancel()
                await asyncio.sleep(0)
            await asyncio.gather(task, return_exceptions=True)
            await until_async(ledger.is_free)
            return completed

    turns = 0
    while not asyncio.run(cancelled_after(turns)):
        turns += 1
    assert turns >= 11, "fewer steps than the answer alone has"
    assert tedious.closed


def test_a_cancelled_wait_gives_its_place_back(flavour: Flavour, provider: StrictProvider, scheduler: Scheduler) -> None:
    """And nothing was sent."""
    ledger = Ledger(scheduler)

    async def run() -> None:
        async with flavour.async_client(flavour.paced.AsyncPacedTransport(scheduler=scheduler, provider="p")) as client:
            held = [scheduler.acquire(provider="p", model=BODY["model"]) for _ in range(2)]  # type: ignore[arg-type]
            task = asyncio.create_task(client.post(provider.base_url + CHAT, json=BODY))
            await until_async(lambda: ledger.waiting() == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert ledger.waiting() == 0
            for slot in held:
                slot.release()
            await until_async(ledger.is_free)

    asyncio.run(run())
    assert provider.stats().requests == 0


def test_a_cancelled_stream_gives_its_slot_back(
    flavour: Flavour, transport: Any, provider: StrictProvider, ledger: Ledger
) -> None:
    """A real one, in the middle of an answer, more often than there are slots."""

    async def read(client: Any, begun: asyncio.Event) -> None:
        async with client.stream("POST", provider.base_url + CHAT, json=STREAM_BODY) as stream:
            async for _ in stream.aiter_bytes():
                begun.set()

    async def run() -> None:
        async with flavour.async_client(transport) as client:
            provider.gates(4)
            for count in range(1, 5):
                begun = asyncio.Event()
                task = asyncio.create_task(read(client, begun))
                await begun.wait()
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await until_async(ledger.is_free)
                await until_async(lambda count=count: provider.stats().dropped == count)

    asyncio.run(run())


def test_no_slot_in_time_is_a_slot_timeout_in_a_task(
    flavour: Flavour, provider: StrictProvider, schedulers: Callable[..., Scheduler]
) -> None:
    """And nothing was sent."""
    scheduler = schedulers(max_in_flight=1, timeout_s=0, keys=["user"])

    async def run() -> None:
        async with flavour.async_client(flavour.paced.AsyncPacedTransport(scheduler=scheduler)) as client:
            with scheduler.acquire(), pytest.raises(SlotTimeout):
                await client.post(provider.base_url + CHAT, json=BODY)

    asyncio.run(run())
    assert provider.stats().requests == 0


def test_async_requests_without_a_model_pass(
    flavour: Flavour, provider: StrictProvider, schedulers: Callable[..., Scheduler]
) -> None:
    """While all slots are taken; and a streamed body of JSON is read for its model."""
    scheduler = schedulers(max_in_flight=1, keys=["user"], timeout_s=0)

    async def parts() -> AsyncIterator[bytes]:
        yield b'{"model": "m", "messages": []}'

    async def run() -> None:
        async with flavour.async_client(flavour.paced.AsyncPacedTransport(scheduler=scheduler)) as client:
            with scheduler.acquire():
                assert (await client.get(provider.base_url + "/models")).status_code == 200
                with pytest.raises(SlotTimeout):
                    await client.post(provider.base_url + CHAT, content=parts(), headers={"Content-Type": "application/json"})

    asyncio.run(run())


def test_under_trio_a_paced_request_says_what_is_wrong(flavour: Flavour, scheduler: Scheduler, ledger: Ledger) -> None:
    """Also inside a slot, which it could have borrowed; nothing is sent and nothing held."""
    inner = flavour.lib.MockTransport(lambda _: flavour.lib.Response(200))

    async def run() -> None:
        async with flavour.async_client(flavour.paced.AsyncPacedTransport(inner, scheduler=scheduler)) as client:
            with scheduler.slot(provider="host", model=str(BODY["model"])), pytest.raises(SchedulerError, match="trio"):
                await client.post("http://host", json=BODY)

    trio.run(run)
    assert ledger.is_free()
