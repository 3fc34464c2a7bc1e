"""The body of a paced answer: it holds the slot until it is closed.

The law: closed is after the last byte, by `close`, by an error or a cancellation, or, where the answer is dropped, when Python
collects it. The connection is closed before the slot is given back, or the provider would still be busy with it.
"""

from __future__ import annotations

import _thread
import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from llm_sched.transports.pacing import Stay


class PacedBody:
    """The body of an answer, read by a thread; its slot ends with it."""

    def __init__(self, inner: Any, stay: Stay) -> None:  # noqa: ANN401 - either library's stream
        self._inner = inner
        self._stay = stay
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._inner
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection or hand it back for the next request; then give the slot back."""
        if not self._closed:
            self._closed = True
            try:
                self._inner.close()
            finally:
                self._stay.end()

    def __del__(self) -> None:
        if self._stay.forgotten:
            _in_a_thread(_close_dropped, self._inner, self._stay)


def _in_a_thread(job: Callable[..., None], *arguments: object) -> None:
    """Run a finalizer's job where it may block: this thread may hold the very locks it needs, for Python collects anywhere."""
    with suppress(RuntimeError):  # the interpreter ends, and with it all that this process holds
        _thread.start_new_thread(job, arguments)


def _close_dropped(inner: Any, stay: Stay) -> None:  # noqa: ANN401 - either library's stream
    with suppress(Exception):  # nobody is left who could hear of it
        inner.close()
    stay.end()


class AsyncPacedBody:
    """The body of an answer, read by a task; its slot ends with it."""

    def __init__(self, inner: Any, stay: Stay) -> None:  # noqa: ANN401 - either library's stream
        self._inner = inner
        self._stay = stay
        self._closed = False
        self._loop = asyncio.get_running_loop()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._inner:
                yield part
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the connection or hand it back for the next request; then give the slot back."""
        if not self._closed:
            self._closed = True
            try:
                await self._inner.aclose()
            finally:
                self._stay.end()

    def __del__(self) -> None:
        # Only its loop can close the connection; where that is closed, so is the connection.
        if self._stay.forgotten:
            try:
                self._loop.call_soon_threadsafe(_begin_to_close, self._loop, self._inner, self._stay)
            except RuntimeError:
                _in_a_thread(self._stay.end)


_closing: set[asyncio.Task[None]] = set()
"""A loop keeps only weak references to its tasks."""


def _begin_to_close(loop: asyncio.AbstractEventLoop, inner: Any, stay: Stay) -> None:  # noqa: ANN401 - either library's stream
    task = loop.create_task(_close_dropped_async(inner, stay))
    _closing.add(task)
    task.add_done_callback(_closing.discard)


async def _close_dropped_async(inner: Any, stay: Stay) -> None:  # noqa: ANN401 - either library's stream
    try:
        with suppress(Exception):  # nobody is left who could hear of it
            await inner.aclose()
    finally:
        stay.end()
