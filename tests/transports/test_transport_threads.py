"""One slot around one HTTP attempt, from a thread, until the body of the answer is closed."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import pytest
from strict_provider import Cut, Gone, Hang, Malformed, Refuse, StrictProvider
from transport_support import BODY, CHAT, MODEL, STREAM_BODY, Flavour, Ledger, until

from llm_sched import SlotTimeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strict_provider import Fault

    from llm_sched import Scheduler


@pytest.fixture
def client(flavour: Flavour, scheduler: Scheduler) -> Iterator[Any]:
    """A paced client, of each library."""
    with flavour.client(flavour.paced.PacedTransport(scheduler=scheduler), timeout=30) as client:
        yield client


def open_stream(client: Any, provider: StrictProvider) -> Any:
    """Send a request whose answer is streamed; its head is there."""
    return client.send(client.build_request("POST", provider.base_url + CHAT, json=STREAM_BODY), stream=True)


def test_never_more_at_once_than_the_cap_to_the_last_byte(flavour: Flavour, schedulers: Callable[..., Scheduler]) -> None:
    """Twelve threads, streaming and not, on a provider that refuses the fourth."""
    scheduler = schedulers(max_in_flight=3)
    transport = flavour.paced.PacedTransport(scheduler=scheduler)
    with StrictProvider(limit=3, latency_s=0.02) as provider, flavour.client(transport) as client:

        def call(number: int) -> int:
            body = STREAM_BODY if number % 2 else BODY
            status: int = client.post(provider.base_url + CHAT, json=body).status_code
            return status

        with ThreadPoolExecutor(12) as pool:
            assert set(pool.map(call, range(60))) == {200}
        stats = provider.stats()
    assert (stats.peak, stats.refused, stats.answered) == (3, 0, 60)
    assert Ledger(scheduler).is_free()


def test_a_stream_holds_its_slot_until_its_last_byte(client: Any, provider: StrictProvider, ledger: Ledger) -> None:
    """Reading all gives it back, without a `close`."""
    (gate,) = provider.gates(1)
    stream = open_stream(client, provider)
    parts = stream.iter_raw()
    assert next(parts)
    assert ledger.held() == 1
    gate.open()
    assert b"[DONE]" in b"".join(parts)
    assert ledger.held() == 0
    stream = open_stream(client, provider)
    assert b"[DONE]" in b"".join(stream.stream)  # past the client's own `close`
    assert ledger.held() == 0


def test_a_second_stream_waits_for_the_last_byte_of_the_first(
    flavour: Flavour, provider: StrictProvider, schedulers: Callable[..., Scheduler]
) -> None:
    """Though the first has been giving tokens for long."""
    scheduler = schedulers(max_in_flight=1)
    ledger = Ledger(scheduler)
    with flavour.client(flavour.paced.PacedTransport(scheduler=scheduler)) as client:
        (gate,) = provider.gates(1)
        stream = open_stream(client, provider)
        second = threading.Thread(target=client.post, args=(provider.base_url + CHAT,), kwargs={"json": BODY})
        second.start()
        until(lambda: ledger.waiting() == 1)
        assert provider.stats().requests == 1
        gate.open()
        stream.read()
        second.join()
    assert (provider.stats().requests, provider.stats().peak) == (2, 1)


def test_a_stream_that_is_closed_early_gives_its_slot_back(client: Any, provider: StrictProvider, ledger: Ledger) -> None:
    """More often than there are slots; the provider has been hung up on each time."""
    provider.gates(3)
    for count in range(1, 4):
        stream = open_stream(client, provider)
        next(stream.iter_raw())
        stream.close()
        stream.close()
        assert ledger.held() == 0
        until(lambda count=count: provider.stats().dropped == count)


def test_a_stream_that_is_dropped_unread_gives_its_slot_back(client: Any, provider: StrictProvider, ledger: Ledger) -> None:
    """When Python collects it, more often than there are slots; and the provider is hung up on."""
    provider.gates(3)
    for count in range(1, 4):
        open_stream(client, provider)
        gc.collect()
        until(ledger.is_free)
        until(lambda count=count: provider.stats().dropped == count)


def test_a_stream_that_is_dropped_half_read_gives_its_slot_back(client: Any, provider: StrictProvider, ledger: Ledger) -> None:
    """Likewise."""
    provider.gates(3)
    for count in range(1, 4):
        assert next(open_stream(client, provider).iter_lines())
        gc.collect()
        until(ledger.is_free)
        until(lambda count=count: provider.stats().dropped == count)


def test_collecting_a_dropped_stream_never_waits(flavour: Flavour, scheduler: Scheduler, ledger: Ledger) -> None:
    """Closing the connection may; so a thread of its own does it, and the slot is back only after that."""
    may_close = threading.Event()

    class Slow(flavour.lib.SyncByteStream):  # type: ignore[name-defined,misc]
        def __iter__(self) -> Iterator[bytes]:
            yield b"never read"

        def close(self) -> None:
            assert may_close.wait(30)

    inner = flavour.lib.MockTransport(lambda _: flavour.lib.Response(200, stream=Slow()))
    client = flavour.client(flavour.paced.PacedTransport(inner, scheduler=scheduler))
    client.send(client.build_request("POST", "http://host", json=BODY), stream=True)
    gc.collect()
    assert ledger.held() == 1
    may_close.set()
    until(ledger.is_free)


def test_a_stream_can_be_closed_from_another_thread(client: Any, provider: StrictProvider, ledger: Ledger) -> None:
    """The slot is the stream's, not the thread's."""
    provider.gates(1)
    stream = open_stream(client, provider)
    closer = threading.Thread(target=stream.close)
    closer.start()
    closer.join()
    assert ledger.is_free()


def test_closing_the_client_ends_open_streams(flavour: Flavour, provider: StrictProvider, scheduler: Scheduler) -> None:
    """Their connections are gone, so their slots are back, though somebody still keeps them."""
    provider.gates(2)
    client = flavour.client(flavour.paced.PacedTransport(scheduler=scheduler))
    kept = [open_stream(client, provider) for _ in range(2)]
    assert Ledger(scheduler).held() == 2
    client.close()
    assert Ledger(scheduler).is_free()
    for stream in kept:
        stream.close()


@pytest.mark.parametrize("fault", [Refuse(429), Refuse(504), Malformed(), Cut(), Gone(), Hang()], ids=repr)
@pytest.mark.parametrize("body", [BODY, STREAM_BODY], ids=["whole", "streamed"])
def test_no_fault_of_the_provider_costs_a_slot(
    flavour: Flavour, provider: StrictProvider, scheduler: Scheduler, ledger: Ledger, fault: Fault, body: dict[str, Any]
) -> None:
    """More often than there are slots; and then it serves well again."""
    timeout = flavour.lib.Timeout(30, read=0.05 if isinstance(fault, Hang) else 30)
    with flavour.client(flavour.paced.PacedTransport(scheduler=scheduler), timeout=timeout) as client:
        provider.break_down(fault)
        for _ in range(3):
            if isinstance(fault, (Refuse, Malformed)):
                client.post(provider.base_url + CHAT, json=body)
            else:
                with pytest.raises(flavour.lib.TransportError):
                    client.post(provider.base_url + CHAT, json=body)
            assert ledger.held() == 0
        provider.heal()
        assert client.post(provider.base_url + CHAT, json=body, timeout=30).status_code == 200
    assert (ledger.granted(), ledger.is_free(), provider.stats().requests) == (4, True, 4)


def test_a_refused_connection_costs_no_slot(client: Any, flavour: Flavour, provider: StrictProvider, ledger: Ledger) -> None:
    """Nobody listens there any more."""
    url = provider.base_url + CHAT
    provider.close()
    for _ in range(3):
        with pytest.raises(flavour.lib.ConnectError):
            client.post(url, json=BODY)
        assert ledger.held() == 0
    assert ledger.granted() == 3


def test_waiting_for_a_slot_is_in_no_timeout_of_the_client(
    flavour: Flavour, provider: StrictProvider, schedulers: Callable[..., Scheduler]
) -> None:
    """It waits five times longer for its slot than it would wait for the provider."""
    scheduler = schedulers(max_in_flight=1, keys=["user"])
    ledger = Ledger(scheduler)
    with (
        flavour.client(flavour.paced.PacedTransport(scheduler=scheduler), timeout=1.0) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        slot = scheduler.acquire()
        call = pool.submit(client.post, provider.base_url + CHAT, json=BODY, timeout=0.2)
        until(lambda: ledger.longest_wait_s() > 1.0)
        slot.release()
        assert call.result().status_code == 200


def test_no_slot_in_time_is_a_slot_timeout_and_nothing_was_sent(
    flavour: Flavour, provider: StrictProvider, schedulers: Callable[..., Scheduler]
) -> None:
    """It names the bucket."""
    scheduler = schedulers(max_in_flight=1, timeout_s=0, provider="p")
    transport = flavour.paced.PacedTransport(scheduler=scheduler)
    with flavour.client(transport) as client, scheduler.acquire(model=MODEL):
        with pytest.raises(SlotTimeout, match=f"p/{MODEL}"):
            client.post(provider.base_url + CHAT, json=BODY)
        assert provider.stats().requests == 0


def test_each_hop_of_a_redirect_is_an_attempt_of_its_own(flavour: Flavour, scheduler: Scheduler, ledger: Ledger) -> None:
    """In the bucket of the host it goes to; the slot before it is back by then."""
    held: list[tuple[str, int]] = []

    def answer(request: Any) -> Any:
        held.append((request.url.host, ledger.held()))
        if request.url.host == "old":
            return flavour.lib.Response(307, headers={"Location": "http://new/x"}, stream=flavour.lib.ByteStream(b"moved"))
        return flavour.lib.Response(200, stream=flavour.lib.ByteStream(b"here"))

    transport = flavour.paced.PacedTransport(flavour.lib.MockTransport(answer), scheduler=scheduler)
    with flavour.client(transport, follow_redirects=True) as client:
        assert client.post("http://old/x", json=BODY).content == b"here"
    assert held == [("old", 1), ("new", 1)]
    assert ledger.buckets() == {f"old/{MODEL}", f"new/{MODEL}"}
    assert ledger.is_free()


def test_an_answer_that_is_already_complete_gives_its_slot_back_at_once(
    flavour: Flavour, scheduler: Scheduler, ledger: Ledger
) -> None:
    """As a transport with a cache gives it: nobody closes it again."""
    inner = flavour.lib.MockTransport(lambda _: flavour.lib.Response(200, content=b"from memory"))
    with flavour.client(flavour.paced.PacedTransport(inner, scheduler=scheduler)) as client:
        kept = [client.post("http://host", json=BODY) for _ in range(3)]
        assert (len(kept), ledger.granted(), ledger.held()) == (3, 3, 0)


def test_an_interrupted_request_gives_its_slot_back(flavour: Flavour, scheduler: Scheduler, ledger: Ledger) -> None:
    """Ctrl-C while the provider is asked."""

    def interrupt(_: object) -> Any:
        raise KeyboardInterrupt

    with flavour.client(flavour.paced.PacedTransport(flavour.lib.MockTransport(interrupt), scheduler=scheduler)) as client:
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                client.post("http://host", json=BODY)
    assert (ledger.granted(), ledger.is_free()) == (3, True)


def test_the_inner_transport_is_entered_left_and_closed(flavour: Flavour, scheduler: Scheduler) -> None:
    """Whoever wraps it need not."""
    seen: list[str] = []

    class Inner(flavour.lib.BaseTransport):  # type: ignore[name-defined,misc]
        def __enter__(self) -> Self:
            seen.append("enter")
            return self

        def __exit__(self, *_: object) -> None:
            seen.append("exit")

        def close(self) -> None:
            seen.append("close")

    with flavour.client(flavour.paced.PacedTransport(Inner(), scheduler=scheduler)):
        assert seen == ["enter"]
    flavour.client(flavour.paced.PacedTransport(Inner(), scheduler=scheduler)).close()
    assert seen == ["enter", "exit", "close"]
