"""One HTTP connection to the stub provider."""

# Law: read a request, let the witness count it, write the answer. Who is let in is the witness's decision,
# what an answer looks like is in `wire`.
# A request is counted as ended just before the last byte of its answer is written. Counted after it, a fast
# client could send its next request before the count goes down, and the witness would see one too many.

from __future__ import annotations

import itertools
import random
import socket
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from llm_sched.demo import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llm_sched.demo.witness import Outcome, Seat, Witness

MAX_BODY_BYTES = 10 * 1024 * 1024
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Desk:
    """What all connections of one provider share.

    `latency_s` is the time to the last byte of an answer, varied by up to `jitter` (a share of it).
    """

    witness: Witness
    limit: int
    latency_s: float
    jitter: float
    dice: random.Random = field(default_factory=random.Random)
    ids: Iterator[int] = field(default_factory=itertools.count)

    def draw_latency(self) -> float:
        """The latency of the next answer, in seconds."""
        return self.latency_s * self.dice.uniform(1 - self.jitter, 1 + self.jitter)


class ChatHandler(BaseHTTPRequestHandler):
    """Serves chat completions, the list of models, and the witness's counters."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, desk: Desk, *args: Any) -> None:  # noqa: ANN401 - socketserver's own triple
        """Serve the connection until it closes: `socketserver` handlers do their work here."""
        self._desk = desk
        super().__init__(*args)

    def do_GET(self) -> None:
        """Answer `/v1/models`, `/stats` (counters) and `/stats?records=1` (every request as well)."""
        url = urlsplit(self.path)
        if url.path == "/v1/models":
            self._send(HTTPStatus.OK, wire.models(("gpt-demo",)))
        elif url.path == "/stats":
            witness = self._desk.witness
            stats = witness.stats() if "records=1" in url.query.split("&") else witness.counters()
            self._send(HTTPStatus.OK, msgspec.json.encode(stats))
        else:
            self._send_unknown()

    def do_POST(self) -> None:
        """Answer `/v1/chat/completions`."""
        body = self._read_body()
        if body is None:
            return
        if urlsplit(self.path).path != "/v1/chat/completions":
            self._send_unknown()
            return
        witness = self._desk.witness
        seat = witness.arrive()
        try:
            self._answer(seat, body)
        except ConnectionError:
            self.close_connection = True
        finally:
            witness.leave(seat, "dropped")  # counts only when no other end was counted before

    def _answer(self, seat: Seat, body: bytes) -> None:
        if not seat.admitted:
            hint = {"Retry-After": "1", "retry-after-ms": str(round(self._desk.latency_s * 1000))}
            text = wire.refusal(self._desk.limit)
            self._send(HTTPStatus.TOO_MANY_REQUESTS, text, hint, ends=(seat, "refused"))
            return
        try:
            request = wire.parse_chat(body)
        except msgspec.MsgspecError as problem:
            text = wire.error(str(problem), "invalid_request_error", None)
            self._send(HTTPStatus.BAD_REQUEST, text, ends=(seat, "invalid"))
            return
        answer_id, created = f"chatcmpl-demo-{next(self._desk.ids)}", int(time.time())
        if request.stream:
            self._stream(seat, wire.pieces(request, answer_id, created))
        elif self._client_stays(self._desk.draw_latency()):
            self._send(HTTPStatus.OK, wire.completion(request, answer_id, created), ends=(seat, "answered"))

    def _stream(self, seat: Seat, pieces: list[bytes]) -> None:
        *tokens, last = pieces
        pause_s = self._desk.draw_latency() / len(tokens)
        head = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "Transfer-Encoding": "chunked"}
        self.wfile.write(wire.head(HTTPStatus.OK, head))
        for token in tokens:
            self.wfile.write(wire.chunk(token))
            if not self._client_stays(pause_s):
                return
        self._desk.witness.leave(seat, "answered")
        self.wfile.write(wire.chunk(last) + wire.LAST_CHUNK)

    def _client_stays(self, seconds: float) -> bool:
        """Let time pass; False as soon as the client hangs up, for then its request is no longer inside."""
        until = time.monotonic() + seconds
        self.connection.settimeout(max(seconds, 1e-6))
        try:
            peeked: bytes = self.connection.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        except ConnectionError:
            peeked = b""
        finally:
            self.connection.settimeout(None)
        if peeked:  # a pipelined request is already there, so the socket can't tell: just wait
            time.sleep(max(0.0, until - time.monotonic()))
        else:
            self.close_connection = True
        return bool(peeked)

    def _read_body(self) -> bytes | None:
        try:
            length = int(self.headers.get("Content-Length", ""))
        except ValueError:
            self.send_error(HTTPStatus.LENGTH_REQUIRED)
            return None
        if not 0 <= length <= MAX_BODY_BYTES:
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return None
        body = self.rfile.read(length)
        if len(body) < length:  # hung up in the middle of the request: it never arrived
            self.close_connection = True
            return None
        return body

    def _send(
        self,
        status: HTTPStatus,
        body: bytes,
        extra: dict[str, str] | None = None,
        ends: tuple[Seat, Outcome] | None = None,
    ) -> None:
        headers = {"Content-Type": JSON, "Content-Length": str(len(body)), **(extra or {})}
        if self.close_connection:
            headers["Connection"] = "close"
        self.wfile.write(wire.head(status, headers) + body[:-1])
        if ends is not None:
            self._desk.witness.leave(*ends)
        self.wfile.write(body[-1:])

    def _send_unknown(self) -> None:
        text = f"Unknown request URL: {self.command} {urlsplit(self.path).path}"
        self._send(HTTPStatus.NOT_FOUND, wire.error(text, "invalid_request_error", "unknown_url"))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what could not be read as a request, in the shape of an OpenAI error, and hang up."""
        status = HTTPStatus(code)
        self.close_connection = True
        self._send(status, wire.error(message or explain or status.phrase, "invalid_request_error", None))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing: what is worth knowing is counted."""
