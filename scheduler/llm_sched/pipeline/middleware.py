"""The scheduler as a layer of a pipeline: each attempt of a live call has a slot, and no pause between attempts has one.

The law: only `LLM_CALL` is paced. The slot is given back whatever the inner engine does. What may be tried again is
`RetryableError`; an engine that retries inside `invoke` keeps its slot meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from llm_sched import borrow, default
from llm_sched.config import Policy
from llm_sched.errors import ConfigError
from llm_sched.pipeline import endpoint
from llm_sched.pipeline.exchange import is_llm_call, layers, leaf
from llm_sched.pipeline.layer import Layer, optional
from llm_sched.pipeline.retry import Backoff, Retrier
from llm_sched.pipeline.streams import (
    AsyncPacedStream,
    AsyncReplayedStream,
    PacedStream,
    ReplayedStream,
    invoke_async,
    open_stream,
    open_stream_async,
)

if TYPE_CHECKING:
    from llm_sched.pipeline.exchange import AsyncTextStream, TextStream
    from llm_sched.scheduler import Scheduler, Slot

MIDDLEWARE_ID = "llm_scheduler"


class LlmSchedulerMiddleware(Layer):
    """Takes a slot for each attempt of an `LLM_CALL`; every other operation passes through.

    Args:
        inner: the engine to pace.
        provider: label of the provider; None = the policy's, else the host of the leaf engine's `api_base`.
        model: name of the model; None = the leaf engine's.
        scheduler: where slots come from; None = the process's, see `install`.
        retrier: when an attempt is repeated.
    """

    middleware_id = MIDDLEWARE_ID

    def __init__(
        self,
        inner: Any,  # noqa: ANN401 - duck-typed by contract
        *,
        provider: str | None = None,
        model: str | None = None,
        scheduler: Scheduler | None = None,
        retrier: Retrier | None = None,
    ) -> None:
        super().__init__(inner)
        self._provider = provider
        self._model = model
        self._scheduler = scheduler
        self._retrier = retrier or Retrier()

    @classmethod
    def wrap(
        cls,
        engine: Any,  # noqa: ANN401 - duck-typed by contract
        params: Mapping[str, Any] | None = None,
        *,
        provider: str | None = None,
        model: str | None = None,
        source: str = "manifest",
    ) -> Any:  # noqa: ANN401 - an engine that is paced already may be anybody's
        """Pace an engine, and make the policy in `params` the process's (environment beats `params`).

        An engine that is paced already is returned as it is, with the new labels and knobs; it is not paced twice.

        Args:
            engine: the engine, or a pipeline of engines.
            params: the policy's knobs, `max_retries` and `max_backoff_s` (see `Backoff`).
            provider: label of the provider; None = the policy's, else the host of the leaf engine's `api_base`.
            model: name of the model; None = the leaf engine's, after mappings.
            source: what to call the parameters' origin in messages.

        Raises:
            ConfigError: an unknown name, or a value that makes no sense.
        """
        policy, backoff = _read(params or {}, source)
        whom = endpoint.endpoint_of(engine)
        policy = default.install(policy)
        paced = next((layer for layer in layers(engine) if getattr(layer, "middleware_id", None) == cls.middleware_id), None)
        if paced is None:
            engine = cls(engine, provider=provider, model=model, retrier=Retrier(backoff))
        elif isinstance(paced, cls):
            paced.relabel(provider, model, Retrier(backoff) if params else None)
            backoff = paced._retrier.backoff  # noqa: SLF001 - one of our own class
        label = provider or policy.provider or whom.provider
        endpoint.resolve(whom._replace(provider=label, model=model or whom.model, backoff=backoff))
        return engine

    def relabel(self, provider: str | None, model: str | None, retrier: Retrier | None) -> None:
        """Take on other labels and another rule for repeating; what is None stays as it is."""
        self._provider = provider or self._provider
        self._model = model or self._model
        self._retrier = retrier or self._retrier

    def invoke(self, io: Any) -> Any:  # noqa: ANN401 - duck-typed by contract
        """Run one operation; an `LLM_CALL` with a slot for each attempt.

        Raises:
            SlotTimeout: no slot came in time.
            ProviderError: the call failed for good, or too often.
        """
        if not is_llm_call(io):
            return self.inner.invoke(io)
        return self._retrier.call(partial(self._attempt, io))

    async def ainvoke(self, io: Any) -> Any:  # noqa: ANN401 - duck-typed by contract
        """`invoke` for a task."""
        if not is_llm_call(io):
            return await invoke_async(self.inner, io)
        return await self._retrier.call_async(partial(self._attempt_async, io))

    def stream(self, io: Any) -> TextStream:  # noqa: ANN401 - duck-typed by contract
        """Begin an `LLM_CALL` whose answer is read piece by piece; it holds its slot to its last byte or `close()`.

        What fails before the answer begins is tried again; what breaks off later is not. Errors as for `invoke`.
        """
        if not is_llm_call(io):
            return open_stream(self.inner, io)
        return self._retrier.call(partial(self._open, io))

    async def astream(self, io: Any) -> AsyncTextStream:  # noqa: ANN401 - duck-typed by contract
        """`stream` for a task; use what it returns with `async with`."""
        if not is_llm_call(io):
            return await open_stream_async(self.inner, io)
        return await self._retrier.call_async(partial(self._open_async, io))

    def _target(self) -> tuple[Scheduler, str | None, str | None]:
        scheduler = self._scheduler or default.current()
        whom = endpoint.endpoint_of(self.inner)
        check = optional(leaf(self.inner), "check_ready")
        if check is not None:
            check()  # what cannot be sent anyway does not wait in the queue first
        return scheduler, self._provider or scheduler.policy.provider or whom.provider, self._model or whom.model

    def _attempt(self, io: object) -> Any:  # noqa: ANN401 - duck-typed by contract
        scheduler, provider, model = self._target()
        with scheduler.slot(provider=provider, model=model):
            return self.inner.invoke(io)

    async def _attempt_async(self, io: object) -> Any:  # noqa: ANN401 - duck-typed by contract
        scheduler, provider, model = self._target()
        async with scheduler.slot(provider=provider, model=model):
            return await invoke_async(self.inner, io)

    def _open(self, io: object) -> TextStream:
        scheduler, provider, model = self._target()
        slot = scheduler.borrowed(provider, model) or scheduler.acquire(provider=provider, model=model)
        kept = False
        try:
            token = borrow.lend(slot, scheduler)
            try:
                stream = open_stream(self.inner, io)
            finally:
                borrow.withdraw(token)
            kept = not isinstance(stream, ReplayedStream)  # such an answer is complete
            return PacedStream(stream, slot) if kept else stream
        finally:
            _release_unless(slot, kept)

    async def _open_async(self, io: object) -> AsyncTextStream:
        scheduler, provider, model = self._target()
        slot = scheduler.borrowed(provider, model) or await scheduler.acquire_async(provider=provider, model=model)
        kept = False
        try:
            token = borrow.lend(slot, scheduler)
            try:
                stream = await open_stream_async(self.inner, io)
            finally:
                borrow.withdraw(token)
            kept = not isinstance(stream, AsyncReplayedStream)
            return cast("AsyncTextStream", AsyncPacedStream(stream, slot)) if kept else stream
        finally:
            _release_unless(slot, kept)


def _release_unless(slot: Slot, kept: bool) -> None:  # noqa: FBT001 - it is what the caller has found out
    if not kept:
        slot.release()


_BACKOFF = Backoff.__struct_fields__
_KNOBS = (*(name for name in Policy.__struct_fields__ if name != "sources"), *_BACKOFF)


def _read(params: Mapping[str, Any], source: str) -> tuple[Policy, Backoff]:
    """Split parameters into the policy and what is said about retries."""
    for knob in params:
        if knob not in _KNOBS:
            close = get_close_matches(str(knob), _KNOBS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"the knobs are {', '.join(_KNOBS)}"
            raise ConfigError(f"unknown knob {knob!r} ({source}): {hint}", knob=str(knob), source=source)
    given = {knob: value for knob, value in params.items() if value is not None}
    backoff = msgspec.structs.replace(Backoff(), **{knob: given[knob] for knob in _BACKOFF if knob in given})
    policy = Policy.from_params({knob: value for knob, value in given.items() if knob not in _BACKOFF}, source=source)
    return policy, backoff
