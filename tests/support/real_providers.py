"""Two providers that nobody here wrote, each in a child process on a free port of the loopback: llama.cpp and llmock.

The law: a provider is a context manager; when that ends, its process is gone and reaped, and the lifeline ends it should this
process be killed. What happened inside is asked over HTTP, from the provider itself.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from llm_sched.demo.lifeline import Child, exit_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

LLAMA_MODEL = "tiny"
CONTEXT_PER_SLOT = 2048
HTTP_THREADS = 64
"""More than the clients of any test: none may wait for a thread of llama.cpp's web server, where nobody counts it."""

MANY_TOKENS = {"max_tokens": 1900, "ignore_eos": True}
"""More for a request's body: an answer that takes as long as the context allows."""


class Load(NamedTuple):
    """What llama.cpp is doing: requests in its slots, and requests that it has put off because no slot was free."""

    processing: int
    deferred: int


class Provider:
    """A provider in a child process.

    Attributes:
        base_url: what an OpenAI client takes; ends in `/v1`.
    """

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url).netloc
        self.base_url = f"{url}/v1"

    def _ask(self, method: str, path: str, body: object = None) -> str:
        with closing(http.client.HTTPConnection(self._address, timeout=30)) as line:
            line.request(method, path, json.dumps(body) if body is not None else None)
            answer = line.getresponse()
            text = answer.read().decode()
            assert answer.status < 300, text
            return text


class Llama(Provider):
    """A llama.cpp server."""

    def load(self) -> Load:
        """What it is doing now."""
        text = self._ask("GET", "/metrics")
        return Load(*(int(float(_metric(text, f"llamacpp:requests_{what}"))) for what in Load._fields))


class LLMock(Provider):
    """An llmock server."""

    def script(self, *behaviors: dict[str, Any]) -> None:
        """Faults for the next requests."""
        self._ask("POST", "/_llmock/scenario", {"behaviors": list(behaviors)})

    def requests(self) -> list[dict[str, Any]]:
        """Every request that it has seen."""
        rows: list[dict[str, Any]] = json.loads(self._ask("GET", "/_llmock/requests"))["requests"]
        return rows

    def verdict(self) -> dict[str, Any]:
        """What it thinks of its clients."""
        verdict: dict[str, Any] = json.loads(self._ask("GET", "/_llmock/verdict"))
        return verdict

    def reset(self) -> None:
        """Forget requests and faults, and fill the quotas."""
        self._ask("POST", "/_llmock/reset")


def _metric(text: str, name: str) -> str:
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert found, f"{name} is not among the metrics"
    return found[1]


@contextmanager
def llama_server(model: Path, slots: int, log: Path) -> Iterator[Llama]:
    """Run llama.cpp with so many slots.

    Args:
        model: the GGUF file.
        slots: its own limit (`--parallel`).
        log: where its messages go.
    """
    with _served(_serve_llama, str(model), slots, str(log), name="llama.cpp") as url:
        yield Llama(url)


@contextmanager
def llmock_server(requests_per_minute: int | None = None) -> Iterator[LLMock]:
    """Run llmock.

    Args:
        requests_per_minute: its quota, which is full at first; None = no quota.
    """
    with _served(_serve_llmock, requests_per_minute, name="llmock") as url:
        yield LLMock(url)


@contextmanager
def _served(serve: Any, *args: object, name: str) -> Iterator[str]:
    child = Child(serve, *args, name=name)
    try:
        try:
            url = str(child.connection.recv())
        except EOFError:
            message = f"{name} ended at once (exit code {child.exit_code()})"
            raise RuntimeError(message) from None
        yield url
    finally:
        child.stop()


def _serve_llama(connection: Connection[Any, Any], model: str, slots: int, log: str) -> None:
    messages = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(messages, 2)
    import xllamacpp  # noqa: PLC0415 - only in the child, and not on every platform

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {LLAMA_MODEL}
    params.chat_template = "chatml"
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = slots
    params.n_ctx = CONTEXT_PER_SLOT * slots
    params.n_threads_http = HTTP_THREADS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.endpoint_metrics = True
    params.warmup = params.fit_params = False
    server = xllamacpp.Server(params)
    connection.send(server.listening_address)
    exit_with_parent(connection, on_message=lambda _: None)
    threading.Event().wait()  # until the lifeline ends this process


def _serve_llmock(connection: Connection[Any, Any], requests_per_minute: int | None) -> None:
    from llmock.ratelimit import LimitSettings  # noqa: PLC0415 - only in the child
    from llmock.testing import LLMockServer  # noqa: PLC0415 - likewise

    server = LLMockServer()
    server.state.limiter.configure(LimitSettings(rpm=requests_per_minute))
    with server:
        connection.send(server.url)
        exit_with_parent(connection, on_message=lambda _: None)
        threading.Event().wait()
