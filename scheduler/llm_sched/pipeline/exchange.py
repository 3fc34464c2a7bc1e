"""What layers of a pipeline say to each other: frozen values, the shape of an engine, and what a provider's refusal looks like.

The law: engines are duck-typed. Any object with `invoke(io)` is one, any object with `middleware_id` and `inner` wraps one;
requests and results need only have the attributes named here. This module imports nobody's engine and does nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from llm_sched.errors import ConfigError, SchedulerError

LLM_CALL = "LLM_CALL"
"""The one operation that is paced and cached; every other one passes straight through."""

MODEL_TEXT = "MODEL_TEXT"
ERROR = "ERROR"
STOP = "STOP"
TOOL_CALL = "TOOL_CALL"


class LlmRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One operation for an engine.

    Args:
        op: `LLM_CALL`, `TOOL_CALL`, `MEMORY_OP` or `TRANSPORT_MSG`.
        correlation_id: number of the exchange, at least 1; the result carries it too.
        call_id: name of this call, for tracing.
        parent_call_id: name of the call that caused it.
        destructive: whether the operation changes something outside.
        cacheable: False keeps its answer out of every cache.

    Raises:
        ConfigError: `correlation_id` is below 1.
    """

    op: str = LLM_CALL
    correlation_id: int = 1
    call_id: str = ""
    parent_call_id: str = ""
    destructive: bool = False
    cacheable: bool = True

    def __post_init__(self) -> None:
        """Check the number."""
        if self.correlation_id < 1:
            message = f"correlation_id={self.correlation_id} (request): must be at least 1"
            raise ConfigError(message, knob="correlation_id", value=repr(self.correlation_id), source="request")


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the model wants to be called; `arguments` is the JSON text that it wrote."""

    id: str
    name: str
    arguments: str

    def as_message_part(self) -> dict[str, Any]:
        """As it stands in the assistant's message of a chat completion."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


class LlmResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an operation.

    Attributes:
        correlation_id: the request's.
        response_kind: `MODEL_TEXT`, `TOOL_RESULT`, `ERROR`, ...
        next_step: `STOP` for a final answer, `TOOL_CALL`, `LLM_CALL`, ...
        text: the answer, or what went wrong.
        tool_calls: the tools that the model wants to be called.
        usage: token counts as the provider gave them, e.g. `prompt_tokens`.
        finish_reason: why the model stopped: `stop`, `length`, `tool_calls`, ...; empty when it was not told.
        source: `cache` for an answer that was not asked for live.
    """

    correlation_id: int
    response_kind: str = MODEL_TEXT
    next_step: str = STOP
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Mapping[str, int] = {}
    finish_reason: str = ""
    source: Literal["live", "cache"] = "live"


class Engine(Protocol):
    """Runs operations. May also have `exchange_preview(op)`, `reset_turn_state()`, `ainvoke`, `stream` and `astream`."""

    def invoke(self, io: Any, /) -> Any:  # noqa: ANN401 - duck-typed by contract
        """Run one operation and return its result; a failure is raised, or returned as `response_kind="ERROR"`."""
        ...


@runtime_checkable
class Middleware(Protocol):
    """An engine around another."""

    middleware_id: str

    @property
    def inner(self) -> Any:  # noqa: ANN401 - duck-typed by contract
        """The engine that it wraps."""
        ...

    def invoke(self, io: Any, /) -> Any:  # noqa: ANN401 - duck-typed by contract
        """See `Engine`."""
        ...


class TextStream(Protocol):
    """An answer while it arrives: iterate over its pieces of text, then ask for the `result()`."""

    def __iter__(self) -> Iterator[str]:
        """Itself."""
        ...

    def __next__(self) -> str:
        """The next piece of text.

        Raises:
            ProviderError: the provider broke off.
        """
        ...

    def close(self) -> None:
        """Hang up, unless the answer is complete. Idempotent."""
        ...

    def result(self) -> LlmResult:
        """Read what is left, and return the whole."""
        ...


class AsyncTextStream(Protocol):
    """`TextStream` for a task; use it with `async with`, for Python closes a dropped one late."""

    def __aiter__(self) -> AsyncIterator[str]:
        """Itself."""
        ...

    async def __anext__(self) -> str:
        """See `TextStream`."""
        ...

    async def aclose(self) -> None:
        """See `TextStream.close`."""
        ...

    async def result(self) -> LlmResult:
        """See `TextStream`."""
        ...


class ProviderError(SchedulerError):
    """A live call failed.

    Attributes:
        status: the HTTP status; 0 = there was no answer.
        attempts: how many requests were sent for this call.
    """

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.attempts = 1


class RetryableError(ProviderError):
    """A live call failed in a way that may pass; the scheduler's middleware tries again, outside the slot.

    Attributes:
        retry_after_s: seconds that the provider asks to wait; None = it does not say.
    """

    def __init__(self, message: str, *, status: int = 0, retry_after_s: float | None = None) -> None:
        super().__init__(message, status=status)
        self.retry_after_s = retry_after_s


def is_llm_call(io: object) -> bool:
    """Whether this operation goes to a model."""
    return getattr(io, "op", None) == LLM_CALL


def layers(engine: object) -> Iterator[Any]:
    """The engine and everything that it wraps, outermost first.

    Raises:
        ConfigError: an engine wraps itself.
    """
    seen: set[int] = set()
    layer: object = engine
    while layer is not None:
        if id(layer) in seen:
            raise ConfigError("the pipeline wraps itself: one engine stands in it twice", knob="pipeline", source="pipeline")
        seen.add(id(layer))
        yield layer
        layer = getattr(layer, "inner", None)


def leaf(engine: object) -> Any:  # noqa: ANN401 - duck-typed by contract
    """The innermost engine, the one that calls the provider."""
    *_, last = layers(engine)
    return last
