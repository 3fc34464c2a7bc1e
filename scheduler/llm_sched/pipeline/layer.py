"""What all our middlewares have in common: an inner engine, whose other members they show as their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast


def optional(engine: object, name: str) -> Callable[..., Any] | None:
    """A method that an engine may have; None = it lacks it."""
    member = getattr(engine, name, None)
    return cast("Callable[..., Any]", member) if callable(member) else None


class Layer:
    """An engine around another. Members that it lacks, e.g. `exchange_preview` or `messages`, are the inner engine's.

    Attributes:
        middleware_id: the name under which manifests know it.
        inner: the engine that it wraps.
    """

    middleware_id = ""

    def __init__(self, inner: Any) -> None:  # noqa: ANN401 - duck-typed by contract
        self.inner = inner

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - duck-typed by contract
        if name == "inner" or name.startswith("_"):  # a half-made copy has no inner engine yet
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return getattr(self.inner, name)
