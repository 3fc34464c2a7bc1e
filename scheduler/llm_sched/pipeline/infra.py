"""What infra refs come to: the layers in order, the provider, the models. And how two of them merge."""

# Law: frozen values and pure functions. First layer = outermost; the last provider wins; models are united.

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any

from llm_sched.pipeline.problems import ManifestError, suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CACHE, SCHEDULER = "llm_cache", "llm_scheduler"


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """One middleware.

    Attributes:
        middleware: its registry id, e.g. `llm_cache`.
        params: its parameters, checked.
        place: `file:line:column` where it is asked for.
        ref: how a user would list it, e.g. `standard:llm-cache`.
    """

    middleware: str
    params: Mapping[str, Any]
    place: str
    ref: str


@dataclass(frozen=True, slots=True)
class Provider:
    """An OpenAI-compatible endpoint, or the mock.

    Attributes:
        api_base: URL that ends before `/chat/completions`.
        api_key_env: name of the variable that holds the key; empty = no key.
        key_required: whether that variable must be set.
        timeout_s: seconds for one request; None = the SDK's default.
        mock: answers without any network.
        params: parameters of the mock.
        place: where it is described.
    """

    api_base: str
    api_key_env: str = ""
    key_required: bool = False
    timeout_s: float | None = None
    mock: bool = False
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    place: str = ""


@dataclass(frozen=True, slots=True)
class ModelNames:
    """Which models may be asked for (empty = all), what the provider calls them, and the default one."""

    allowed: tuple[str, ...] = ()
    mappings: Mapping[str, str] = field(default_factory=dict[str, str])
    default: str | None = None

    def resolve(self, model: str) -> str:
        """The provider's name of a model.

        Raises:
            ManifestError: it is not among the allowed ones.
        """
        name = self.mappings.get(model, model)
        if self.allowed and model not in self.allowed and name not in self.allowed:
            raise ManifestError(f"model {model!r} is not allowed by the infra refs; {suggestion(model, self.allowed)}")
        return name


@dataclass(frozen=True, slots=True)
class Infra:
    """A pipeline, not built yet.

    Attributes:
        layers: outermost first.
        provider: None = no ref named one.
        models: their names.
        notes: what should be said to the user, one line each.
    """

    layers: tuple[LayerSpec, ...] = ()
    provider: Provider | None = None
    models: ModelNames = ModelNames()
    notes: tuple[str, ...] = ()


def merged(parts: Iterable[Infra]) -> Infra:
    """Several as one, in order."""
    return reduce(_both, parts, Infra())


def _both(first: Infra, second: Infra) -> Infra:
    a, b = first.models, second.models
    models = ModelNames(
        allowed=tuple(dict.fromkeys((*a.allowed, *b.allowed))),
        mappings={**a.mappings, **b.mappings},
        default=b.default or a.default,
    )
    return Infra(
        layers=(*first.layers, *second.layers),
        provider=second.provider or first.provider,
        models=models,
        notes=(*first.notes, *second.notes),
    )


def order_notes(layers: Iterable[LayerSpec]) -> list[str]:
    """Warnings about an order that works but costs."""
    outer: LayerSpec | None = None
    for layer in layers:
        if layer.middleware == SCHEDULER:
            outer = outer or layer
        elif layer.middleware == CACHE and outer:
            cost = "every cache hit takes a slot and waits for its turn and the rate limit"
            cure = f"Turn them round: list {layer.ref} before {outer.ref}"
            return [f"{SCHEDULER} ({outer.ref}) stands outside {CACHE} ({layer.ref}): {cost}. {cure}"]
    return []
