"""Streams that go into the cache when they have been read to their end.

The law: a stream that is closed early or dropped stores nothing, and the next identical call leads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Self

from llm_sched.pipeline.cache_protocol import CacheProtocol, Steps, run, run_async

if TYPE_CHECKING:
    from llm_sched.pipeline.cache_flights import Flight
    from llm_sched.pipeline.exchange import AsyncTextStream, TextStream


class Recording:
    """What is to become of one streamed call; it ends once."""

    def __init__(self, protocol: CacheProtocol, key: str, flight: Flight | None) -> None:
        self._protocol = protocol
        self._key = key
        self._flight = flight
        self._is_over = False

    def complete(self, result: object) -> Steps[None]:
        """The answer is whole."""
        if not self._is_over:
            self._is_over = True
            yield from self._protocol.settle(self._key, self._flight, result)

    def broke_off(self, error: BaseException) -> Steps[None]:
        """It never will be."""
        if not self._is_over:
            self._is_over = True
            yield from self._protocol.abandon(self._key, self._flight, error)

    def end(self) -> None:
        """Nobody reads on."""
        self._is_over = True
        if self._flight is not None:
            self._flight.end()


class RecordedStream:
    """See `TextStream`."""

    def __init__(self, inner: TextStream, recording: Recording) -> None:
        self._inner = inner
        self._recording = recording

    def __iter__(self) -> Iterator[str]:
        """See `TextStream`."""
        return self

    def __next__(self) -> str:
        """See `TextStream`."""
        try:
            return next(self._inner)
        except StopIteration:
            run(self._recording.complete(self._inner.result()))
            raise
        except BaseException as error:
            run(self._recording.broke_off(error))
            raise

    def close(self) -> None:
        """See `TextStream`."""
        try:
            self._inner.close()
        finally:
            self._recording.end()

    def result(self) -> Any:  # noqa: ANN401 - duck-typed by contract
        """See `TextStream`."""
        for _ in self:
            pass
        return self._inner.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncRecordedStream:
    """See `AsyncTextStream`."""

    def __init__(self, inner: AsyncTextStream, recording: Recording) -> None:
        self._inner = inner
        self._recording = recording

    def __aiter__(self) -> AsyncIterator[str]:
        """See `AsyncTextStream`."""
        return self

    async def __anext__(self) -> str:
        """See `AsyncTextStream`."""
        try:
            return await self._inner.__anext__()
        except StopAsyncIteration:
            await run_async(self._recording.complete(await self._inner.result()))
            raise
        except BaseException as error:
            await run_async(self._recording.broke_off(error))
            raise

    async def aclose(self) -> None:
        """See `AsyncTextStream`."""
        try:
            await self._inner.aclose()
        finally:
            self._recording.end()

    async def result(self) -> Any:  # noqa: ANN401 - duck-typed by contract
        """See `AsyncTextStream`."""
        async for _ in self:
            pass
        return await self._inner.result()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
