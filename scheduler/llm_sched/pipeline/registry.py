"""From an `Infra` to a stack of engines."""

# Law: puts together what others make. The provider is innermost, the first layer outermost. A key is looked for when a
# live call needs it, and not before: what is in the cache can be asked without one.

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from llm_sched.pipeline import endpoint
from llm_sched.pipeline.cache import LlmCacheMiddleware
from llm_sched.pipeline.engine_mock import MockEngine
from llm_sched.pipeline.engine_openai import REQUEST_TIMEOUT_S, OpenAiEngine
from llm_sched.pipeline.faults import FaultMiddleware
from llm_sched.pipeline.infra import Infra, LayerSpec, Provider
from llm_sched.pipeline.middleware import LlmSchedulerMiddleware
from llm_sched.pipeline.problems import ManifestError

Wrap: TypeAlias = Callable[[Any, LayerSpec], Any]


def _cache(engine: Any, layer: LayerSpec) -> Any:  # noqa: ANN401 - engines are duck-typed
    return LlmCacheMiddleware.wrap(engine, layer.params, source=layer.place)


def _scheduler(engine: Any, layer: LayerSpec) -> Any:  # noqa: ANN401 - likewise
    return LlmSchedulerMiddleware.wrap(engine, layer.params, source=layer.place)


def _faults(engine: Any, layer: LayerSpec) -> Any:  # noqa: ANN401 - likewise
    return FaultMiddleware.wrap(engine, layer.params)


MIDDLEWARES: Mapping[str, Wrap] = {"llm_cache": _cache, "llm_scheduler": _scheduler, "fault_inject": _faults}
"""Registry id -> how a layer wraps an engine. Their parameters' shapes are in `params`."""


def build(infra: Infra, model: str | None = None) -> Any:  # noqa: ANN401 - engines are duck-typed
    """Put a pipeline together, install its scheduler's policy, and make its endpoint the judge's.

    Args:
        infra: from `load_infra`.
        model: name of the model, before mappings; None = the infra's default.

    Returns:
        The outermost engine. The conversation is in `leaf(engine).messages`.

    Raises:
        ManifestError: there is no model, or it is not allowed; there is no provider.
        ConfigError: the environment overrides a knob with something that makes no sense.
    """
    name = model or infra.models.default
    if infra.provider is None:
        raise ManifestError("no provider: add a ref such as standard:openai")
    if not name:
        raise ManifestError("no model: name one in the agent's spec.models, or set MAS_CTL_MODEL")
    engine: Any = _leaf(infra.provider, infra.models.resolve(name))
    for layer in reversed(infra.layers):
        engine = MIDDLEWARES[layer.middleware](engine, layer)
    if not any(layer.middleware == "llm_scheduler" for layer in infra.layers):
        endpoint.resolve(endpoint.endpoint_of(engine))
    return engine


def _leaf(provider: Provider, model: str) -> MockEngine | OpenAiEngine:
    if provider.mock:
        return MockEngine(model, replies=provider.params.get("replies"))
    needs_key = provider.key_required or bool(os.environ.get(provider.api_key_env))
    return OpenAiEngine(
        model,
        api_base=provider.api_base,
        api_key_env=provider.api_key_env if needs_key else None,
        timeout_s=provider.timeout_s or REQUEST_TIMEOUT_S,
    )
