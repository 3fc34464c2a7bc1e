"""The shapes of the files: what may stand where. The JSON Schema files for editors are made from these models."""

# Law: shapes only; no file is read and nothing is resolved here. Keys that we do not know are kept in the host's
# documents, whose writers have tools that know more, and refused in the parameters of our own middlewares.
# Brings pydantic: imported by those who load manifests, never by `import llm_sched`.

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Operations = Annotated[list[str], BeforeValidator(_as_list, json_schema_input_type=list[str] | str)]
"""One operation, or several."""


class _Open(BaseModel):
    """Other keys are kept: they belong to other tools."""

    model_config = ConfigDict(extra="allow")


class Metadata(_Open):
    """Who a document is."""

    name: str | None = None
    description: str | None = None


class MiddlewareSpec(_Open):
    """One layer around the provider."""

    middleware: str | None = Field(default=None, description="Registry id; default: the file's stem with - as _.")
    applies_to: Operations | None = Field(default=None, description="Operations it is for; default: LLM_CALL.")
    params: dict[str, Any] | None = Field(default=None, description="The middleware's own parameters.")


class Step(_Open):
    """A layer given in place: a ref to one, or a middleware with its parameters."""

    ref: str | None = None
    middleware: str | None = None
    params: dict[str, Any] | None = None
    applies_to: Operations | None = None


# Tags have a blank in them, so that they are no keys of a document; see `shapes`.
def _step_form(value: object) -> str:
    return "a ref" if isinstance(value, str) else "a step"


AnyStep = Annotated[Annotated[str, Tag("a ref")] | Annotated[Step, Tag("a step")], Discriminator(_step_form)]


class Entry(_Open):
    """A typed slot of a bundle."""

    id: str | None = None
    type: str | None = Field(default=None, description="infra_middleware or llm_provider.")
    ref: str | None = None
    applies_to: Operations | None = None
    pipeline: list[AnyStep] | None = Field(default=None, description="Layers between the ref and what comes after it.")


class BundleSpec(_Open):
    """Either `entries`, or `includes` with `interceptors`."""

    entries: list[Entry] | None = None
    includes: list[str] | None = None
    interceptors: list[AnyStep] | None = None
    pipeline: list[AnyStep] | None = Field(default=None, description="Another word for `interceptors`.")


class Endpoint(_Open):
    """Where an OpenAI-compatible provider is, and which variable holds its key."""

    api_base: str | None = Field(default=None, description="URL that ends before /chat/completions, or env:NAME|default.")
    api_key_env: str | None = Field(default=None, description="NAME of the variable with the key; empty: no key is needed.")
    timeout: float | None = Field(default=None, gt=0, description="Seconds for one request.")


class Defaults(_Open):
    """Models to use where none is asked for."""

    llm: str | None = None
    embed: str | None = None


class Models(_Open):
    """Which models there are, and under which names."""

    allowed: list[str] | None = Field(default=None, description="What may be asked for; empty or left out: everything.")
    available: list[str] | None = Field(default=None, description="Read as `allowed` where that is left out.")
    mappings: dict[str, str] | None = Field(default=None, description="Name that agents use -> name that the provider knows.")
    defaults: Defaults | None = None


class ModelAccess(_Open):
    """`provider: mock` answers without any network."""

    provider: str | None = None
    params: dict[str, Any] | None = None


class ProviderSpec(_Open):
    """A provider."""

    proxy: Endpoint | None = None
    server: Endpoint | None = Field(default=None, description="Another word for `proxy`.")
    models: Models | None = None
    defaults: Defaults | None = None
    model_access: ModelAccess | None = None


class InfraDocument(_Open):
    """What all infra documents have."""

    apiVersion: Literal["infra/v1"]  # noqa: N815 - the documents' own spelling
    metadata: Metadata | None = None


class InfraMiddleware(InfraDocument):
    """A layer around the provider, such as a cache."""

    kind: Literal["InfraMiddleware"]
    spec: MiddlewareSpec | None = None


class InfraBundle(InfraDocument):
    """Several refs as one."""

    kind: Literal["InfraBundle"]
    spec: BundleSpec


class LLMProxy(InfraDocument):
    """A provider that is reached over the network."""

    kind: Literal["LLMProxy"]
    spec: ProviderSpec


class LLMLocal(InfraDocument):
    """A provider on this machine; needs no key unless it names one."""

    kind: Literal["LLMLocal"]
    spec: ProviderSpec


INFRA_KINDS: dict[str, type[InfraDocument]] = {
    kind.__name__: kind for kind in (InfraMiddleware, InfraBundle, LLMProxy, LLMLocal)
}


class TextFile(_Open):
    """A text that stands in a file of its own, beside the document."""

    ref: str


def _text_form(value: object) -> str:
    return "a text" if isinstance(value, str) else "a file"


AnyText = Annotated[Annotated[str, Tag("a text")] | Annotated[TextFile, Tag("a file")], Discriminator(_text_form)]


class AgentModel(_Open):
    """A model that an agent uses; the first one answers."""

    model: str | None = None
    temperature: float | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=1)


class AgentContext(_Open):
    """What an agent is told before the first question."""

    intent: AnyText | None = None
    role: AnyText | None = None


class AgentSpec(_Open):
    """An agent: its models and its instructions. Tools, skills, plugins and more are kept, not used."""

    models: list[AgentModel] | None = None
    description: str | None = None
    context: AgentContext | None = None


class Agent(_Open):
    """An agent of the host."""

    apiVersion: Literal["mas/v1"]  # noqa: N815 - the documents' own spelling
    kind: Literal["Agent"]
    metadata: Metadata | None = None
    spec: AgentSpec


class Workspace(_Open):
    """A workspace's `config.yaml`."""

    infra_refs: list[str] | None = None
