"""The judge: a model that answers in JSON, with a cache of its own and slots out of the same buckets as everybody's.

The law: it is a pipeline like any other, cache -> check -> scheduler -> provider, so a hit takes no slot and every live
call, a repair too, takes one. Only answers that conform are cached.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from llm_sched.errors import ConfigError, SchedulerError
from llm_sched.pipeline import endpoint
from llm_sched.pipeline.cache import LlmCacheMiddleware, read_params
from llm_sched.pipeline.cache_store import cache_files
from llm_sched.pipeline.engine_openai import OpenAiEngine
from llm_sched.pipeline.exchange import LlmRequest, LlmResult
from llm_sched.pipeline.layer import Layer
from llm_sched.pipeline.middleware import LlmSchedulerMiddleware
from llm_sched.pipeline.retry import Backoff, Retrier
from llm_sched.pipeline.schemas import Schema, checked, json_in, schema_document

_ANSWER_IN_JSON = "Answer with one JSON document and nothing else: no explanation, no code fence."
_CONFORM = "It must conform to this JSON Schema:"
_REPAIR = "That is not what was asked for: {problem}\nAnswer again, with the corrected JSON document and nothing else."


class JudgeError(SchedulerError):
    """The judge's answer does not conform, after a repair either.

    Attributes:
        problem: what is wrong with the last answer.
        answer: the last answer.
    """

    def __init__(self, message: str, *, problem: str = "", answer: str = "") -> None:
        super().__init__(message)
        self.problem = problem
        self.answer = answer


class _Checked(Layer):
    """Lets through only answers that conform; asks once more when one does not."""

    middleware_id = "json_check"

    def __init__(self, inner: Any, conversation: list[dict[str, Any]], schema: Schema | None) -> None:  # noqa: ANN401
        super().__init__(inner)
        self._conversation = conversation
        self._schema = schema

    def invoke(self, io: LlmRequest) -> LlmResult:
        """Ask, check, ask again, check."""
        result: LlmResult = self.inner.invoke(io)
        problem = self._problem(result)
        if not problem:
            return result
        asked = len(self._conversation)
        self._conversation += [
            {"role": "assistant", "content": result.text},
            {"role": "user", "content": _REPAIR.format(problem=problem)},
        ]
        try:
            result = self.inner.invoke(io)
        finally:
            del self._conversation[asked:]
        problem = self._problem(result)
        if problem:
            message = f"the judge's answer does not conform, after a repair either: {problem}"
            raise JudgeError(message, problem=problem, answer=result.text)
        return result

    def _problem(self, result: LlmResult) -> str:
        try:
            checked(json_in(result.text), self._schema)
        except ValueError as error:
            return str(error)
        return ""


class LlmService:
    """Makes the judge's calls; threads may share one. See `install_openai_llm_service`.

    Args:
        make_engine: model -> a leaf engine with `messages`, one for each call.
        cache: holds the cache; its inner engine is exchanged for each call.
        model: the model when a call names none; None = a call must.
        provider: label of the provider; None = the engine's.
        backoff: when a failed attempt is tried again; None = as usual.
    """

    def __init__(
        self,
        make_engine: Callable[[str], Any],
        cache: LlmCacheMiddleware,
        model: str | None,
        provider: str | None,
        backoff: Backoff | None = None,
    ) -> None:
        self._make_engine = make_engine
        self._cache = cache
        self._provider = provider
        self._retrier = Retrier(backoff)
        self.model = model

    def complete_json(
        self, prompt: str | Sequence[Mapping[str, Any]], schema: Schema | None = None, model: str | None = None
    ) -> Any:  # noqa: ANN401 - any JSON, or the model's instance
        """See the function `complete_json`."""
        name = model or self.model
        if not name:
            message = "the judge has no model: pass model_override to install_openai_llm_service, or model to complete_json"
            raise ConfigError(message, knob="model", source="judge")
        engine = self._make_engine(name)
        engine.messages = _conversation(prompt, schema_document(schema))
        paced = LlmSchedulerMiddleware(engine, provider=self._provider, retrier=self._retrier)
        result = self._cache.around(_Checked(paced, engine.messages, schema)).invoke(LlmRequest())
        return checked(json_in(result.text), schema)


def _conversation(prompt: str | Sequence[Mapping[str, Any]], document: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The messages to send; what the answer must look like stands in the one system message."""
    told = _ANSWER_IN_JSON if document is None else f"{_ANSWER_IN_JSON} {_CONFORM}\n{json.dumps(document, sort_keys=True)}"
    asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(message) for message in prompt]
    if asked and asked[0].get("role") == "system" and isinstance(asked[0].get("content"), str):
        told = f"{asked.pop(0)['content']}\n\n{told}"
    return [{"role": "system", "content": told}, *asked]


class _Installed(NamedTuple):
    """A service, and what it was made from."""

    origin: tuple[object, ...]
    service: LlmService


_lock = threading.Lock()
_installed: list[_Installed] = []


def install_openai_llm_service(
    model_override: str | None = None,
    *,
    api_key_env: str | None = None,
    cache_params: Mapping[str, Any] | None = None,
    make_engine: Callable[[str], Any] | None = None,
) -> LlmService:
    """Make the process's judge service and return it; with the same arguments again, the same one.

    It calls the endpoint of the resolved pipeline (`endpoint.resolved()`; without one, OpenAI's) under the process's policy,
    so out of the same buckets as the pipeline's calls; without an installed policy, under the default one.

    Args:
        model_override: the judge's model; None = the pipeline's.
        api_key_env: name of the variable that holds the key; None = the pipeline's, else `OPENAI_API_KEY`.
        cache_params: knobs of the judge's cache, see `CacheParams`; its place is beside the pipeline's cache.
        make_engine: model -> leaf engine, for an endpoint that `OpenAiEngine` does not speak to.

    Raises:
        ConfigError: the resolved pipeline has no base URL, or a value makes no sense.
    """
    resolved = endpoint.resolved()
    params = {"cache_path": _cache_path(), **{knob: value for knob, value in (cache_params or {}).items() if value is not None}}
    origin = (model_override, api_key_env, sorted(params.items()), make_engine, resolved)
    with _lock:
        if not _installed or _installed[0].origin != origin:
            whom = resolved or endpoint.Endpoint()
            cache = LlmCacheMiddleware(None, read_params(params, "judge"))
            factory = make_engine or _openai_factory(whom, resolved is not None, api_key_env)
            service = LlmService(factory, cache, model_override or whom.model, whom.provider, whom.backoff)
            _installed[:] = [_Installed(origin, service)]
        return _installed[0].service


def _cache_path() -> str:
    store, _ = cache_files()
    return str(store.with_name(f"{store.stem}_judge.sqlite3"))


def _openai_factory(whom: endpoint.Endpoint, is_resolved: bool, api_key_env: str | None) -> Callable[[str], Any]:  # noqa: FBT001
    if whom.api_base is None and whom.provider is not None:
        message = f"the judge has no endpoint: the resolved pipeline calls {whom.provider!r}, which has no api_base"
        raise ConfigError(message, knob="api_base", source="judge")
    key = api_key_env or (whom.api_key_env if is_resolved else "OPENAI_API_KEY")
    engine = OpenAiEngine(whom.model or "", api_base=whom.api_base, api_key_env=key)
    return engine.sibling


def complete_json(prompt: str | Sequence[Mapping[str, Any]], schema: Schema | None = None, model: str | None = None) -> Any:  # noqa: ANN401 - any JSON, or the model's instance
    """Ask the judge for JSON; out of its cache if it was asked before. Installs the service if nobody has.

    Args:
        prompt: the question, or a conversation of messages.
        schema: what the answer must conform to: a pydantic model class, or a JSON Schema; None = any JSON.
        model: the judge's model; None = the installed one.

    Returns:
        The JSON value, or an instance of the pydantic model.

    Raises:
        JudgeError: the answer does not conform, after a repair either.
        ConfigError: there is no model, no key, or the schema is none.
        SlotTimeout: no slot came in time.
        ProviderError: the call failed.
    """
    service = _installed[0].service if _installed else install_openai_llm_service()
    return service.complete_json(prompt, schema, model)
