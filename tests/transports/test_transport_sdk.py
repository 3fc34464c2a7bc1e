"""The real `openai` SDK on a paced transport: its retries, its streams, its errors."""

from __future__ import annotations

import asyncio
import gc
import types
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest
from openai import _base_client  # where the SDK sleeps between its retries
from strict_provider import Cut, Gone, Hang, Malformed, Refuse, StrictProvider
from transport_support import FLAVOURS, MODEL, OPENAI_MAJOR, QUESTION, SDK_FLAVOURS, Flavour, Ledger, until, until_async

from llm_sched import SlotTimeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strict_provider import Fault

    from llm_sched import Scheduler

AGAIN = Refuse(429, {"retry-after-ms": "1"})
SDK_ERRORS = (openai.APIError, httpx.TransportError)
"""What the SDK makes of faults; 2 lets httpx's own errors through while it streams."""


@pytest.fixture
def client(sdk_flavour: Flavour, provider: StrictProvider, scheduler: Scheduler) -> Iterator[openai.OpenAI]:
    """A paced SDK client that does not retry."""
    transport = sdk_flavour.paced.PacedTransport(scheduler=scheduler)
    with sdk_flavour.sdk(provider.base_url, transport, max_retries=0) as client:
        yield client


def ask(client: openai.OpenAI) -> str:
    """One question, answered in one piece."""
    return client.chat.completions.create(model=MODEL, messages=QUESTION).choices[0].message.content or ""


def stream(client: openai.OpenAI) -> Any:
    """One question, answered in pieces; the first is there."""
    pieces = client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True)
    next(pieces)
    return pieces


def test_one_line_paces_the_sdk_as_the_readme_shows(provider: StrictProvider, scheduler: Scheduler, ledger: Ledger) -> None:
    """`DefaultHttpxClient(transport=...)`, on the library that this SDK comes with; sync and async."""
    paced = FLAVOURS[SDK_FLAVOURS[-1]].paced
    web = openai.DefaultHttpxClient(transport=paced.PacedTransport(scheduler=scheduler))
    with openai.OpenAI(base_url=provider.base_url, api_key="any", http_client=web) as client:
        assert ask(client).startswith("One pace")

    async def run() -> str:
        web = openai.DefaultAsyncHttpxClient(transport=paced.AsyncPacedTransport(scheduler=scheduler))
        async with openai.AsyncOpenAI(base_url=provider.base_url, api_key="any", http_client=web) as client:
            answer = await client.chat.completions.create(model=MODEL, messages=QUESTION)
            return answer.choices[0].message.content or ""

    assert asyncio.run(run()).startswith("One pace")
    assert (ledger.granted(), ledger.is_free()) == (2, True)


def test_threads_on_one_sdk_client_never_exceed_the_cap(sdk_flavour: Flavour, schedulers: Callable[..., Scheduler]) -> None:
    """Half of them streaming, on a provider that refuses the third; a refusal would be an error, for nobody retries."""
    scheduler = schedulers(max_in_flight=2)
    with StrictProvider(limit=2, latency_s=0.01) as provider:
        transport = sdk_flavour.paced.PacedTransport(scheduler=scheduler)
        with sdk_flavour.sdk(provider.base_url, transport, max_retries=0) as client, ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda odd: list(stream(client)) if odd % 2 else ask(client), range(24)))
        stats = provider.stats()
    assert (stats.peak, stats.refused, stats.answered) == (2, 0, 24)
    assert Ledger(scheduler).is_free()


def test_each_attempt_takes_its_own_slot_and_back_off_holds_none(
    sdk_flavour: Flavour, provider: StrictProvider, scheduler: Scheduler, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a provider that always says 429, slots given equal what it counts."""
    held_in_back_off: list[int] = []
    monkeypatch.setattr(_base_client, "time", types.SimpleNamespace(sleep=lambda _: held_in_back_off.append(ledger.held())))
    provider.break_down(AGAIN)
    transport = sdk_flavour.paced.PacedTransport(scheduler=scheduler)
    with sdk_flavour.sdk(provider.base_url, transport, max_retries=4) as client:
        for _ in range(3):
            with pytest.raises(openai.RateLimitError):
                ask(client)
    assert held_in_back_off == [0] * 12
    assert ledger.granted() == provider.stats().requests == 15
    assert ledger.is_free()


def test_a_retry_that_succeeds_is_one_answer(
    sdk_flavour: Flavour, provider: StrictProvider, scheduler: Scheduler, ledger: Ledger
) -> None:
    """429, connection lost, 504, then well; streamed or not."""
    transport = sdk_flavour.paced.PacedTransport(scheduler=scheduler)
    with sdk_flavour.sdk(provider.base_url, transport, max_retries=3) as client:
        provider.script(AGAIN, Gone(), Refuse(504, {"retry-after-ms": "1"}), None)
        assert ask(client).startswith("One pace")
        provider.script(AGAIN, None)
        assert len(list(stream(client))) > 5
    assert ledger.granted() == provider.stats().requests == 6
    assert ledger.is_free()


def test_a_back_off_lets_others_go_first(
    sdk_flavour: Flavour, provider: StrictProvider, schedulers: Callable[..., Scheduler]
) -> None:
    """With one slot, and one client that was told to come back in a minute."""
    scheduler = schedulers(max_in_flight=1, timeout_s=0)
    ledger = Ledger(scheduler)

    async def run() -> None:
        transport = sdk_flavour.paced.AsyncPacedTransport(scheduler=scheduler)
        async with sdk_flavour.async_sdk(provider.base_url, transport, max_retries=1) as client:
            provider.script(Refuse(429, {"retry-after": "55"}), None)
            patient = asyncio.create_task(client.chat.completions.create(model=MODEL, messages=QUESTION))
            await until_async(lambda: ledger.granted() == 1 and ledger.is_free())
            answer = await client.chat.completions.create(model=MODEL, messages=QUESTION)
            assert answer.choices[0].finish_reason == "stop"
            assert not patient.done()
            patient.cancel()
            await asyncio.gather(patient, return_exceptions=True)

    asyncio.run(run())
    assert provider.stats().requests == 2


def test_a_streamed_answer_holds_its_slot_until_done(client: openai.OpenAI, provider: StrictProvider, ledger: Ledger) -> None:
    """To its last byte."""
    (gate,) = provider.gates(1)
    pieces = stream(client)
    assert ledger.held() == 1
    gate.open()
    assert len(list(pieces)) > 5
    until(ledger.is_free)


def test_streams_closed_left_and_dropped_give_their_slots_back(
    client: openai.OpenAI, provider: StrictProvider, ledger: Ledger
) -> None:
    """Each more often than there are slots; the provider has been hung up on each time."""
    provider.gates(9)
    for count in range(3):
        stream(client).close()
        assert ledger.held() == 0
        with client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True) as pieces:
            next(pieces)
        assert ledger.held() == 0
        client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True)
        gc.collect()
        until(ledger.is_free)
        until(lambda count=count: provider.stats().dropped == 3 * count + 3)


def test_async_streams_closed_left_and_dropped_give_their_slots_back(
    sdk_flavour: Flavour, provider: StrictProvider, scheduler: Scheduler, ledger: Ledger
) -> None:
    """Likewise; one that is dropped is closed by its loop."""

    async def run() -> None:
        transport = sdk_flavour.paced.AsyncPacedTransport(scheduler=scheduler)
        async with sdk_flavour.async_sdk(provider.base_url, transport, max_retries=0) as client:
            provider.gates(12)
            for count in range(3):
                for use in (close, leave, drop_unread, drop_half_read):
                    await use(await client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True))
                    gc.collect()
                    await until_async(ledger.is_free)
                await until_async(lambda count=count: provider.stats().dropped == 4 * count + 4)

    async def close(pieces: Any) -> None:
        await pieces.close()

    async def leave(pieces: Any) -> None:
        async with pieces:
            await anext(pieces)

    async def drop_unread(_: Any) -> None:
        pass

    async def drop_half_read(pieces: Any) -> None:
        await anext(pieces)

    asyncio.run(run())
    assert ledger.granted() == 12


@pytest.mark.parametrize("fault", [Refuse(429), Refuse(504), Malformed(), Cut(), Gone(), Hang()], ids=repr)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_whatever_the_sdk_makes_of_a_fault_no_slot_is_lost(
    client: openai.OpenAI, provider: StrictProvider, ledger: Ledger, fault: Fault, *, streamed: bool
) -> None:
    """More often than there are slots; and then it serves well again."""
    broken = client.with_options(timeout=0.05 if isinstance(fault, Hang) else 30)
    provider.break_down(fault)
    for _ in range(3):
        if isinstance(fault, Malformed):  # whether that is an error at all is the SDK's affair
            _try(lambda: list(broken.chat.completions.create(model=MODEL, messages=QUESTION, stream=streamed)))
        else:
            with pytest.raises(SDK_ERRORS):
                list(broken.chat.completions.create(model=MODEL, messages=QUESTION, stream=streamed))
        gc.collect()
        until(ledger.is_free)
    provider.heal()
    assert ask(client).startswith("One pace")
    assert (ledger.granted(), ledger.is_free()) == (4, True)


def _try(call: Callable[[], object]) -> None:
    try:
        call()
    except (*SDK_ERRORS, ValueError, AttributeError, TypeError):
        return


def test_listing_models_takes_no_slot(client: openai.OpenAI, ledger: Ledger) -> None:
    """It carries no model."""
    assert [model.id for model in client.models.list()] == ["gpt-demo"]
    assert ledger.granted() == 0


def test_no_slot_in_time_is_told_to_who_called_the_sdk(
    sdk_flavour: Flavour, provider: StrictProvider, schedulers: Callable[..., Scheduler]
) -> None:
    """The SDK 3 lets it through; 2 takes it for a lost connection and tells the cause."""
    scheduler = schedulers(max_in_flight=1, timeout_s=0, keys=["user"])
    transport = sdk_flavour.paced.PacedTransport(scheduler=scheduler)
    with sdk_flavour.sdk(provider.base_url, transport, max_retries=0) as client, scheduler.acquire():
        with pytest.raises((SlotTimeout, openai.APIConnectionError)) as caught:
            ask(client)
        told = caught.value if OPENAI_MAJOR >= 3 else caught.value.__cause__
        assert isinstance(told, SlotTimeout)
    assert provider.stats().requests == 0
