"""`fault_inject`: a layer that lets some calls fail on purpose, as an overloaded provider would."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from llm_sched.pipeline.exchange import ProviderError, RetryableError, is_llm_call
from llm_sched.pipeline.layer import Layer
from llm_sched.pipeline.streams import invoke_async, open_stream, open_stream_async

if TYPE_CHECKING:
    from llm_sched.pipeline.exchange import AsyncTextStream, TextStream

MIDDLEWARE_ID = "fault_inject"

_MAY_PASS = {408, 409, 429}
_SERVER_ERROR = 500
"""What the official SDK itself tries again (`_should_retry` in openai-python)."""


class FaultMiddleware(Layer):
    """Lets a share of the `LLM_CALL`s fail; every other operation passes through.

    Inside the scheduler its retryable failures are tried again, each with a slot of its own, as real ones are.

    Args:
        inner: the engine to disturb.
        rate: share of calls that fail, 0 to 1.
        status_codes: HTTP statuses to fail with, one at random.
        message: what the failure says.
        dice: where chance comes from.
    """

    middleware_id = MIDDLEWARE_ID

    def __init__(
        self,
        inner: Any,  # noqa: ANN401 - duck-typed by contract
        *,
        rate: float = 0.0,
        status_codes: tuple[int, ...] = (503,),
        message: str = "injected fault",
        dice: random.Random | None = None,
    ) -> None:
        super().__init__(inner)
        self._rate = rate
        self._status_codes = status_codes
        self._message = message
        self._dice = dice or random.Random()  # noqa: S311 - no secret

    @classmethod
    def wrap(cls, inner: Any, params: Mapping[str, Any]) -> FaultMiddleware:  # noqa: ANN401 - duck-typed by contract
        """Disturb an engine; `params` have been checked."""
        knobs: dict[str, Any] = {**params, "status_codes": tuple(params.get("status_codes", (503,)))}
        return cls(inner, **knobs)

    def invoke(self, io: Any) -> Any:  # noqa: ANN401 - duck-typed by contract
        """Run one operation, or fail.

        Raises:
            ProviderError: chance wanted it.
        """
        self._throw(io)
        return self.inner.invoke(io)

    async def ainvoke(self, io: Any) -> Any:  # noqa: ANN401 - duck-typed by contract
        """`invoke` for a task."""
        self._throw(io)
        return await invoke_async(self.inner, io)

    def stream(self, io: Any) -> TextStream:  # noqa: ANN401 - duck-typed by contract
        """Begin an answer, or fail."""
        self._throw(io)
        return open_stream(self.inner, io)

    async def astream(self, io: Any) -> AsyncTextStream:  # noqa: ANN401 - duck-typed by contract
        """`stream` for a task."""
        self._throw(io)
        return await open_stream_async(self.inner, io)

    def _throw(self, io: object) -> None:
        if not is_llm_call(io) or self._dice.random() >= self._rate:
            return
        status = self._dice.choice(self._status_codes)
        kind = RetryableError if status in _MAY_PASS or status >= _SERVER_ERROR else ProviderError
        raise kind(f"{self._message} (HTTP {status})", status=status)
