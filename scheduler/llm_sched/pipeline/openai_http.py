"""Streams that are read to their last byte.

The law: the official SDK hangs up when it has read `data: [DONE]`, before the last bytes of the body are there; a provider that
counts until it has sent them would see the next request beside this one. So a stream that is closed after `[DONE]` is read to
its end first; one that is abandoned is closed at once. Works with httpx (openai 2) and httpx2 (openai 3), imports neither.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

_TAIL = 64
_DONE = b"data:[DONE]"


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

    def __init__(self, inner: Any) -> None:  # noqa: ANN401 - httpx's or httpx2's
        self._inner = inner
        self._chunks: Iterator[bytes] = iter(inner)
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
                    for _ in self:
                        pass
        finally:
            self._inner.close()


class _AsyncBody:
    """A response's body in a task."""

    def __init__(self, inner: Any) -> None:  # noqa: ANN401 - httpx's or httpx2's
        self._inner = inner
        self._chunks: AsyncIterator[bytes] = aiter(inner)
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


def read_to_end(response: Any) -> None:  # noqa: ANN401 - httpx's or httpx2's
    """A response hook for a client of threads."""
    if _is_stream(response):
        response.stream = _kind(_Body, _package(response), "SyncByteStream")(response.stream)


async def read_to_end_async(response: Any) -> None:  # noqa: ANN401 - httpx's or httpx2's
    """A response hook for a client of tasks."""
    if _is_stream(response):
        response.stream = _kind(_AsyncBody, _package(response), "AsyncByteStream")(response.stream)
