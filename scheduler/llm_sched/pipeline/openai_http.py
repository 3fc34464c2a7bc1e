"""Streams that are read to their last byte.

The law: the official SDK hangs up when it has read `data: [DONE]`, before the last bytes of the body are there; a provider that
counts until it has sent them would see the next request beside this one. So a stream that is closed after `[DONE]` is read to
its end first, but not for long: some providers leave it open. One that is abandoned is closed at once. Works with httpx
(openai 2) and httpx2 (openai 3), imports neither.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

_TAIL = 64
_DONE = b"data:[DONE]"
REST_S = 1.0
"""How long the end of a body that is complete but for that is waited for, in seconds. It is usually there already."""


class _Tail:
    """The end of what has been read."""

    def __init__(self) -> None:
        self._bytes = b""
        self.is_over = False

    def add(self, chunk: bytes) -> None:
        """More has been read."""
        self._bytes = (self._bytes + chunk)[-_TAIL:]

    def is_done(self) -> bool:
        """Whether the last line says that the answer is complete, while the body is not."""
        line = self._bytes.rstrip().rpartition(b"\n")[2]
        return not self.is_over and line.replace(b" ", b"") == _DONE


class _Body:
    """A response's body in a thread."""

    def __init__(self, response: Any) -> None:  # noqa: ANN401 - httpx's or httpx2's
        self._response = response
        self._inner = response.stream
        self._chunks: Iterator[bytes] = iter(self._inner)
        self.tail = _Tail()

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.tail.add(chunk)
            yield chunk
        self.tail.is_over = True

    def close(self) -> None:
        """Close it, the last bytes of a complete answer read."""
        try:
            if self.tail.is_done():
                with suppress(Exception):  # whatever breaks now, the answer is here
                    self._read_rest()
        finally:
            self._inner.close()

    def _read_rest(self) -> None:
        # A thread's read cannot be given another timeout once it has begun: so somebody else ends it.
        alarm = threading.Timer(REST_S, hang_up, [self._response])
        alarm.daemon = True
        alarm.start()
        try:
            for _ in self:
                pass
        finally:
            alarm.cancel()


class _AsyncBody:
    """A response's body in a task."""

    def __init__(self, response: Any) -> None:  # noqa: ANN401 - httpx's or httpx2's
        self._inner = response.stream
        self._chunks: AsyncIterator[bytes] = aiter(self._inner)
        self.tail = _Tail()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            self.tail.add(chunk)
            yield chunk
        self.tail.is_over = True

    async def aclose(self) -> None:
        """Close it, the last bytes of a complete answer read."""
        try:
            if self.tail.is_done():
                with suppress(Exception):  # whatever breaks now, the answer is here
                    async with asyncio.timeout(REST_S):
                        async for _ in self:
                            pass
        finally:
            await self._inner.aclose()


@functools.cache
def _kind(body: type, package: str, name: str) -> type:
    """The body as a stream of that HTTP library, which knows its streams by their class."""
    return type(body.__name__, (body, getattr(importlib.import_module(package), name)), {})


def _package(response: object) -> str:
    return type(response).__module__.partition(".")[0]


def _is_stream(response: Any) -> bool:  # noqa: ANN401 - httpx's or httpx2's
    return bool(response.headers.get("content-type", "").startswith("text/event-stream"))


def abandon(stream: object) -> None:
    """Have an SDK's stream closed at once, whatever has arrived: nobody wants the rest."""
    tail: object = getattr(getattr(getattr(stream, "response", None), "stream", None), "tail", None)
    if isinstance(tail, _Tail):
        tail.is_over = True


def hang_up(response: Any) -> None:  # noqa: ANN401 - httpx's or httpx2's
    """End a response's connection in both directions, from any thread; whoever reads it finds that it has ended."""
    with suppress(Exception):  # it is gone already
        connection = response.extensions["network_stream"].get_extra_info("socket")
        # Not the method of a TLS socket, which would also forget the state that the reading thread uses.
        if isinstance(connection, socket.socket):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
        else:
            connection.shutdown(socket.SHUT_RDWR)


def read_to_end(response: Any) -> None:  # noqa: ANN401 - httpx's or httpx2's
    """A response hook for a client of threads."""
    if _is_stream(response):
        response.stream = _kind(_Body, _package(response), "SyncByteStream")(response)


async def read_to_end_async(response: Any) -> None:  # noqa: ANN401 - httpx's or httpx2's
    """A response hook for a client of tasks."""
    if _is_stream(response):
        response.stream = _kind(_AsyncBody, _package(response), "AsyncByteStream")(response)
