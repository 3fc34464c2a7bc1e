"""The engine on the official SDK, against a provider that says what the test wants."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pipeline_provider import Provider, Reply, until, until_later
from pipeline_support import CALL, asked, in_flight, waiting

from llm_sched import ConfigError, LlmSchedulerMiddleware, llm_slot
from llm_sched.pipeline.engine_openai import OpenAiEngine
from llm_sched.pipeline.exchange import LlmRequest, LlmResult, ProviderError, RetryableError, ToolCall

CALLS = [{"id": "t1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


@pytest.fixture
def engine(provider: Provider) -> Any:
    """An engine with a question."""
    engine = asked(OpenAiEngine("m", api_base=provider.url))
    yield engine
    engine.close()


def in_task(engine: OpenAiEngine, how: Any) -> Any:
    """Run something in a task, and close its connections."""

    async def main() -> Any:
        try:
            return await how()
        finally:
            await engine.aclose()

    return asyncio.run(main())


async def _read(engine: Any) -> LlmResult:
    async with await engine.astream(CALL) as stream:
        return await stream.result()


def every_way(engine: OpenAiEngine) -> list[LlmResult]:
    """The same call made in all four ways."""
    return [
        engine.invoke(CALL),
        in_task(engine, lambda: engine.ainvoke(CALL)),
        engine.stream(CALL).result(),
        in_task(engine, lambda: _read(engine)),
    ]


def test_an_answer_is_a_final_result(engine: OpenAiEngine, provider: Provider) -> None:
    """Text, finish reason and, where the provider counts them, tokens; the request is what the engine says."""
    engine.temperature, engine.max_tokens, engine.tools = 0.5, 9, [TOOL]
    for result in every_way(engine):
        assert (result.correlation_id, result.response_kind, result.next_step) == (1, "MODEL_TEXT", "STOP")
        assert (result.text.strip(), result.finish_reason, result.source) == ("four", "stop", "live")
    assert engine.invoke(CALL).usage == {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    sent = provider.bodies[0]
    assert sent == {"model": "m", "messages": engine.messages, "temperature": 0.5, "max_tokens": 9, "tools": [TOOL]}
    assert json.loads(engine.exchange_preview("LLM_CALL")) == {"op": "LLM_CALL", **sent}
    assert provider.keys[0] == "Bearer sk-secret-of-the-test"


def test_tool_calls_are_put_together(engine: OpenAiEngine, provider: Provider) -> None:
    """Also when they are streamed letter by letter."""
    provider.reply = Reply(text="", tool_calls=CALLS, finish_reason="tool_calls")
    for result in every_way(engine):
        assert result.next_step == "TOOL_CALL"
        assert result.tool_calls == (ToolCall(id="t1", name="add", arguments='{"a": 2}'),)
        assert [call.as_message_part() for call in result.tool_calls] == CALLS


def test_a_cut_off_answer_says_so(engine: OpenAiEngine, provider: Provider) -> None:
    """`length` from the provider; `incomplete` is ours for a stream that never said why it ended."""
    provider.reply = Reply(finish_reason="length")
    assert [result.finish_reason for result in every_way(engine)] == ["length"] * 4
    provider.reply = Reply(finish_reason=None)
    assert [result.finish_reason for result in every_way(engine)] == ["", "", "incomplete", "incomplete"]


def test_text_is_passed_on_while_it_arrives(engine: OpenAiEngine, provider: Provider) -> None:
    """The first piece is heard before the last is sent; the result is the whole."""
    gate = threading.Event()
    provider.reply = Reply(text="one two", gate=gate)
    heard: list[str] = []

    def hear(piece: str) -> None:
        heard.append(piece)
        if len(heard) % 2 == 0:
            assert provider.inside == 1
            gate.set()

    engine.on_text = hear
    assert engine.invoke(CALL).text == "one two "
    gate.clear()
    assert in_task(engine, lambda: engine.ainvoke(CALL)).text == "one two "
    assert heard == ["one ", "two "] * 2


def test_a_listener_that_raises_ends_the_call(engine: OpenAiEngine, provider: Provider) -> None:
    """And hangs up."""

    def refuse(piece: str) -> None:
        raise ZeroDivisionError(piece)

    provider.reply = Reply(text="one two", gate=threading.Event())
    engine.on_text = refuse
    with pytest.raises(ZeroDivisionError):
        engine.invoke(CALL)
    with pytest.raises(ZeroDivisionError):
        in_task(engine, lambda: engine.ainvoke(CALL))
    until(lambda: provider.inside == 0)


def test_streams_can_be_closed_and_read_again(engine: OpenAiEngine, provider: Provider) -> None:
    """What was read of a closed stream is there; there is no more."""
    provider.reply = Reply(text="one two three", gate=threading.Event())
    with engine.stream(CALL) as stream:
        assert next(stream) == "one "
    assert list(stream) == []
    assert (stream.result().text, stream.result().finish_reason) == ("one ", "incomplete")

    async def main() -> None:
        async with await engine.astream(CALL) as stream:
            assert await anext(stream) == "one "
        assert [piece async for piece in stream] == []
        assert (await stream.result()).text == "one "

    in_task(engine, main)


def test_other_operations_are_refused(engine: OpenAiEngine, provider: Provider) -> None:
    """As an error that is returned."""
    result = engine.invoke(LlmRequest(op="TOOL_CALL", correlation_id=4))
    assert (result.response_kind, result.correlation_id) == ("ERROR", 4)
    assert in_task(engine, lambda: engine.ainvoke(LlmRequest(op="TOOL_CALL"))).response_kind == "ERROR"
    assert provider.count == 0


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (Reply(status=401, body=b'{"error": {"message": "bad key"}}'), ProviderError, "status 401: bad key; is the key right?"),
        (Reply(status=404, body=b'{"error": {"message": "no m"}}'), ProviderError, "404: no m; are base URL and model right?"),
        (Reply(status=400, body=b'{"error": {"message": "what?"}}'), ProviderError, "status 400: what?"),
        (Reply(status=408, body=b"late"), RetryableError, "status 408"),
        (Reply(status=409, body=b"locked"), RetryableError, "status 409"),
        (Reply(status=429, body=b"{}"), RetryableError, "status 429"),
        (Reply(status=500, body=b"oops"), RetryableError, "status 500"),
        (Reply(status=504, body=b"<html>"), RetryableError, "status 504"),
        (Reply(status=400, headers={"x-should-retry": "true"}, body=b"{}"), RetryableError, "status 400"),
        (Reply(status=503, headers={"x-should-retry": "false"}, body=b"{}"), ProviderError, "status 503"),
        (Reply(status=429, body=b'{"error": {"message": "broke", "code": "insufficient_quota"}}'), ProviderError, "broke"),
        (Reply(body=b"<html>hello</html>"), ProviderError, "no JSON"),
        (Reply(body=b'{"hello": 1}'), ProviderError, "no chat completion"),
        (Reply(body=b"[]"), ProviderError, "no chat completion|no JSON"),
        (Reply(body=b'{"choices": []}'), ProviderError, "no chat completion"),
        (Reply(body=b'{"choices": [{"index": 0}]}'), ProviderError, "no chat completion"),
    ],
)
def test_failures_are_one_sentence(engine: OpenAiEngine, provider: Provider, reply: Reply, kind: type, message: str) -> None:
    """What may pass is told from what may not; each is one request."""
    provider.reply = reply
    for call in (lambda: engine.invoke(CALL), lambda: in_task(engine, lambda: engine.ainvoke(CALL))):
        with pytest.raises(ProviderError, match=message) as caught:
            call()
        assert type(caught.value) is kind
        assert caught.value.status == (reply.status if reply.status != 200 else 0)
    assert provider.count == 2


@pytest.mark.parametrize("body", [b"data: {nonsense\n\n", b'data: {"error": {"message": "out of memory"}}\n\n', b"data: 5\n\n"])
def test_a_malformed_stream_is_a_failure(engine: OpenAiEngine, provider: Provider, body: bytes) -> None:
    """Or, where nothing can be made of it, an incomplete answer; never somebody else's exception."""
    provider.reply = Reply(body=body)
    for way in (lambda: engine.stream(CALL).result(), lambda: in_task(engine, lambda: _read(engine))):
        try:
            assert way().finish_reason == "incomplete"
        except ProviderError:
            continue


def test_a_connection_that_breaks_may_come_back(engine: OpenAiEngine, provider: Provider) -> None:
    """In the middle of an answer, or before it."""
    provider.reply = Reply(text="one two", cut=True)
    for way in (lambda: engine.stream(CALL).result(), lambda: in_task(engine, lambda: _read(engine))):
        with pytest.raises(RetryableError, match="cannot be reached, or hung up"):
            way()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        lost = asked(OpenAiEngine("m", api_base=f"http://127.0.0.1:{nobody.getsockname()[1]}/v1"))
        with pytest.raises(RetryableError, match=r"m at 127.0.0.1:[0-9]+ cannot be reached"):
            lost.invoke(CALL)
        lost.close()


def test_a_silent_provider_is_given_up(provider: Provider) -> None:
    """After `timeout_s` of silence."""
    provider.reply = Reply(before=threading.Event())
    engine = asked(OpenAiEngine("m", api_base=provider.url, timeout_s=0.05))
    for way in (lambda: engine.invoke(CALL), lambda: in_task(engine, lambda: _read(engine))):
        with pytest.raises(RetryableError, match="did not answer in time"):
            way()
    engine.close()
    until(lambda: provider.inside == 0)


def test_the_request_s_timeout_starts_when_the_slot_is_there(provider: Provider) -> None:
    """A wait for a slot that is longer than the request's timeout costs the request nothing."""
    engine = asked(OpenAiEngine("m", api_base=provider.url, timeout_s=0.5))
    layer = LlmSchedulerMiddleware.wrap(engine, {"max_in_flight": 1, "max_retries": 0})
    with ThreadPoolExecutor() as pool:
        with llm_slot(provider=provider.host, model="m"):
            call = pool.submit(layer.invoke, CALL)
            until(lambda: waiting() == 1)
            threading.Event().wait(0.8)  # no synchronisation: time itself is what is tested
        assert call.result().text == "four"
    engine.close()
    assert in_flight() == 0


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch, provider: Provider) -> None:
    """By its variable; and none is needed where none is asked for."""
    monkeypatch.delenv("OPENAI_API_KEY")
    engine = asked(OpenAiEngine("m", api_base=provider.url, api_key_env="MY_KEY"))
    with pytest.raises(ConfigError, match="set the environment variable MY_KEY"):
        engine.invoke(CALL)
    with llm_slot(provider=provider.host, model="m"), pytest.raises(ConfigError, match="MY_KEY"):
        LlmSchedulerMiddleware.wrap(engine, {"max_in_flight": 1, "timeout_s": 0}).invoke(CALL)  # before it waits for a slot
    free = asked(OpenAiEngine("m", api_base=provider.url, api_key_env=None))
    assert free.invoke(CALL).text == "four"
    free.close()


def test_the_key_is_never_told(engine: OpenAiEngine, provider: Provider) -> None:
    """Not in the message, not in the traceback, also when the provider sends it back."""
    provider.reply = Reply(status=401, body=b'{"error": {"message": "wrong: sk-secret-of-the-test"}}')
    with pytest.raises(ProviderError, match=r"wrong: \*\*\*") as caught:
        engine.invoke(CALL)
    assert "sk-secret" not in "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))


def test_the_base_url_is_the_sdk_s_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Argument, else `OPENAI_BASE_URL`, else OpenAI's; mappings name the provider's model."""
    assert OpenAiEngine("m").api_base == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://h/v1")
    assert OpenAiEngine("m").api_base == "http://h/v1"
    assert OpenAiEngine("gpt", mappings={"gpt": "azure/gpt"}).model == "azure/gpt"


def test_siblings_share_connections_and_no_words(engine: OpenAiEngine, provider: Provider) -> None:
    """A conversation each."""
    engine.temperature = 0.1
    other = asked(engine.sibling("n"), "and 3+3?")
    assert (other.invoke(CALL).text, provider.bodies[0]["model"], provider.bodies[0]["temperature"]) == ("four", "n", 0.1)
    assert engine.messages[0]["content"] == "What is 2+2?"


def test_a_dropped_engine_closes_its_connections(provider: Provider) -> None:
    """Of its threads, and of a loop that still runs."""
    engine = asked(OpenAiEngine("m", api_base=provider.url))
    engine.invoke(CALL)

    async def main() -> None:
        engine = asked(OpenAiEngine("m", api_base=provider.url))
        await engine.ainvoke(CALL)
        assert provider.open_connections == 1
        del engine
        await until_later(lambda: provider.open_connections == 0)

    del engine
    until(lambda: provider.open_connections == 0)
    asyncio.run(main())


def test_a_changed_key_closes_the_connections_of_the_old_one(
    engine: OpenAiEngine, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as no call uses them any more: a stream that is being read goes on."""
    gate = threading.Event()
    provider.reply = Reply(text="one two", gate=gate)
    stream = engine.stream(CALL)
    assert next(stream) == "one "
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another-one")
    provider.reply = Reply()
    engine.invoke(CALL)
    gc.collect()
    assert provider.open_connections == 2
    gate.set()
    assert list(stream) == ["two "]
    del stream
    gc.collect()
    until(lambda: provider.open_connections == 1, "the old one is closed")


def test_a_changed_key_closes_the_connections_of_tasks_too(
    engine: OpenAiEngine, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their event loop."""

    async def main() -> None:
        await engine.ainvoke(CALL)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-another-one")
        await engine.ainvoke(CALL)
        gc.collect()
        await until_later(lambda: provider.open_connections == 1, "the old one is closed")
        await engine.aclose()

    asyncio.run(main())


def test_a_forked_child_opens_its_own_connections(engine: OpenAiEngine, provider: Provider) -> None:
    """And leaves its parent's alone."""
    assert engine.invoke(CALL).text == "four"
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        os._exit(0 if engine.invoke(CALL).text == "four" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert engine.invoke(CALL).text == "four"
    assert provider.count == 3


def test_openai_is_loaded_by_the_first_call() -> None:
    """Importing the pipeline, making engines and answering out of a cache pay nothing for it, nor for pydantic."""
    program = (
        "import sys, llm_sched\n"
        "assert 'llm_sched.pipeline' not in sys.modules and 'tenacity' not in sys.modules\n"
        "from llm_sched.pipeline import cache, judge, middleware\n"
        "from llm_sched.pipeline.engine_openai import OpenAiEngine\n"
        "cache.LlmCacheMiddleware.wrap(middleware.LlmSchedulerMiddleware(OpenAiEngine('m')))\n"
        "print([name for name in ('openai', 'pydantic', 'httpx', 'httpx2', 'jsonschema') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
