"""Layers of one call share one slot, calls at the same time do not: a transport inside a slot, and inside a transport."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest
from transport_support import BODY, CHAT, MODEL, STREAM_BODY, Flavour, Ledger, until

from llm_sched import SlotTimeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strict_provider import StrictProvider

    from llm_sched import Scheduler


@pytest.fixture
def tight(schedulers: Callable[..., Scheduler]) -> Scheduler:
    """A scheduler with one slot, for which nobody waits."""
    return schedulers(max_in_flight=1, timeout_s=0, provider="p")


@pytest.fixture
def client(flavour: Flavour, tight: Scheduler) -> Iterator[Any]:
    """A client that is paced by it."""
    with flavour.client(flavour.paced.PacedTransport(scheduler=tight), timeout=30) as client:
        yield client


def open_stream(client: Any, provider: StrictProvider) -> Any:
    """Send a request whose answer is streamed; its head is there."""
    return client.send(client.build_request("POST", provider.base_url + CHAT, json=STREAM_BODY), stream=True)


def test_a_request_inside_a_slot_borrows_it(client: Any, provider: StrictProvider, tight: Scheduler) -> None:
    """One after the other, as often as it likes; the outer layer still has it afterwards."""
    with tight.slot(model=MODEL) as slot:
        for _ in range(3):
            assert client.post(provider.base_url + CHAT, json=BODY).status_code == 200
            open_stream(client, provider).read()
        assert not slot.released
        assert Ledger(tight).held() == 1
    assert (Ledger(tight).granted(), Ledger(tight).is_free()) == (1, True)


def test_a_request_in_a_task_inside_a_slot_borrows_it(flavour: Flavour, provider: StrictProvider, tight: Scheduler) -> None:
    """Likewise for asyncio."""

    async def run() -> None:
        transport = flavour.paced.AsyncPacedTransport(scheduler=tight)
        async with flavour.async_client(transport) as client, tight.slot(model=MODEL):
            for _ in range(2):
                assert (await client.post(provider.base_url + CHAT, json=BODY)).status_code == 200

    asyncio.run(run())
    assert (Ledger(tight).granted(), Ledger(tight).is_free()) == (1, True)


def test_two_streams_in_one_thread_take_two_slots(client: Any, provider: StrictProvider, tight: Scheduler) -> None:
    """With one slot there is only one stream, until it is closed."""
    provider.gates(1)
    stream = open_stream(client, provider)
    with pytest.raises(SlotTimeout):
        open_stream(client, provider)
    stream.close()
    until(lambda: provider.stats().current == 0)  # it may hear late of the hang-up
    open_stream(client, provider).read()
    assert (Ledger(tight).granted(), provider.stats().peak) == (2, 1)


def test_two_streams_inside_one_slot_take_two_slots(client: Any, provider: StrictProvider, tight: Scheduler) -> None:
    """The first borrows; the second cannot, for the provider is busy with both."""
    provider.gates(1)
    with tight.slot(model=MODEL):
        stream = open_stream(client, provider)
        with pytest.raises(SlotTimeout):
            open_stream(client, provider)
        stream.close()
        until(lambda: provider.stats().current == 0)  # it may hear late of the hang-up
        open_stream(client, provider).read()
    assert (Ledger(tight).granted(), provider.stats().peak) == (1, 1)


def test_a_second_stream_inside_a_slot_takes_a_free_one(
    flavour: Flavour, provider: StrictProvider, schedulers: Callable[..., Scheduler]
) -> None:
    """One borrowed, one taken."""
    scheduler = schedulers(max_in_flight=2, timeout_s=0, provider="p")
    with flavour.client(flavour.paced.PacedTransport(scheduler=scheduler)) as client:
        gates = provider.gates(2)
        with scheduler.slot(model=MODEL):
            streams = [open_stream(client, provider) for _ in range(2)]
            assert Ledger(scheduler).held() == 2
            for gate, stream in zip(gates, streams, strict=True):
                gate.open()
                stream.read()
            assert Ledger(scheduler).held() == 1
    assert Ledger(scheduler).is_free()


def test_a_transport_inside_a_transport_shares_its_slot(flavour: Flavour, provider: StrictProvider, tight: Scheduler) -> None:
    """Whoever wraps a client twice does not wait for itself; the slot is held to the last byte."""
    inner = flavour.paced.PacedTransport(scheduler=tight)
    with flavour.client(flavour.paced.PacedTransport(inner, scheduler=tight)) as client:
        (gate,) = provider.gates(1)
        stream = open_stream(client, provider)
        assert Ledger(tight).held() == 1
        gate.open()
        stream.read()
        assert client.post(provider.base_url + CHAT, json=BODY).status_code == 200
    assert (Ledger(tight).granted(), Ledger(tight).is_free()) == (2, True)


def test_an_async_transport_inside_a_transport_shares_its_slot(
    flavour: Flavour, provider: StrictProvider, tight: Scheduler
) -> None:
    """Likewise for asyncio."""

    async def run() -> None:
        inner = flavour.paced.AsyncPacedTransport(scheduler=tight)
        async with flavour.async_client(flavour.paced.AsyncPacedTransport(inner, scheduler=tight)) as client:
            for _ in range(2):
                assert (await client.post(provider.base_url + CHAT, json=STREAM_BODY)).status_code == 200

    asyncio.run(run())
    assert (Ledger(tight).granted(), Ledger(tight).is_free()) == (2, True)


def test_a_request_after_an_open_stream_does_not_borrow_from_it(
    client: Any, provider: StrictProvider, tight: Scheduler
) -> None:
    """A stream lends its slot to nobody: what comes after it in the same thread is no layer of it."""
    provider.gates(1)
    stream = open_stream(client, provider)
    with pytest.raises(SlotTimeout), tight.slot(model=MODEL):
        pass
    stream.close()


def test_a_dropped_stream_gives_what_it_borrowed_back(client: Any, provider: StrictProvider, tight: Scheduler) -> None:
    """So the next layer can borrow it."""

    def goes_through() -> bool:
        try:
            return client.post(provider.base_url + CHAT, json=BODY).status_code == 200
        except SlotTimeout:
            return False

    with tight.slot(model=MODEL):
        for _ in range(3):
            provider.gates(1)
            open_stream(client, provider)
            gc.collect()
            until(goes_through)
    assert (Ledger(tight).granted(), Ledger(tight).is_free()) == (1, True)
