"""A strict provider on the loopback: it counts who is inside to the last byte, and misbehaves as it is told.

The law: the demo's provider and its witness do the serving and counting; here stand only the faults. Each request that is let
in takes the next fault from the script, or is served well. A `Gate` lets a test decide when an answer goes on: no test waits
for time to pass.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from llm_sched.demo import wire
from llm_sched.demo.handler import JSON, ChatHandler
from llm_sched.demo.provider import StubProvider

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_sched.demo.witness import Seat

GLANCE_S = 0.005
"""How often a request behind a closed gate looks whether it has been opened."""

FOR_EVER_S = 3600.0


@dataclass(frozen=True)
class Refuse:
    """An error (or a redirect) instead of an answer."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hang:
    """No byte of an answer, until the client hangs up."""


@dataclass(frozen=True)
class Malformed:
    """A complete answer of status 200 that is no JSON."""


@dataclass(frozen=True)
class Cut:
    """Half an answer, then the connection is closed."""


@dataclass(frozen=True)
class Gone:
    """The connection is closed without a byte."""


@dataclass(frozen=True)
class Gate:
    """A good answer that goes on (a streamed one: after its first token) when the gate is opened."""

    opened: threading.Event = field(default_factory=threading.Event)

    def open(self) -> None:
        """Let the answer go on."""
        self.opened.set()


Fault = Refuse | Hang | Malformed | Cut | Gone | Gate


class Script:
    """Which faults come next; for any number of threads."""

    def __init__(self) -> None:
        self._next: deque[Fault | None] = deque()
        self._always: Fault | None = None

    def add(self, *faults: Fault | None) -> None:
        """For the next requests, one each."""
        self._next.extend(faults)

    def always(self, fault: Fault | None) -> None:
        """For every request after these."""
        self._always = fault

    def take(self) -> Fault | None:
        """The fault of one request."""
        try:
            return self._next.popleft()
        except IndexError:
            return self._always


class StrictProvider(StubProvider):
    """The provider, as a context manager; see `StubProvider`.

    Args:
        limit: requests served at once; one more gets a 429 and is counted as refused. 0 = no limit.
        latency_s: seconds from a request to the end of its answer, unless a gate decides.
    """

    def __init__(self, *, limit: int = 0, latency_s: float = 0.0) -> None:
        super().__init__(limit=limit, latency_s=latency_s, jitter=0.0)
        self._script = Script()

    def script(self, *faults: Fault | None) -> None:
        """Let the next requests meet these faults, one each; None = served well."""
        self._script.add(*faults)

    def break_down(self, fault: Fault) -> None:
        """Let every request meet this fault, until `heal`."""
        self._script.always(fault)

    def heal(self) -> None:
        """Serve well again."""
        self._script.always(None)

    def gates(self, count: int) -> list[Gate]:
        """Put the next answers behind gates."""
        gates = [Gate() for _ in range(count)]
        self.script(*gates)
        return gates

    def _handler(self) -> Callable[..., ChatHandler]:
        return functools.partial(_FaultyHandler, self._script, self._desk)


class _FaultyHandler(ChatHandler):
    def __init__(self, script: Script, *args: Any) -> None:
        self._script = script
        self._fault: Fault | None = None
        super().__init__(*args)

    def _answer(self, seat: Seat, body: bytes) -> None:
        self._fault = self._script.take() if seat.admitted else None
        match self._fault:
            case Refuse(status, headers):
                text = wire.error(f"as the script says: {status}", "script", None)
                self._send(HTTPStatus(status), text, headers, ends=(seat, "refused"))
            case Malformed():
                self._send(HTTPStatus.OK, b"<html>{not json", ends=(seat, "answered"))
            case Hang():
                self._client_stays(FOR_EVER_S)
            case Gone():
                self.close_connection = True
            case Cut() if not wire.parse_chat(body).stream:
                self.wfile.write(wire.head(HTTPStatus.OK, {"Content-Type": JSON, "Content-Length": "1000"}) + b'{"id": "half')
                self.close_connection = True
            case _:
                super()._answer(seat, body)

    def _client_stays(self, seconds: float) -> bool:
        match self._fault:
            case Cut():
                self.close_connection = True
                return False
            case Gate(opened):
                while not opened.is_set():
                    if not super()._client_stays(GLANCE_S):
                        return False
        return super()._client_stays(seconds)
