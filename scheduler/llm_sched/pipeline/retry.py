"""When a failed attempt is tried again: after what the provider asks for, else after a random, growing pause.

The law: decides when, never what; whoever calls it holds no slot while it sleeps. One set of rules for threads and tasks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import msgspec
import tenacity

from llm_sched.errors import ConfigError
from llm_sched.pipeline.exchange import RetryableError

if TYPE_CHECKING:
    from tenacity import RetryCallState

Result = TypeVar("Result")

_FIRST_S = 0.5
_LARGEST_S = 8.0
"""The official SDK's own first and largest pause (`INITIAL_RETRY_DELAY`, `MAX_RETRY_DELAY` in openai-python)."""

_SPREAD = 0.1
"""Callers that were sent away together come back spread over this share of the pause that was asked for."""


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """How often to try again, and how long to wait at most.

    Args:
        max_retries: attempts after the first; 0 = none.
        max_backoff_s: longest pause in seconds; a provider that asks for more is not asked again.

    Raises:
        ConfigError: a value makes no sense.
    """

    max_retries: int = 4
    max_backoff_s: float = 60.0

    def __post_init__(self) -> None:
        """Check both knobs."""
        for knob, kinds in (("max_retries", int), ("max_backoff_s", (int, float))):
            value: Any = getattr(self, knob)
            if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value < float("inf"):
                whole = "whole " if kinds is int else ""
                message = f"{knob}={value!r} (llm_scheduler): must be a {whole}number of at least 0"
                raise ConfigError(message, knob=knob, value=repr(value), source="llm_scheduler")


class Retrier:
    """Calls something until it works, fails for good, or has been tried often enough.

    Args:
        backoff: the knobs.
        sleep: how a thread passes `seconds`.
        sleep_async: how a task does.
    """

    def __init__(
        self,
        backoff: Backoff | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        sleep_async: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.backoff = backoff or Backoff()
        rules: dict[str, Any] = {
            "retry": tenacity.retry_if_exception_type(RetryableError),
            "stop": self._is_enough,
            "wait": self._pause,
            "retry_error_callback": _give_up,
        }
        self._threads = tenacity.Retrying(sleep=sleep, **rules)
        self._tasks = tenacity.AsyncRetrying(sleep=sleep_async, **rules)
        self._growing = tenacity.wait_random_exponential(multiplier=_FIRST_S, max=min(_LARGEST_S, self.backoff.max_backoff_s))

    def call(self, attempt: Callable[[], Result]) -> Result:
        """Run attempts in this thread.

        Raises:
            RetryableError: the last attempt's, when there were enough; every other error at once.
        """
        return self._threads.copy()(attempt)

    async def call_async(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Run attempts in this task. Errors as for `call`."""

        async def once() -> Result:
            return await attempt()

        return await self._tasks.copy()(once)

    def _is_enough(self, state: RetryCallState) -> bool:
        asked = _error(state).retry_after_s
        return state.attempt_number > self.backoff.max_retries or (asked is not None and asked > self.backoff.max_backoff_s)

    def _pause(self, state: RetryCallState) -> float:
        asked = _error(state).retry_after_s
        if asked is None:
            return self._growing(state)
        return asked + tenacity.wait_random(0, _SPREAD * asked)(state)


def _error(state: RetryCallState) -> RetryableError:
    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, RetryableError):  # the rule above asks for none other
        raise TypeError(error)
    return error


def _give_up(state: RetryCallState) -> NoReturn:
    error = _error(state)
    error.attempts = state.attempt_number
    if error.attempts > 1:
        error.args = (f"{error.args[0]} (gave up after {error.attempts} attempts)",)
    raise error
