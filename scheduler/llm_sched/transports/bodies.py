"""The body of a paced answer: it holds the slot until it is closed.

The law: closed is after the last byte, by `close`, by an error or a cancellation, or, where the answer is dropped, when Python
collects it. The connection is closed before the slot is given back, or the provider would still be busy with it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from llm_sched.dropped import close_in_a_thread, close_on_its_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

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
            close_in_a_thread(self._inner.close, self._stay.end)


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
                close_on_its_loop(self._loop, self._inner.aclose, self._stay.end)
            except RuntimeError:
                close_in_a_thread(self._stay.end)
