"""An OpenAI-compatible provider on a free loopback port, with a concurrency limit of its own."""

# Law: this file opens and closes the server, and nothing outlives `close`. It may not know llm_sched's
# scheduler: it is the independent witness of what really arrives.

from __future__ import annotations

import functools
import random
import socket
import socketserver
import sys
import threading
from typing import TYPE_CHECKING, Any

from llm_sched.demo.handler import ChatHandler, Desk
from llm_sched.demo.witness import ProviderStats, Witness

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

BACKLOG = 1024
"""Connections the kernel may hold back for us: more than any burst of first calls."""

SHUTDOWN_POLL_S = 0.05


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    request_queue_size = BACKLOG

    def __init__(self, handler: Callable[..., ChatHandler]) -> None:
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), handler)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the base class's types
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - the base class's types
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the base class's types
        if not isinstance(sys.exception(), OSError):  # a client that hangs up is no error of ours
            super().handle_error(request, client_address)

    def hang_up(self) -> None:
        """Wake every thread that serves a connection, so that it ends."""
        with self._open_lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # the other side was faster


class StubProvider:
    """The provider, as a context manager.

    >>> with StubProvider(limit=4, latency_s=0.05) as provider:
    ...     client = openai.OpenAI(base_url=provider.base_url, api_key="any", max_retries=0)
    ...     provider.stats().peak
    """

    def __init__(self, *, limit: int = 0, latency_s: float = 0.05, jitter: float = 0.2, seed: int | None = None) -> None:
        """Describe a provider; it listens from `start` (or `with`) on.

        Args:
            limit: requests served at once; what exceeds it gets a 429. 0 = no limit.
            latency_s: seconds from a request to the end of its answer.
            jitter: by what share of itself the latency varies at most, up and down.
            seed: makes the variation repeatable.

        Raises:
            ValueError: a negative limit or latency, or a jitter outside 0..1.
        """
        if limit < 0 or not 0 <= latency_s < float("inf") or not 0 <= jitter <= 1:
            message = f"limit and latency_s must be >= 0 and jitter in 0..1, got {limit}, {latency_s}, {jitter}"
            raise ValueError(message)
        self._witness = Witness(limit)
        self._desk = Desk(self._witness, limit, latency_s, jitter, random.Random(seed))  # noqa: S311 - not a secret
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as `base_url`; ends in `/v1`.

        Raises:
            RuntimeError: the provider isn't listening.
        """
        if self._server is None:
            message = "the stub provider is not listening; use it in a `with` statement"
            raise RuntimeError(message)
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def stats(self) -> ProviderStats:
        """Everything seen so far, every single request included; also after `close`."""
        return self._witness.stats()

    def start(self) -> None:
        """Listen on a free port and serve from threads of this process."""
        self._server = _Server(self._handler())
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(SHUTDOWN_POLL_S,), name="stub-provider", daemon=True
        )
        self._thread.start()

    def _handler(self) -> Callable[..., ChatHandler]:
        """What serves a connection; a provider with faults has one of its own."""
        return functools.partial(ChatHandler, self._desk)

    def close(self) -> None:
        """Hang up on everybody and wait until no thread is left. Closing twice does nothing."""
        server, thread = self._server, self._thread
        self._server = self._thread = None
        if server is None or thread is None:
            return
        server.shutdown()
        thread.join()
        server.hang_up()
        server.server_close()  # joins the connections' threads

    def __enter__(self) -> Self:
        """Start listening."""
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close."""
        self.close()
