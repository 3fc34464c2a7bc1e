"""The cache as a layer of a pipeline: outside the scheduler, so that a hit asks for no slot.

The law: only final text answers to `LLM_CALL` are stored: no error, no tool call, nothing cut off, nothing that anybody marked
as not cacheable. A failing store never costs an answer that was paid for.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from llm_sched.errors import ConfigError
from llm_sched.pipeline.cache_flights import Flights
from llm_sched.pipeline.cache_protocol import CacheProtocol, run, run_async
from llm_sched.pipeline.cache_store import CacheStore, Entry, cache_files
from llm_sched.pipeline.cache_streams import AsyncRecordedStream, RecordedStream, Recording
from llm_sched.pipeline.endpoint import endpoint_of
from llm_sched.pipeline.exchange import LLM_CALL, LlmResult, is_llm_call, leaf
from llm_sched.pipeline.layer import Layer, optional
from llm_sched.pipeline.streams import AsyncReplayedStream, ReplayedStream, invoke_async, open_stream, open_stream_async

if TYPE_CHECKING:
    from llm_sched.pipeline.exchange import AsyncTextStream, TextStream

MIDDLEWARE_ID = "llm_cache"


class CacheParams(msgspec.Struct, frozen=True, kw_only=True):
    """The cache's knobs.

    Args:
        enabled: False lets every call through.
        cache_path: the host's JSON file beside which the store is, or the SQLite store itself; None = `MAS_LLM_CACHE`,
            else `$XDG_CACHE_HOME/mas/llm_cache.json`.
        cacheable: False neither looks for nor stores anything: the policy for answers that must be new.
        single_flight: whether identical calls in flight at once, in any process, are made once.
        flight_timeout_s: longest wait for the one that is made, in seconds; then the call is made after all.
    """

    enabled: bool = True
    cache_path: str | None = None
    cacheable: bool = True
    single_flight: bool = True
    flight_timeout_s: float = 300.0


class _Keys(NamedTuple):
    """Names of a call: ours, which tells providers and settings apart, and the host's, for what was taken in from it."""

    own: str
    host: str


class LlmCacheMiddleware(Layer):
    """Answers an `LLM_CALL` from the store when it can; every other operation passes through.

    Args:
        inner: the engine to ask when there is no answer; its leaf tells the question by `model`, `messages` and `tools`,
            or by `exchange_preview`.
        params: the knobs.
    """

    middleware_id = MIDDLEWARE_ID

    def __init__(self, inner: Any, params: CacheParams | None = None) -> None:  # noqa: ANN401 - duck-typed by contract
        super().__init__(inner)
        knobs = params or CacheParams()
        store, imports = cache_files(knobs.cache_path)
        self._is_on = knobs.enabled and knobs.cacheable
        self._store = CacheStore(store, imports)
        flights = Flights(store.with_name(f"{store.name}.flights")) if knobs.single_flight else None
        self._protocol = CacheProtocol(self._store, flights, knobs.flight_timeout_s)

    @classmethod
    def wrap(
        cls,
        inner: Any,  # noqa: ANN401 - duck-typed by contract
        params: Mapping[str, Any] | None = None,
        *,
        source: str = "manifest",
    ) -> LlmCacheMiddleware:
        """Put a cache around an engine.

        Args:
            inner: the engine, or a pipeline of engines.
            params: see `CacheParams`; None values count as not given.
            source: what to call the parameters' origin in messages.

        Raises:
            ConfigError: an unknown name, or a value that makes no sense.
        """
        return cls(inner, read_params(params or {}, source))

    def around(self, inner: Any) -> LlmCacheMiddleware:  # noqa: ANN401 - duck-typed by contract
        """The same cache, with the same open store, around another engine."""
        other = copy.copy(self)
        other.inner = inner
        return other

    def invoke(self, io: Any) -> Any:  # noqa: ANN401 - duck-typed by contract
        """Answer from the store, else ask the inner engine.

        Raises:
            CacheError: the store cannot be read.
        """
        keys = self._keys(io)
        if keys is None:
            return self.inner.invoke(io)
        found = run(self._protocol.find(*keys))
        if found.entry is not None:
            return self._replay(found.entry, io)
        try:
            result = self.inner.invoke(io)
        except BaseException as error:
            run(self._protocol.abandon(keys.own, found.flight, error))
            raise
        run(self._protocol.settle(keys.own, found.flight, result))
        return result

    async def ainvoke(self, io: Any) -> Any:  # noqa: ANN401 - duck-typed by contract
        """`invoke` for a task."""
        keys = self._keys(io)
        if keys is None:
            return await invoke_async(self.inner, io)
        found = await run_async(self._protocol.find(*keys))
        if found.entry is not None:
            return self._replay(found.entry, io)
        try:
            result = await invoke_async(self.inner, io)
        except BaseException as error:
            await run_async(self._protocol.abandon(keys.own, found.flight, error))
            raise
        await run_async(self._protocol.settle(keys.own, found.flight, result))
        return result

    def stream(self, io: Any) -> TextStream:  # noqa: ANN401 - duck-typed by contract
        """Answer from the store in one piece, else stream from the inner engine; stored when it was read to its end."""
        keys = self._keys(io)
        if keys is None:
            return open_stream(self.inner, io)
        found = run(self._protocol.find(*keys))
        if found.entry is not None:
            return ReplayedStream(_result(found.entry, io))
        recording = Recording(self._protocol, keys.own, found.flight)
        try:
            return RecordedStream(open_stream(self.inner, io), recording)
        except BaseException as error:
            run(recording.broke_off(error))
            raise

    async def astream(self, io: Any) -> AsyncTextStream:  # noqa: ANN401 - duck-typed by contract
        """`stream` for a task."""
        keys = self._keys(io)
        if keys is None:
            return await open_stream_async(self.inner, io)
        found = await run_async(self._protocol.find(*keys))
        if found.entry is not None:
            return AsyncReplayedStream(_result(found.entry, io))
        recording = Recording(self._protocol, keys.own, found.flight)
        try:
            return AsyncRecordedStream(await open_stream_async(self.inner, io), recording)
        except BaseException as error:
            await run_async(recording.broke_off(error))
            raise

    def close(self) -> None:
        """Close the store; the next call opens it again."""
        self._store.close()

    def _replay(self, entry: Entry, io: Any) -> LlmResult:  # noqa: ANN401 - duck-typed by contract
        result = _result(entry, io)
        on_text = optional(leaf(self.inner), "on_text")
        if on_text is not None:
            on_text(result.text)
        return result

    def _keys(self, io: object) -> _Keys | None:
        last = leaf(self.inner)
        if not self._is_on or not is_llm_call(io) or not _may_store(io) or getattr(last, "cacheable", True) is False:
            return None
        question = _question(last, self.inner)
        return None if question is None else _Keys(_own_key(last, question), _digest(question))


def _may_store(io: object) -> bool:
    """Whether the request's policy lets its answer be one from before: what changes something outside must happen."""
    return getattr(io, "cacheable", True) is not False and getattr(io, "destructive", False) is not True


def _question(last: object, inner: object) -> str | None:
    """What is asked, in the host's canonical form; None = the engine does not tell."""
    messages = getattr(last, "messages", None)
    if isinstance(messages, list):
        asked: dict[str, Any] = {
            "model": getattr(last, "model", ""),
            "messages": messages,
            "tools": list(getattr(last, "tools", None) or ()),
        }
        return json.dumps(asked, sort_keys=True, default=_plain)
    preview = optional(inner, "exchange_preview")
    return str(preview(LLM_CALL)) if preview is not None else None


def _own_key(last: object, question: str) -> str:
    """The key that also tells apart what the host's does not: provider, model and settings."""
    settings = {name: getattr(last, name, None) for name in ("model", "temperature", "max_tokens")}
    return _digest(json.dumps({"question": question, "provider": endpoint_of(last).provider, **settings}, sort_keys=True))


def _plain(value: Any) -> Any:  # noqa: ANN401 - an SDK's message object, or anything
    return value.model_dump() if hasattr(value, "model_dump") else repr(value)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _result(entry: Entry, io: Any) -> LlmResult:  # noqa: ANN401 - duck-typed by contract
    return LlmResult(correlation_id=io.correlation_id, text=entry.text, usage=entry.usage, finish_reason="stop", source="cache")


_KNOBS = CacheParams.__struct_fields__


def read_params(params: Mapping[str, Any], source: str = "manifest") -> CacheParams:
    """Read the cache's knobs out of a manifest's parameters; see `LlmCacheMiddleware.wrap`."""
    for knob in params:
        if knob not in _KNOBS:
            close = get_close_matches(str(knob), _KNOBS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"the knobs are {', '.join(_KNOBS)}"
            raise ConfigError(f"unknown knob {knob!r} ({source}): {hint}", knob=str(knob), source=source)
    given = {knob: value for knob, value in params.items() if value is not None}
    for knob, value in given.items():
        try:
            checked = msgspec.convert({knob: value}, CacheParams)
        except msgspec.ValidationError as error:
            reason = str(error).partition(" - at")[0]
            raise ConfigError(f"{knob}={value!r} ({source}): {reason}", knob=knob, value=repr(value), source=source) from None
        if not checked.flight_timeout_s >= 0:
            message = f"{knob}={value!r} ({source}): must be a number of at least 0"
            raise ConfigError(message, knob=knob, value=repr(value), source=source)
    return msgspec.convert(given, CacheParams)
