"""A strict provider: it answers as the test says, and counts who is inside, to the last byte of each answer."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

PATIENCE_S = 30.0
"""How long to wait for what must happen; reached only by a test that fails."""

FOUR = "four"


def until(condition: Callable[[], object], what: str = "it") -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"has not happened: {what}"
        time.sleep(0.002)


async def until_later(condition: Callable[[], object], what: str = "it") -> None:
    """Wait in a task until something holds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"has not happened: {what}"
        await asyncio.sleep(0.002)


@dataclass(frozen=True)
class Reply:
    """What to answer.

    Attributes:
        text: of the model; `pieces` of it are streamed when streaming was asked for.
        status: HTTP status.
        headers: more of them.
        body: sent instead of an answer, whatever was asked for.
        gate: it is waited for before the last byte; a client that hangs up is noticed meanwhile.
        before: it is waited for before the first byte.
        pieces: what is streamed; empty = the text's words.
        finish_reason: why the model stopped; None = it is left out.
        tool_calls: as the API has them.
        linger: it is waited for after everything has been said, before the last byte.
        cut: whether the connection ends in the middle of the body.
    """

    text: str = FOUR
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    gate: threading.Event | None = None
    before: threading.Event | None = None
    linger: threading.Event | None = None
    pieces: Sequence[str] = ()
    finish_reason: str | None = "stop"
    tool_calls: Sequence[Mapping[str, Any]] = ()
    cut: bool = False

    def completion(self) -> bytes:
        """The answer as a whole."""
        message = {"role": "assistant", "content": self.text, "tool_calls": list(self.tool_calls) or None}
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
        return json.dumps(
            {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
        ).encode()

    def events(self) -> list[bytes]:
        """The answer in pieces, as server-sent events."""
        pieces = list(self.pieces) or [f"{word} " for word in self.text.split()]
        deltas: list[dict[str, Any]] = [{"content": piece} for piece in pieces]
        for number, call in enumerate(self.tool_calls):
            function = call["function"]
            deltas.append(
                {
                    "tool_calls": [
                        {"index": number, "id": call["id"], "type": "function", "function": {**function, "arguments": ""}}
                    ]
                }
            )
            deltas += [
                {"tool_calls": [{"index": number, "function": {"arguments": letter}}]} for letter in function["arguments"]
            ]
        chunks = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        if self.finish_reason:
            chunks.append({"index": 0, "delta": {}, "finish_reason": self.finish_reason})
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return [b"data: " + json.dumps({**head, "choices": [chunk]}).encode() + b"\n\n" for chunk in chunks] + [
            b"data: [DONE]\n\n"
        ]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        provider: Provider = self.server.provider  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = provider.arrive(body, self.headers["Authorization"])
        try:
            self._answer(provider, reply, is_stream=bool(body.get("stream")) and reply.status == 200 and reply.body is None)
        except OSError:
            self.close_connection = True
        finally:
            provider.leave(id(reply))

    def _answer(self, provider: Provider, reply: Reply, *, is_stream: bool) -> None:
        if reply.before and not self._wait(provider, reply.before):
            return
        parts = reply.events() if is_stream else [reply.completion() if reply.body is None else reply.body]
        self.send_response(reply.status)
        kind = "text/event-stream" if is_stream or (reply.body and reply.body.startswith(b"data:")) else "application/json"
        self.send_header("Content-Type", kind)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in parts[:-1]:
            self._chunk(part)
        if reply.cut:
            self.close_connection = True
            return
        if reply.gate and not self._wait(provider, reply.gate):
            return
        self._chunk(parts[-1])
        if reply.linger and not self._wait(provider, reply.linger):
            return
        provider.leave(id(reply))  # before the last byte: the next request may come faster than this thread goes on
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, part: bytes) -> None:
        self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")

    def _wait(self, provider: Provider, event: threading.Event) -> bool:
        """Wait for the test's word; False when the client hangs up, or the provider closes."""
        while not event.wait(0.005):
            readable, _, _ = select.select([self.connection], [], [], 0)
            if provider.is_closing or (readable and not self.connection.recv(1, socket.MSG_PEEK)):
                self.close_connection = True
                return False
        return True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True
    block_on_close = False
    opened = 0
    open = 0

    def process_request(self, request: Any, client_address: Any) -> None:
        """One more connection."""
        self.opened += 1
        self.open += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """One less."""
        self.open -= 1
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error."""


class Provider:
    """The provider, from `with` on. `reply` is what it answers: one for all, or made for each request's body."""

    def __init__(self, reply: Reply | Callable[[dict[str, Any]], Reply] | None = None) -> None:
        self.reply = reply or Reply()
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.peak = 0
        self.is_closing = False
        self._inside: dict[int, Reply] = {}
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.provider = self  # type: ignore[attr-defined]

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def host(self) -> str:
        """Its label."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def count(self) -> int:
        """How many requests have arrived."""
        return len(self.bodies)

    @property
    def connections(self) -> int:
        """How many connections were opened."""
        return self._server.opened

    @property
    def open_connections(self) -> int:
        """How many are open."""
        return self._server.open

    @property
    def inside(self) -> int:
        """How many are inside now."""
        return len(self._inside)

    def arrive(self, body: dict[str, Any], key: str | None) -> Reply:
        """Count a request and choose its answer."""
        with self._lock:
            self.bodies.append(body)
            self.keys.append(key)
            chosen = self.reply if isinstance(self.reply, Reply) else self.reply(body)
            reply = Reply(**{name: getattr(chosen, name) for name in Reply.__dataclass_fields__})  # one of its own
            self._inside[id(reply)] = reply
            self.peak = max(self.peak, len(self._inside))
        return reply

    def leave(self, number: int) -> None:
        """Count an end, once."""
        with self._lock:
            self._inside.pop(number, None)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_closing = True
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Script:
    """Answers one after the other; the last one for ever."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)

    def __call__(self, _: object) -> Reply:
        """The next answer."""
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
