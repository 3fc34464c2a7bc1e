"""What the official SDK streams, as our streams, and what it raises, as our errors.

The law: the SDK's stream is opened by the engine and closed here; a closed one gives no more text, and what was read remains.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, Self

from llm_sched.pipeline import openai_wire as wire
from llm_sched.pipeline.openai_http import abandon, hang_up

if TYPE_CHECKING:
    from llm_sched.pipeline.exchange import LlmResult


class Failures:
    """Turns what the SDK raises inside a `with` into our errors, without the key."""

    def __init__(self, whom: str, key: str) -> None:
        self._whom = whom
        self._key = key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and wire.is_failure(error):
            self.fail(error)

    def fail(self, error: Exception) -> NoReturn:
        """Raise ours; the SDK's own is its cause, unless it tells the key."""
        cause = None if self._key and self._key in f"{error}{error.__cause__}" else error
        raise wire.failure(error, self._whom, self._key) from cause


class OpenAiStream:
    """One streamed answer; see `TextStream`."""

    def __init__(self, stream: Any, failures: Failures, correlation_id: int) -> None:  # noqa: ANN401 - the SDK's, not loaded
        self._stream = stream
        self._chunks = iter(stream)
        self._failures = failures
        self._correlation_id = correlation_id
        self._pieces = wire.Pieces()
        self._is_read = False

    def __iter__(self) -> Iterator[str]:
        """See `TextStream`."""
        return self

    def __next__(self) -> str:
        """See `TextStream`."""
        with self._failures:
            for chunk in self._chunks:
                text = self._pieces.add(chunk)
                if text:
                    return text
        self._is_read = True
        self.close()
        raise StopIteration

    def close(self) -> None:
        """See `TextStream`."""
        if not self._is_read:
            abandon(self._stream)
        self._chunks = iter(())
        self._stream.close()

    def result(self) -> LlmResult:
        """See `TextStream`."""
        for _ in self:
            pass
        return self._pieces.result(self._correlation_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncOpenAiStream:
    """One streamed answer of a task; see `AsyncTextStream`."""

    def __init__(self, stream: Any, failures: Failures, correlation_id: int) -> None:  # noqa: ANN401 - the SDK's, not loaded
        self._stream = stream
        self._chunks = aiter(stream)
        self._is_closed = False
        self._failures = failures
        self._correlation_id = correlation_id
        self._pieces = wire.Pieces()
        self._is_read = False

    def __aiter__(self) -> AsyncIterator[str]:
        """See `AsyncTextStream`."""
        return self

    async def __anext__(self) -> str:
        """See `AsyncTextStream`."""
        if self._is_closed:
            raise StopAsyncIteration
        with self._failures:
            async for chunk in self._chunks:
                text = self._pieces.add(chunk)
                if text:
                    return text
        self._is_read = True
        await self.aclose()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """See `AsyncTextStream`."""
        if not self._is_read:
            abandon(self._stream)
        self._is_closed = True
        await self._stream.close()

    def hang_up(self) -> None:
        """Have the provider notice at once that nobody reads any more, also where the event loop does not run."""
        if not self._is_closed:
            hang_up(self._stream.response)

    async def result(self) -> LlmResult:
        """See `AsyncTextStream`."""
        async for _ in self:
            pass
        return self._pieces.result(self._correlation_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
