"""The cache: what is answered out of it, what gets into it, and what it survives."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import signal
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pipeline_provider import Provider, Reply, until_later
from pipeline_support import CALL, Leaf, asked, foreign, granted

from llm_sched import ConfigError, LlmSchedulerMiddleware, SlotTimeout
from llm_sched.pipeline.cache import LlmCacheMiddleware
from llm_sched.pipeline.cache_store import CacheError, CacheStore, Entry, cache_files
from llm_sched.pipeline.engine_mock import MockEngine
from llm_sched.pipeline.engine_openai import OpenAiEngine
from llm_sched.pipeline.exchange import LlmRequest, LlmResult, ToolCall

if TYPE_CHECKING:
    from pipeline_crew import Crew


def cached(engine: Any, **params: Any) -> LlmCacheMiddleware:
    """The engine with a cache around it."""
    return LlmCacheMiddleware.wrap(engine, params)


def host_key(model: str, messages: list[dict[str, str]]) -> str:
    """The host's key, written down from its contract."""
    asked = {"model": model, "messages": messages, "tools": []}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


QUESTION = [{"role": "user", "content": "What is 2+2?"}]


def test_the_second_time_nobody_is_asked() -> None:
    """In any of the four ways; the answer has the number of the request that it answers."""
    leaf = Leaf(LlmResult(correlation_id=1, text="four", usage={"total_tokens": 4}, finish_reason="stop"))
    cache = cached(leaf)
    assert cache.invoke(CALL).source == "live"
    second = LlmRequest(correlation_id=7)

    async def tasks() -> list[Any]:
        return [await cache.ainvoke(second), await (await cache.astream(second)).result()]

    for result in [cache.invoke(second), cache.stream(second).result(), *asyncio.run(tasks())]:
        assert (result.text, result.source, result.correlation_id) == ("four", "cache", 7)
        assert (result.response_kind, result.next_step, result.usage) == ("MODEL_TEXT", "STOP", {"total_tokens": 4})
    assert leaf.begun == 1


def test_hits_need_no_slot(crew: Crew, provider: Provider) -> None:
    """While another process holds every slot, hits are answered and only a miss waits."""
    engine = asked(OpenAiEngine("m", api_base=provider.url))
    cache = cached(LlmSchedulerMiddleware.wrap(engine, {"max_in_flight": 2, "timeout_s": 0}))
    cache.invoke(CALL)
    holder = crew.start("hold_slots", provider=provider.host, model="m", count=2)
    assert holder.hear() == "held"
    assert [cache.invoke(CALL).source for _ in range(5)] == ["cache"] * 5
    asked(engine, "something new")
    with pytest.raises(SlotTimeout):
        cache.invoke(CALL)
    holder.go()
    holder.end()
    assert cache.invoke(CALL).source == "live"
    assert provider.count == 2
    engine.close()


@pytest.mark.parametrize(
    "result",
    [
        foreign(response_kind="ERROR", text="no"),
        foreign(response_kind="TOOL_RESULT"),
        foreign(next_step="TOOL_CALL"),
        foreign(next_step="LLM_CALL"),
        foreign(text=""),
        foreign(text=None),
        foreign(tool_calls=[{"id": "t"}]),
        foreign(tool_name="add"),
        foreign(finish_reason="length"),
        foreign(finish_reason="content_filter"),
        foreign(finish_reason="incomplete"),
        LlmResult(correlation_id=1, next_step="TOOL_CALL", tool_calls=(ToolCall(id="t", name="n", arguments="{}"),)),
    ],
)
@pytest.mark.parametrize("single_flight", [True, False])
def test_only_final_answers_are_stored(result: Any, single_flight: bool) -> None:  # noqa: FBT001 - a case
    """No error, no tool call, nothing cut off, nothing empty."""
    leaf = Leaf(result)
    cache = cached(leaf, single_flight=single_flight)
    assert cache.invoke(CALL) is result
    assert asyncio.run(cache.ainvoke(CALL)) is result
    assert cache.stream(CALL).result() is result
    assert leaf.begun == 3


def test_errors_are_not_stored() -> None:
    """The next call is made, and stored."""
    leaf = Leaf(RuntimeError("no"), RuntimeError("no"), RuntimeError("no"), "four")
    cache = cached(leaf)
    for call in (cache.invoke, cache.stream, lambda io: asyncio.run(cache.ainvoke(io))):
        with pytest.raises(RuntimeError):
            call(CALL)
    assert [cache.invoke(CALL).source for _ in range(2)] == ["live", "cache"]


@pytest.mark.parametrize(
    ("params", "request_", "facts"),
    [
        ({"enabled": False}, CALL, {}),
        ({"cacheable": False}, CALL, {}),
        ({}, LlmRequest(cacheable=False), {}),
        ({}, LlmRequest(destructive=True), {}),
        ({}, CALL, {"cacheable": False}),
        ({}, LlmRequest(op="TOOL_CALL"), {}),
        ({}, CALL, {"messages": None}),
    ],
)
def test_what_is_not_to_be_cached_is_not(params: dict[str, Any], request_: LlmRequest, facts: dict[str, Any]) -> None:
    """By the cache's own policy, the request's, the engine's, or because nobody can tell what was asked: live each time."""
    leaf = Leaf(**facts)
    cache = cached(leaf, **params)
    for _ in range(2):
        assert cache.invoke(request_).source == "live"
        assert asyncio.run(cache.ainvoke(request_)).source == "live"
        assert cache.stream(request_).result().source == "live"
        assert asyncio.run(cache.astream(request_)) is not None
    assert leaf.begun == 8
    assert not cache_files()[0].exists()


def test_a_question_is_everything_that_is_asked() -> None:
    """Messages, model, tools, settings, provider: any other one is another question."""
    base: dict[str, Any] = {
        "messages": QUESTION,
        "model": "m",
        "tools": [],
        "temperature": None,
        "max_tokens": None,
        "provider": "p",
    }
    others: dict[str, Any] = {
        "messages": [{"role": "user", "content": "3+3?"}],
        "model": "n",
        "tools": [{"type": "function"}],
        "temperature": 0.0,
        "max_tokens": 5,
        "provider": "q",
    }
    for facts in [base, *({**base, name: value} for name, value in others.items())]:
        leaf = Leaf(**facts)
        assert [cached(leaf).invoke(CALL).source for _ in range(2)] == ["live", "cache"]
        assert leaf.begun == 1


def test_a_foreign_engine_is_known_by_its_preview() -> None:
    """One that has no `messages` tells what it would send."""
    said = ["one"]
    leaf = Leaf(foreign(), messages=None, exchange_preview=lambda op: f"{op} {said[0]}")
    cache = cached(leaf)
    assert cache.invoke(CALL).text == cache.invoke(CALL).text == "four"
    said[0] = "two"
    cache.invoke(CALL)
    assert leaf.begun == 2


def test_a_hit_is_heard_like_an_answer() -> None:
    """`on_text` of the leaf hears the text, so that a chat prints hits too."""
    engine = asked(MockEngine())
    cache = cached(engine)
    heard: list[str] = []
    engine.on_text = heard.append
    for _ in range(2):
        cache.invoke(CALL)
        asyncio.run(cache.ainvoke(CALL))
    assert heard == ["mock: What is 2+2?"] * 4


def test_a_stream_is_stored_when_it_was_read(provider: Provider) -> None:
    """To its end; one that was closed early is not."""
    provider.reply = Reply(text="one two")
    engine = asked(OpenAiEngine("m", api_base=provider.url))
    cache = cached(engine)
    with cache.stream(CALL) as stream:
        next(stream)
    assert list(cache.stream(CALL)) == ["one ", "two "]
    assert list(cache.stream(CALL)) == ["one two "]
    assert cache.invoke(CALL).source == "cache"

    async def main() -> list[list[str]]:
        asked(engine, "and now?")
        async with await cache.astream(CALL) as stream:
            await anext(stream)
        read = [[piece async for piece in await cache.astream(CALL)] for _ in range(2)]
        await engine.aclose()
        return read

    assert asyncio.run(main()) == [["one ", "two "], ["one two "]]
    assert provider.count == 4
    engine.close()


def test_the_host_s_file_is_taken_in_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers are hits; it is not written to; what the host adds later is found by the next cache."""
    theirs = tmp_path / "shared" / "llm_cache.json"
    theirs.parent.mkdir()
    monkeypatch.setenv("MAS_LLM_CACHE", str(theirs))
    entries: dict[str, Any] = {
        host_key("m", QUESTION): "from the host",
        host_key("m", [{"role": "user", "content": "b"}]): {
            "content": "with usage",
            "usage": {"total_tokens": 3},
            "source": "live",
        },
        host_key("m", [{"role": "user", "content": "c"}]): {"content": "", "tool_calls": [{"id": "t"}]},
        host_key("m", [{"role": "user", "content": "d"}]): {"text": "cut", "finish_reason": "length"},
        "odd": 5,
    }
    theirs.write_text(json.dumps(entries))
    before = theirs.read_bytes()
    engine = asked(MockEngine("m"))
    cache = cached(engine)
    assert cache.invoke(CALL).text == "from the host"
    assert (cache.invoke(asked_for := CALL).source, asked_for) == ("cache", CALL)
    asked(engine, "b")
    assert (cache.invoke(CALL).text, cache.invoke(CALL).usage) == ("with usage", {"total_tokens": 3})
    for question in ("c", "d", "e"):
        asked(engine, question)
        assert cache.invoke(CALL).text == f"mock: {question}"
    assert theirs.read_bytes() == before
    assert (tmp_path / "shared" / "llm_cache.sqlite3").exists()

    theirs.write_text(json.dumps({host_key("m", [{"role": "user", "content": "later"}]): "added"}))
    asked(engine, "later")
    assert cached(engine).invoke(CALL).text == "added"
    asked(engine)
    assert cached(engine).invoke(CALL).text == "from the host"


@pytest.mark.parametrize("content", [b'{"torn": "fi', b"\xff\xfe", b"[1, 2]", b""])
def test_a_damaged_file_of_the_host_is_no_obstacle(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Its own writers tear it; a warning names it, and the cache goes on without."""
    theirs = cache_files()[1]
    assert theirs
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(content)
    cache = cached(Leaf())
    assert [cache.invoke(CALL).source for _ in range(2)] == ["live", "cache"]
    if content != b"[1, 2]":
        assert f"cannot read the cache {theirs}" in caplog.text


def test_where_the_store_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the host's file, with the suffix `.sqlite3`; a path with such a suffix is the store."""
    root = Path(os.environ["XDG_CACHE_HOME"]) / "mas"
    assert cache_files() == (root / "llm_cache.sqlite3", root / "llm_cache.json")
    monkeypatch.setenv("MAS_LLM_CACHE", "~/c.json")
    assert cache_files() == (Path.home() / "c.sqlite3", Path.home() / "c.json")
    assert cache_files(tmp_path / "x.db") == (tmp_path / "x.db", None)
    monkeypatch.delenv("MAS_LLM_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_files()[0] == Path.home() / ".cache" / "mas" / "llm_cache.sqlite3"


def test_the_store_is_its_owner_s(tmp_path: Path) -> None:
    """Answers are nobody else's business."""
    cached(Leaf(), cache_path=str(tmp_path / "new" / "c.json")).invoke(CALL)
    assert stat.S_IMODE((tmp_path / "new" / "c.sqlite3").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_neither_questions_nor_keys_are_in_the_store(provider: Provider) -> None:
    """Only answers are, under digests."""
    engine = asked(OpenAiEngine("m", api_base=provider.url), "my private question")
    cache = cached(engine)
    cache.invoke(CALL)
    cache.close()
    data = cache_files()[0].read_bytes()
    assert b"four" in data
    assert b"private" not in data
    assert b"sk-secret" not in data
    engine.close()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"enable": True}, "unknown knob 'enable' .c.yaml.: did you mean 'enabled'?"),
        ({"zz": True}, "the knobs are enabled, "),
        ({"enabled": "yes"}, r"enabled='yes' \(c.yaml\): Expected `bool`"),
        ({"cache_path": 5}, "cache_path=5 .*Expected `str | null`"),
        ({"flight_timeout_s": -1}, "flight_timeout_s=-1 .*at least 0"),
        ({"flight_timeout_s": float("nan")}, "flight_timeout_s=nan .*at least 0"),
    ],
)
def test_bad_parameters_are_named(params: dict[str, Any], message: str) -> None:
    """Which knob, which value, where from, what instead."""
    with pytest.raises(ConfigError, match=message):
        LlmCacheMiddleware.wrap(Leaf(), params, source="c.yaml")


def test_a_store_that_is_none_is_one_clear_error(tmp_path: Path) -> None:
    """It names the file and says what to do; nothing is overwritten."""
    path = tmp_path / "c.sqlite3"
    path.write_bytes(b"this is somebody's diary, not a data base at all" * 100)
    with pytest.raises(CacheError, match=r"cannot use the cache .*c.sqlite3: .*; set cache_path or MAS_LLM_CACHE"):
        cached(Leaf(), cache_path=str(path)).invoke(CALL)
    assert path.read_bytes().startswith(b"this is somebody's diary")
    with pytest.raises(CacheError, match="File exists"):
        cached(Leaf(), cache_path=str(path / "below.db")).invoke(CALL)


def test_a_folder_that_is_none_is_one_clear_error(tmp_path: Path) -> None:
    """Where flights cannot be led, it says which knob does without."""
    (tmp_path / "c.sqlite3.flights").write_text("in the way")
    with pytest.raises(CacheError, match="or single_flight: false"):
        cached(Leaf(), cache_path=str(tmp_path / "c.json")).invoke(CALL)
    assert cached(Leaf(), cache_path=str(tmp_path / "c.json"), single_flight=False).invoke(CALL).text == "four"


def test_calls_of_a_blocking_engine_do_not_keep_hits_waiting() -> None:
    """A loop has few threads of its own; a hundred live calls take none of them."""
    gate = threading.Event()
    leaf, busy = Leaf(), Leaf(gate=gate, cacheable=False)
    hits, calls = cached(leaf), cached(busy)

    async def main() -> None:
        await hits.ainvoke(CALL)
        live = [asyncio.create_task(calls.ainvoke(CALL)) for _ in range(100)]
        await until_later(lambda: busy.begun == 100)
        assert (await hits.ainvoke(CALL)).source == "cache"
        gate.set()
        await asyncio.gather(*live)

    asyncio.run(main())


def test_a_newer_store_is_left_alone(tmp_path: Path) -> None:
    """Upgrade, it says."""
    path = tmp_path / "c.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(CacheError, match="written by a newer llm-sched"):
        CacheStore(path).get("k")


def test_an_answer_that_cannot_be_stored_is_not_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It was paid for: it is returned, and a warning says why the next one will be paid for, too."""
    path = tmp_path / "c.sqlite3"
    CacheStore(path).get("k")
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE entries")
        connection.execute("CREATE VIEW entries AS SELECT 'k' AS key, 't' AS text, '{}' AS usage")
    connection.close()
    assert cached(Leaf(), cache_path=str(path)).invoke(CALL).text == "four"
    assert "an answer was not cached" in caplog.text
    lonely = cached(Leaf(foreign(text="half a \ud83d pair")), cache_path=str(tmp_path / "d.db"))
    assert lonely.invoke(CALL).text == "half a \ud83d pair"


def test_threads_lose_nothing(tmp_path: Path) -> None:
    """Many threads on one store, many stores on one file."""
    stores = [CacheStore(tmp_path / "c.db") for _ in range(4)]

    def write(number: int) -> None:
        stores[number % 4].put(str(number), Entry(f"answer {number}", {"n": number}))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(200)))
    assert [stores[0].get(str(number)) for number in range(200)] == [Entry(f"answer {n}", {"n": n}) for n in range(200)]


def test_forty_processes_lose_nothing(tmp_path: Path, crew: Crew) -> None:
    """Forty processes that begin at once write 25 entries each; a thousand are there, and the file is whole."""
    path = tmp_path / "c.sqlite3"
    assert crew.start("write", path=path, writers=40, entries=25).hear() == [0] * 40
    store = CacheStore(path)
    for writer in range(40):
        for number in range(25):
            assert store.get(f"{writer}/{number}") == Entry(f"answer {number} of {writer}", {"total_tokens": number})
    store.close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("SELECT count(*) FROM entries").fetchone() == (1000,)
    connection.close()


def test_a_forked_child_opens_the_store_itself(tmp_path: Path) -> None:
    """While a thread of the parent is in the middle of using it."""
    store = CacheStore(tmp_path / "c.db")
    store.put("k", Entry("of the parent", {}))
    inside, go_on = threading.Event(), threading.Event()

    def use() -> None:
        with store._connected():  # noqa: SLF001 - the very middle of it
            inside.set()
            go_on.wait(30)

    thread = threading.Thread(target=use)
    thread.start()
    assert inside.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        store.put("c", Entry("of the child", {}))
        os._exit(0 if store.get("k") == Entry("of the parent", {}) else 1)
    assert os.waitpid(child, 0)[1] == 0
    go_on.set()
    thread.join()
    assert store.get("c") == Entry("of the child", {})


def test_a_scheduler_outside_the_cache_works_as_written() -> None:
    """Each hit then costs a slot; nothing hangs at a cap of one."""
    leaf = Leaf()
    stack = LlmSchedulerMiddleware.wrap(cached(leaf), {"max_in_flight": 1, "timeout_s": 0})
    assert [stack.invoke(CALL).source for _ in range(3)] == ["live", "cache", "cache"]
    assert granted() == {"p/m": 3}


def test_a_warning_is_logged_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of the cache writes to the terminal."""
    cached(Leaf()).invoke(CALL)
    assert logging.getLogger("llm_sched").handlers == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("damage", ["{", "[]", b"{}"])
def test_a_damaged_entry_is_none(tmp_path: Path, damage: object) -> None:
    """It is asked for again, and stored anew."""
    path = tmp_path / "c.db"
    store = CacheStore(path)
    store.put("k", Entry("four", {"prompt_tokens": 1}))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE entries SET usage = ?", (damage,))
        connection.commit()
    assert store.get("k") is None
    store.put("k", Entry("five", {}))
    assert store.get("k") == Entry("five", {})
    store.close()
