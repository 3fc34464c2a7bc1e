"""Whom a pipeline calls: base URL, model and label of its leaf engine, and which endpoint this process has resolved.

The law: labels come from here and nowhere else, so that all layers and processes name the same bucket.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from llm_sched import labels
from llm_sched.errors import ConfigError
from llm_sched.pipeline.exchange import leaf

if TYPE_CHECKING:
    from llm_sched.pipeline.retry import Backoff

OPENAI_API_BASE = "https://api.openai.com/v1"


class Endpoint(NamedTuple):
    """Whom the leaf engine calls.

    Attributes:
        provider: label of the provider; None = it cannot be told.
        model: name of the model, after mappings; None = it cannot be told.
        api_base: base URL; None = OpenAI's own, or no HTTP at all.
        api_key_env: name of the variable that holds the key; None = no key.
        backoff: when a failed attempt is tried again; None = as usual.
    """

    provider: str | None = None
    model: str | None = None
    api_base: str | None = None
    api_key_env: str | None = None
    backoff: Backoff | None = None


def resolved_api_base(api_base: str | None) -> str:
    """The base URL that the official SDK would use: the given one, else `OPENAI_BASE_URL`, else OpenAI's."""
    return api_base or os.environ.get("OPENAI_BASE_URL") or OPENAI_API_BASE


def provider_label(api_base: str) -> str:
    """The label of the provider behind a base URL, see `llm_sched.labels`.

    Raises:
        ConfigError: it is no http(s) URL.
    """
    try:
        if urlsplit(api_base).scheme in {"http", "https"}:
            return labels.provider_label(api_base)
    except ValueError:
        pass
    message = f"api_base={api_base!r}: is no http:// or https:// URL"
    raise ConfigError(message, knob="api_base", value=repr(api_base), source="engine")


def endpoint_of(engine: object) -> Endpoint:
    """Read the endpoint off the leaf of a pipeline, as far as that has `provider`, `model`, `api_base` and `api_key_env`.

    Raises:
        ConfigError: its base URL is none.
    """
    last = leaf(engine)
    api_base = _text(last, "api_base")
    label = provider_label(api_base) if api_base else _text(last, "provider")
    return Endpoint(label, _text(last, "model"), api_base, _text(last, "api_key_env"))


def _text(engine: object, name: str) -> str | None:
    value: object = getattr(engine, name, None)
    return value if isinstance(value, str) and value else None


_resolved: list[Endpoint] = []


def resolve(endpoint: Endpoint) -> None:
    """Make this the process's endpoint: the one that a judge without an endpoint of its own calls. The last call wins."""
    _resolved[:] = [endpoint]


def resolved() -> Endpoint | None:
    """The process's endpoint; None = no pipeline has been put together in this process."""
    return _resolved[0] if _resolved else None
