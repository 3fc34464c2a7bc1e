"""Identical calls in flight: one is made, in any process; and nobody waits for who is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from pipeline_provider import Provider, Reply, until, until_later
from pipeline_support import CALL, Leaf, asked, foreign, in_flight

from llm_sched import LlmSchedulerMiddleware, llm_slot
from llm_sched.pipeline.cache import LlmCacheMiddleware, read_params
from llm_sched.pipeline.cache_flights import Flights
from llm_sched.pipeline.cache_store import cache_files
from llm_sched.pipeline.engine_openai import OpenAiEngine

if TYPE_CHECKING:
    from pathlib import Path

    from pipeline_crew import Crew


def cached(engine: Any, **params: Any) -> LlmCacheMiddleware:
    """The engine with a cache around it."""
    return LlmCacheMiddleware.wrap(engine, params)


def lock_files() -> list[str]:
    """What is left of flights."""
    folder = cache_files()[0].with_name("llm_cache.sqlite3.flights")
    return [path.name for path in folder.iterdir()] if folder.exists() else []


def test_threads_make_one_call() -> None:
    """Eight at once, whether they share a cache or have one each."""
    gate = threading.Event()
    leaf = Leaf(gate=gate)
    caches = [cached(leaf) for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(caches[number % 4].invoke, CALL) for number in range(8)]
        until(lambda: leaf.begun == 1)
        gate.set()
        sources = sorted(call.result().source for call in calls)
    assert (leaf.begun, sources) == (1, ["cache"] * 7 + ["live"])
    assert lock_files() == []


def test_tasks_make_one_call() -> None:
    """And their loop goes on meanwhile."""
    begun: list[int] = []

    class Slow:
        model, messages = "m", [{"role": "user", "content": "?"}]

        async def ainvoke(self, _: Any) -> Any:
            begun.append(1)
            for _ in range(50):
                await asyncio.sleep(0.001)
            return foreign()

    async def main() -> list[str]:
        cache = cached(Slow())
        return [getattr(result, "source", "live") for result in await asyncio.gather(*[cache.ainvoke(CALL) for _ in range(8)])]

    assert sorted(asyncio.run(main())) == ["cache"] * 7 + ["live"]
    assert len(begun) == 1


def test_processes_make_one_call(crew: Crew, provider: Provider) -> None:
    """Four processes ask the same at the same time: the provider hears it once; others are not kept waiting."""
    gate = threading.Event()
    provider.reply = lambda body: Reply(gate=None if body["messages"][0]["content"] == "other" else gate)
    same = [crew.start("ask", url=provider.url, question="same", cache={}) for _ in range(4)]
    other = crew.start("ask", url=provider.url, question="other", cache={})
    for child in [*same, other]:
        assert child.hear() == "ready"
    for child in same:
        child.go()
    until(lambda: provider.count == 1)
    other.go()
    assert other.hear() == ["four", "live"]
    gate.set()
    answers = [child.hear() for child in same]
    assert sorted(answers) == [["four", "cache"]] * 3 + [["four", "live"]]
    assert provider.count == 2
    for child in [*same, other]:
        child.end()


def test_switched_off_every_call_is_made(crew: Crew, provider: Provider) -> None:
    """Repeats that are meant as samples do not collapse: all are inside at the same time."""
    gate = threading.Event()
    provider.reply = Reply(gate=gate)
    children = [crew.start("ask", url=provider.url, question="same", cache={"single_flight": False}) for _ in range(2)]
    for child in children:
        assert child.hear() == "ready"
    for child in children:
        child.go()
    until(lambda: provider.inside == 2)
    gate.set()
    assert [child.hear()[1] for child in children] == ["live", "live"]


def test_a_killed_leader_leads_no_more(crew: Crew, provider: Provider) -> None:
    """Its follower takes over, asks, and gets its answer."""
    gate = threading.Event()
    provider.reply = Reply(gate=gate)
    leader = crew.start("ask", url=provider.url, question="same", cache={})
    follower = crew.start("ask", url=provider.url, question="same", cache={})
    for child in (leader, follower):
        assert child.hear() == "ready"
    leader.go()
    until(lambda: provider.inside == 1)
    follower.go()
    leader.kill()
    until(lambda: provider.count == 2, "the follower asks")
    gate.set()
    assert follower.hear() == ["four", "live"]
    follower.end()


def test_a_stopped_leader_is_waited_for_so_long(crew: Crew, provider: Provider) -> None:
    """After `flight_timeout_s` the call is made after all."""
    gate = threading.Event()
    provider.reply = Reply(gate=gate)
    leader = crew.start("ask", url=provider.url, question="same", cache={})
    assert leader.hear() == "ready"
    leader.go()
    until(lambda: provider.inside == 1)
    leader.process.send_signal(signal.SIGSTOP)
    gate.set()
    engine = asked(OpenAiEngine("m", api_base=provider.url), "same")
    assert cached(engine, flight_timeout_s=0.05).invoke(CALL).source == "live"
    leader.process.send_signal(signal.SIGCONT)
    assert leader.hear() == ["four", "live"]
    leader.end()
    engine.close()


@pytest.mark.parametrize("answer", [foreign(next_step="TOOL_CALL"), RuntimeError("no")])
def test_followers_of_nothing_go_at_once(answer: Any) -> None:
    """A leader that brings nothing to store sets all its followers free: they call side by side, not one after the other."""
    gates = [threading.Event(), threading.Event()]

    class Engine(Leaf):
        def invoke(self, io: Any) -> Any:
            self._gate = gates[min(self.begun, 1)]
            return super().invoke(io)

    leaf = Engine(answer)
    cache = cached(leaf)
    with ThreadPoolExecutor(5) as pool:
        leader = pool.submit(cache.invoke, CALL)
        until(lambda: leaf.begun == 1)
        followers = [pool.submit(cache.invoke, CALL) for _ in range(4)]
        folder = Flights(cache_files()[0].with_name("llm_cache.sqlite3.flights"))
        key = lock_files()[0].removesuffix(".lock")
        until(lambda: folder.try_to_lead(key) is None)
        gates[0].set()
        until(lambda: leaf.begun == 5, "all four call at once")
        gates[1].set()
        for call in (leader, *followers):
            assert call.exception() is answer or call.result() is answer
    assert lock_files() == []


def test_a_cancelled_leader_hands_on_the_lead() -> None:
    """The next one leads, and the others still follow."""
    gates = [threading.Event(), threading.Event()]
    begun: list[int] = []

    class Slow:
        model, messages = "m", [{"role": "user", "content": "?"}]

        async def ainvoke(self, _: Any) -> Any:
            begun.append(1)
            gate = gates[len(begun) - 1]
            await until_later(gate.is_set)
            return foreign()

    async def main() -> None:
        cache = cached(Slow())
        leader = asyncio.create_task(cache.ainvoke(CALL))
        await until_later(lambda: begun)
        followers = [asyncio.create_task(cache.ainvoke(CALL)) for _ in range(3)]
        leader.cancel()
        await until_later(lambda: len(begun) == 2)
        gates[1].set()
        results = await asyncio.gather(*followers)
        assert sorted(getattr(result, "source", "live") for result in results) == ["cache", "cache", "live"]

    asyncio.run(main())
    assert len(begun) == 2


def test_a_cancelled_follower_leaves_no_trace() -> None:
    """The leader is not disturbed."""
    gate = threading.Event()
    leaf = Leaf(gate=gate)
    cache = cached(leaf)

    async def follow() -> None:
        call = asyncio.create_task(cache.ainvoke(CALL))
        for _ in range(10):
            await asyncio.sleep(0.005)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    with ThreadPoolExecutor(1) as pool:
        leader = pool.submit(cache.invoke, CALL)
        until(lambda: leaf.begun == 1)
        asyncio.run(follow())
        gate.set()
        assert leader.result().text == "four"
    assert leaf.begun == 1


def test_a_dropped_stream_hands_on_the_lead(provider: Provider) -> None:
    """Read, closed or dropped: the next identical call is not kept waiting."""
    provider.reply = Reply(text="one two", gate=threading.Event())
    engine = asked(OpenAiEngine("m", api_base=provider.url))
    cache = cached(engine)
    for number in range(3):
        stream = cache.stream(CALL)
        assert provider.count == number + 1
        del stream
    engine.close()
    assert lock_files() == []


def test_who_holds_a_slot_follows_nobody() -> None:
    """The leader may be waiting for that very slot: at a cap of one they would wait for each other."""
    leaf = Leaf()
    stack = cached(LlmSchedulerMiddleware.wrap(leaf, {"max_in_flight": 1, "timeout_s": 30}))
    with ThreadPoolExecutor(1) as pool:
        with llm_slot(provider="p", model="m"):
            leader = pool.submit(stack.invoke, CALL)
            until(lambda: len(lock_files()) == 1)
            assert stack.invoke(CALL).source == "live"
        assert leader.result().text == "four"
    assert in_flight() == 0


def test_a_forked_child_does_not_lead_for_its_parent(tmp_path: Path) -> None:
    """What a child inherits neither keeps the lead after its parent's end of it, nor ends it."""
    flights = Flights(tmp_path)
    flight = flights.try_to_lead("k")
    assert flight
    ended, tell = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os.close(tell)
        os.read(ended, 1)
        os._exit(0 if flights.try_to_lead("k") else 1)
    assert flights.try_to_lead("k") is None
    flight.end()
    flight.end()
    os.close(tell)
    assert os.waitpid(child, 0)[1] == 0
    os.close(ended)
    assert flights.try_to_lead("k")


def test_the_lead_goes_with_the_process(tmp_path: Path, crew: Crew) -> None:
    """`kill -9` frees it at once."""
    flights = Flights(tmp_path)
    leader = crew.start("lead", folder=tmp_path, key="k")
    assert leader.hear() is True
    assert flights.try_to_lead("k") is None
    leader.kill()
    assert flights.try_to_lead("k")


def test_a_lead_is_one_of_many(tmp_path: Path) -> None:
    """While files are made and deleted all the time, never do two lead the same call."""
    flights = Flights(tmp_path)
    inside: list[int] = []
    crowds: list[int] = []

    def lead(_: int) -> None:
        for _ in range(50):
            flight = flights.try_to_lead("k")
            if flight:
                inside.append(1)
                crowds.append(len(inside))
                inside.pop()
                flight.end()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lead, range(8)))
    assert max(crowds) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_knob_is_a_knob() -> None:
    """On by default."""
    assert read_params({}).single_flight
    assert not read_params({"single_flight": False}).single_flight
