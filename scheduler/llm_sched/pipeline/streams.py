"""Answers that arrive piece by piece, and who holds the slot meanwhile.

The law: a slot is given back when the last byte is here, when the stream is closed, broken or cancelled, or when nobody has
it any more; and the connection is closed before the slot, for until then the provider is busy with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from llm_sched.dropped import close_in_a_thread, close_on_its_loop
from llm_sched.pipeline.layer import optional

if TYPE_CHECKING:
    from llm_sched.pipeline.exchange import AsyncTextStream, LlmResult, TextStream
    from llm_sched.scheduler import Slot


class ReplayedStream:
    """An answer that is already there, as a stream of one piece, for threads and tasks."""

    def __init__(self, result: Any) -> None:  # noqa: ANN401 - duck-typed by contract
        self._result = result
        self._pieces: Iterator[str] = iter([result.text] if result.text else [])

    def __iter__(self) -> Iterator[str]:
        """See `TextStream`."""
        return self

    def __next__(self) -> str:
        """See `TextStream`."""
        return next(self._pieces)

    def close(self) -> None:
        """See `TextStream`."""
        self._pieces = iter(())

    def result(self) -> Any:  # noqa: ANN401 - duck-typed by contract
        """See `TextStream`."""
        return self._result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncReplayedStream:
    """`ReplayedStream` for a task."""

    def __init__(self, result: Any) -> None:  # noqa: ANN401 - duck-typed by contract
        self._stream = ReplayedStream(result)

    def __aiter__(self) -> AsyncIterator[str]:
        """See `AsyncTextStream`."""
        return self

    async def __anext__(self) -> str:
        """See `AsyncTextStream`."""
        for piece in self._stream:
            return piece
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """See `AsyncTextStream`."""
        self._stream.close()

    async def result(self) -> Any:  # noqa: ANN401 - duck-typed by contract
        """See `AsyncTextStream`."""
        return self._stream.result()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


_open: set[Slot] = set()
"""Slots of open streams. Python must not collect one together with its stream: it would be free before the connection is."""


def _end(slot: Slot) -> None:
    _open.discard(slot)
    slot.release()


class PacedStream:
    """A stream that holds a slot until its end."""

    def __init__(self, inner: TextStream, slot: Slot) -> None:
        self._inner = inner
        self._slot = slot
        _open.add(slot)
        self._pid = os.getpid()

    def __iter__(self) -> Iterator[str]:
        """See `TextStream`."""
        return self

    def __next__(self) -> str:
        """See `TextStream`."""
        try:
            return next(self._inner)
        except BaseException:  # also its end, and Ctrl-C
            self.close()
            raise

    def close(self) -> None:
        """See `TextStream`."""
        try:
            self._inner.close()
        finally:
            _end(self._slot)

    def result(self) -> LlmResult:
        """See `TextStream`."""
        try:
            return self._inner.result()
        finally:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # A forked child does not hang up for its parent.
        if getattr(self, "_pid", 0) == os.getpid() and self._slot in _open:
            _open.discard(self._slot)
            close_in_a_thread(self._inner.close, self._slot.release)


class AsyncPacedStream:
    """A stream of a task that holds a slot until its end.

    Use it with `async with`. One that is dropped is closed by its event loop as soon as that gets to it.
    """

    def __init__(self, inner: AsyncTextStream, slot: Slot) -> None:
        self._inner = inner
        self._slot = slot
        self._loop = asyncio.get_running_loop()
        _open.add(slot)
        self._pid = os.getpid()

    def __aiter__(self) -> AsyncIterator[str]:
        """See `AsyncTextStream`."""
        return self

    async def __anext__(self) -> str:
        """See `AsyncTextStream`."""
        try:
            return await self._inner.__anext__()
        except BaseException:  # also its end, and cancellation
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """See `AsyncTextStream`."""
        try:
            await self._inner.aclose()
        finally:
            _end(self._slot)

    async def result(self) -> LlmResult:
        """See `AsyncTextStream`."""
        try:
            return await self._inner.result()
        finally:
            await self.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if getattr(self, "_pid", 0) != os.getpid() or self._slot not in _open:
            return
        _open.discard(self._slot)
        try:
            if self._loop.is_running():
                close_on_its_loop(self._loop, self._inner.aclose, self._slot.release)
                return
            close_on_its_loop(self._loop, self._inner.aclose)  # when it runs again, if ever
        except RuntimeError:  # it is closed; its connections may be open still
            pass
        hang_up = optional(self._inner, "hang_up")
        close_in_a_thread(hang_up or _nothing, self._slot.release)


def _nothing() -> None:
    """What can be done about a connection that its loop alone can close."""


def open_stream(engine: Any, io: object) -> TextStream:  # noqa: ANN401 - duck-typed by contract
    """Stream from an engine; one that cannot stream answers as a whole."""
    stream = optional(engine, "stream")
    if stream is None:
        return ReplayedStream(engine.invoke(io))
    begun: TextStream = stream(io)
    return begun


async def open_stream_async(engine: Any, io: object) -> AsyncTextStream:  # noqa: ANN401 - duck-typed by contract
    """Stream from an engine in a task; one that cannot stream answers as a whole."""
    astream = optional(engine, "astream")
    if astream is None:
        return AsyncReplayedStream(await invoke_async(engine, io))
    stream: AsyncTextStream = await astream(io)
    return stream


_MOST_CALLS = 1024
_threads: WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor] = WeakKeyDictionary()
"""Each loop's threads for engines that block; started when there are calls, and gone with the loop."""


async def invoke_async(engine: Any, io: object) -> Any:  # noqa: ANN401 - duck-typed by contract
    """Invoke an engine from a task; one that can only block does so in a thread, and is waited for even when cancelled.

    A call that goes on in a thread keeps the provider busy, so its slot must not be given back before it ends.
    """
    ainvoke = optional(engine, "ainvoke")
    if ainvoke is not None:
        return await ainvoke(io)
    # Not `asyncio.to_thread`: that is a task, which `asyncio.run` cancels at its end while the thread goes on. And not the
    # loop's own threads: they are few, and calls that take seconds would keep everything else that needs one waiting.
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    threads = _threads.get(loop) or _threads.setdefault(loop, ThreadPoolExecutor(_MOST_CALLS, "llm-call"))
    call = loop.run_in_executor(threads, partial(context.run, engine.invoke, io))
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        while not call.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([call])
        if not call.cancelled():
            call.exception()  # looked at, so that nobody complains that it was not
        raise
