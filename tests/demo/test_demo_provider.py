"""The stub provider, asked by real clients and by bare sockets."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import openai
import pytest

from llm_sched.demo.provider import StubProvider
from llm_sched.demo.provider_process import RemoteProvider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openai.types.chat import ChatCompletionMessageParam

QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello there"}]
BODY = json.dumps({"model": "m", "messages": QUESTION})
FOR_EVER_S = 3600.0


@pytest.fixture
def provider() -> Iterator[StubProvider]:
    """A quick provider without a limit."""
    with StubProvider(latency_s=0) as stub:
        yield stub


def client_of(stub: StubProvider) -> openai.OpenAI:
    """An openai client for a provider on the loopback."""
    web = openai.DefaultHttpxClient(trust_env=False)
    return openai.OpenAI(base_url=stub.base_url, api_key="any", max_retries=0, http_client=web)


def connect(stub: StubProvider) -> http.client.HTTPConnection:
    """A bare connection to a provider."""
    return http.client.HTTPConnection(urlsplit(stub.base_url).netloc, timeout=30)


def post(
    connection: http.client.HTTPConnection, body: str | bytes, path: str = "/v1/chat/completions"
) -> tuple[int, dict[str, Any]]:
    """Post a body, and return status and answer."""
    connection.request("POST", path, body)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def open_stream(stub: StubProvider) -> socket.socket:
    """Begin a streamed request, and return when its first token is there: it is inside now."""
    parts = urlsplit(stub.base_url)
    line = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30)
    body = json.dumps({"model": "m", "messages": QUESTION, "stream": True})
    line.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    seen = b""
    while b"data: " not in seen:
        seen += line.recv(4096)
    return line


def test_an_answer_in_one_piece(provider: StubProvider) -> None:
    """The SDK reads the answer, its usage and its end."""
    with client_of(provider) as client:
        answer = client.chat.completions.create(model="some/model", messages=QUESTION)
    assert answer.model == "some/model"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content == "One pace for every process on this machine."
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_streamed_answer(provider: StubProvider) -> None:
    """The SDK reads the same text in pieces, and the usage when it asks for it."""
    with client_of(provider) as client:
        stream = client.chat.completions.create(
            model="m", messages=QUESTION, stream=True, stream_options={"include_usage": True}
        )
        with stream:
            pieces = list(stream)
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert text == "One pace for every process on this machine."
    assert [piece.usage is not None for piece in pieces][-1]
    assert provider.stats().answered == 1


def test_models_are_listed(provider: StubProvider) -> None:
    """And listing them is no call that counts."""
    with client_of(provider) as client:
        assert [model.id for model in client.models.list()] == ["gpt-demo"]
    assert provider.stats().requests == 0


def test_one_too_many_is_refused_as_openai_does() -> None:
    """429, Retry-After, and an error of OpenAI's shape; the SDK makes it a RateLimitError."""
    with StubProvider(limit=1, latency_s=FOR_EVER_S) as stub, open_stream(stub), client_of(stub) as client:
        with pytest.raises(openai.RateLimitError) as caught:
            client.chat.completions.create(model="m", messages=QUESTION)
        assert caught.value.response.headers["retry-after"] == "1"
        assert caught.value.code == "rate_limit_exceeded"
        stats = stub.stats()
        assert (stats.current, stats.peak, stats.refused, stats.requests) == (1, 2, 1, 2)


def test_who_hangs_up_is_no_longer_inside() -> None:
    """The provider notices at once, not when it would have answered."""
    with StubProvider(limit=1, latency_s=FOR_EVER_S) as stub, open_stream(stub) as line:
        line.shutdown(socket.SHUT_WR)
        while line.recv(4096):
            pass  # until the provider has hung up as well
        stats = stub.stats()
        assert (stats.current, stats.dropped) == (0, 1)


def test_closing_ends_calls_and_threads() -> None:
    """Nothing outlives the context, however long the answers would have taken."""
    before = set(threading.enumerate())
    with StubProvider(latency_s=FOR_EVER_S) as stub:
        lines = [open_stream(stub) for _ in range(3)]
    assert set(threading.enumerate()) <= before
    assert stub.stats().dropped == 3
    for line in lines:
        line.close()
    stub.close()
    with pytest.raises(RuntimeError, match="not listening"):
        _ = stub.base_url


def test_clients_that_keep_the_cap_never_look_as_if_they_did_not() -> None:
    """A request has ended for the witness before its client can know: no false alarm."""
    turn = threading.BoundedSemaphore(3)
    with StubProvider(limit=3, latency_s=0.0005) as stub:

        def work(_: int) -> set[int]:
            with closing(connect(stub)) as connection:
                statuses: set[int] = set()
                for _ in range(25):
                    with turn:
                        statuses.add(post(connection, BODY)[0])
                return statuses

        with ThreadPoolExecutor(8) as pool:
            assert set().union(*pool.map(work, range(8))) == {200}
        stats = stub.stats()
    assert stats.peak <= 3
    assert (stats.requests, stats.answered, stats.refused) == (200, 200, 0)


def test_a_connection_serves_many_requests(provider: StubProvider) -> None:
    """Keep-alive, also across errors that concern one request only."""
    with closing(connect(provider)) as connection:
        connection.connect()
        line = connection.sock
        assert [post(connection, body)[0] for body in (BODY, "{", BODY)] == [200, 400, 200]
        assert connection.sock is line
    stats = provider.stats()
    assert (stats.answered, stats.invalid, stats.requests) == (2, 1, 3)


@pytest.mark.parametrize("body", ["", "[]", '{"model": "m"}', '{"model": 1, "messages": []}', b"\xff\xfe"])
def test_what_is_no_request_gets_400(provider: StubProvider, body: str | bytes) -> None:
    """With an error of OpenAI's shape that says what is wrong."""
    with closing(connect(provider)) as connection:
        status, answer = post(connection, body)
    assert status == 400
    assert answer["error"]["type"] == "invalid_request_error"
    assert answer["error"]["message"]


def test_unknown_paths_and_methods(provider: StubProvider) -> None:
    """404 and 501, as JSON, and nothing is counted."""
    with closing(connect(provider)) as connection:
        assert post(connection, BODY, "/v1/embeddings")[0] == 404
        connection.request("DELETE", "/v1/models")
        answer = connection.getresponse()
        assert answer.status == 501
        assert json.loads(answer.read())["error"]["message"]
    assert provider.stats().requests == 0


def test_a_body_without_a_length_is_not_read(provider: StubProvider) -> None:
    """411: the stub doesn't read chunked requests, which no OpenAI client sends."""
    with closing(connect(provider)) as connection:
        connection.putrequest("POST", "/v1/chat/completions")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        assert connection.getresponse().status == 411


def test_the_counters_can_be_fetched(provider: StubProvider) -> None:
    """`/stats` has the counters, with `?records=1` every request as well."""
    with closing(connect(provider)) as connection, closing(RemoteProvider(provider.base_url)) as remote:
        post(connection, BODY)
        assert remote.counters().answered == 1
        assert remote.counters().records == ()
        assert remote.stats() == provider.stats()
        (record,) = remote.stats().records
    assert record.ended_s is not None
    assert record.arrived_s < record.ended_s


@pytest.mark.parametrize("bad", [{"limit": -1}, {"latency_s": float("nan")}, {"latency_s": -1}, {"jitter": 2}])
def test_a_provider_that_makes_no_sense(bad: dict[str, Any]) -> None:
    """Is refused when it is described, not when it is asked."""
    with pytest.raises(ValueError, match="must be"):
        StubProvider(**bad)
