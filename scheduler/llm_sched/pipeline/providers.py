"""Providers in manifests: `LLMProxy`, `LLMLocal`, and bare URLs."""

# Law: pure. It holds names of variables with keys, never a key, and refuses a key that stands where a name belongs.

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from llm_sched.pipeline import kinds
from llm_sched.pipeline.environment import variables
from llm_sched.pipeline.infra import Infra, ModelNames, Provider
from llm_sched.pipeline.problems import ManifestError

if TYPE_CHECKING:
    from llm_sched.pipeline.documents import Document

OPENAI_KEY = "OPENAI_API_KEY"
LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRETS = ("api_key", "key", "token", "password")


def endpoint_of_url(url: str) -> Provider:
    """A bare OpenAI-compatible endpoint. It gets the key in OPENAI_API_KEY; on this machine it needs none.

    Raises:
        ManifestError: it is no usable URL, or holds a password.
    """
    problem = _url_problem(url)
    if problem:
        raise ManifestError(f"{_without_secrets(url)}: {problem}")
    return Provider(url, OPENAI_KEY, key_required=urlsplit(url).hostname not in LOOPBACK, place=url)


def provider_of(document: Document, content: kinds.LLMProxy | kinds.LLMLocal) -> tuple[Infra, list[str], list[str]]:
    """What a provider's document says.

    Returns:
        The part, the problems, and which variables would have named the endpoint but are not set.
    """
    spec = content.spec
    name = "server" if spec.proxy is None and spec.server is not None else "proxy"
    endpoint = (spec.server if name == "server" else spec.proxy) or kinds.Endpoint()
    keys = ("spec", name)
    problems = _endpoint_problems(document, endpoint, keys)
    unset: list[str] = []
    provider: Provider | None = None
    if spec.model_access and spec.model_access.provider == "mock":
        provider = Provider("", mock=True, params=spec.model_access.params or {}, place=document.where())
    elif endpoint.api_base:
        provider = _provider(document, endpoint, local=content.kind == "LLMLocal")
    elif names := variables(document.value((*keys, "api_base"))):
        unset.append(f"{document.where((*keys, 'api_base'))}: {' and '.join(names)} not set")
    return Infra(provider=provider, models=_models(spec)), problems, unset


def _provider(document: Document, endpoint: kinds.Endpoint, *, local: bool) -> Provider:
    named = endpoint.api_key_env is not None
    variable = endpoint.api_key_env or ""
    if not named and not local:
        variable = OPENAI_KEY
    return Provider(
        api_base=endpoint.api_base or "",
        api_key_env=variable,
        key_required=bool(variable),
        timeout_s=endpoint.timeout,
        place=document.where(),
    )


def _models(spec: kinds.ProviderSpec) -> ModelNames:
    models = spec.models or kinds.Models()
    inner, outer = models.defaults or kinds.Defaults(), spec.defaults or kinds.Defaults()
    return ModelNames(
        allowed=tuple(models.allowed or models.available or ()),
        mappings=models.mappings or {},
        default=inner.llm or outer.llm or None,
    )


def _endpoint_problems(document: Document, endpoint: kinds.Endpoint, keys: tuple[str, ...]) -> list[str]:
    problems: list[str] = []
    if endpoint.api_key_env and not _NAME.fullmatch(endpoint.api_key_env):
        text = "must be the NAME of an environment variable that holds the key, never the key"
        if sources := variables(endpoint.api_key_env):
            text += f"; leave out env: where {' or '.join(sources)} holds it"
        problems.append(document.problem((*keys, "api_key_env"), text))
    for name in _SECRETS:
        if (endpoint.model_extra or {}).get(name):
            text = "no secrets in manifests: put it in an environment variable and name that in api_key_env"
            problems.append(document.problem((*keys, name), text))
    if endpoint.api_base and (problem := _url_problem(endpoint.api_base)):
        problems.append(document.problem((*keys, "api_base"), problem))
    return problems


def _url_problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return "is no valid URL"
    if not good:
        return "must be a URL such as https://api.openai.com/v1"
    if parts.username or parts.password:
        return "no secrets in URLs: put the key in an environment variable and name that in api_key_env"
    return ""


def _without_secrets(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//...@", url)
