"""The leaf engine that calls a provider, through the official SDK.

The law: one `invoke` is one HTTP request; whether there is a second one is for the layer that holds the slots to say. `openai`
is imported by the first call and not before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from llm_sched.errors import ConfigError
from llm_sched.pipeline import openai_wire as wire
from llm_sched.pipeline.endpoint import provider_label, resolved_api_base
from llm_sched.pipeline.exchange import ERROR, LlmResult, ProviderError, is_llm_call
from llm_sched.pipeline.openai_clients import Clients
from llm_sched.pipeline.openai_streams import AsyncOpenAiStream, Failures, OpenAiStream

REQUEST_TIMEOUT_S = 600.0
"""The official SDK's default (`DEFAULT_TIMEOUT` in openai-python)."""


class OpenAiEngine:
    """Chat completions of any OpenAI-compatible endpoint.

    An engine is one conversation; `sibling()` is another one over the same connections.

    Args:
        model: name of the model.
        api_base: base URL; None = `OPENAI_BASE_URL`, else OpenAI's own.
        api_key_env: name of the variable that holds the key; None = the endpoint wants none.
        timeout_s: how long the provider may keep silent, in seconds; counted from when the request is made, so never
            while a slot is waited for.
        mappings: model names of manifests -> model names of the provider.

    Attributes:
        model: name of the model, after mappings.
        api_base: base URL, resolved.
        api_key_env: see above.
        messages: the conversation that the next `LLM_CALL` sends; the caller appends to it, answers too.
        tools: the tools that the next `LLM_CALL` offers, as the API wants them.
        temperature: None = the provider's default.
        max_tokens: most tokens of the answer; None = the provider's default.
        on_text: hears the answer's pieces while it arrives; None = it is not streamed. It works through any layers.

    Raises:
        ConfigError: `api_base` is no URL.
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key_env: str | None = "OPENAI_API_KEY",
        timeout_s: float = REQUEST_TIMEOUT_S,
        mappings: Mapping[str, str] | None = None,
    ) -> None:
        self.model = (mappings or {}).get(model, model)
        self.api_base = resolved_api_base(api_base)
        self.api_key_env = api_key_env
        self.messages: list[dict[str, Any]] = []
        self.tools: Sequence[Mapping[str, Any]] = ()
        self.temperature: float | None = None
        self.max_tokens: int | None = None
        self.on_text: Callable[[str], None] | None = None
        self._whom = f"{self.model} at {provider_label(self.api_base)}"
        self._clients = Clients(self.api_base, timeout_s)

    def sibling(self, model: str | None = None) -> OpenAiEngine:
        """Another conversation with the same endpoint and settings, over the same connections.

        Args:
            model: another model; None = the same.
        """
        other = OpenAiEngine(model or self.model, api_base=self.api_base, api_key_env=self.api_key_env)
        other.tools, other.temperature, other.max_tokens = self.tools, self.temperature, self.max_tokens
        other._clients = self._clients
        return other

    def invoke(self, io: Any) -> LlmResult:  # noqa: ANN401 - duck-typed by contract
        """Send the conversation once.

        Raises:
            RetryableError: it failed, but may work later.
            ProviderError: it failed.
            ConfigError: the variable with the key is not set.
        """
        if not is_llm_call(io):
            return self._refuse(io)
        if self.on_text is None:
            with self._failures():
                create: Callable[..., Any] = self._clients.sync(self._key()).chat.completions.create
                completion: object = create(**self._request())
            return wire.completion_result(completion, io.correlation_id)
        with _Telling(self.on_text) as tell, self.stream(io) as stream:
            for piece in stream:
                tell(piece)
            return stream.result()

    async def ainvoke(self, io: Any) -> LlmResult:  # noqa: ANN401 - duck-typed by contract
        """`invoke` for a task."""
        if not is_llm_call(io):
            return self._refuse(io)
        if self.on_text is None:
            with self._failures():
                create: Callable[..., Any] = self._clients.asynchronous(self._key()).chat.completions.create
                completion = await create(**self._request())
            return wire.completion_result(completion, io.correlation_id)
        with _Telling(self.on_text) as tell:
            async with await self.astream(io) as stream:
                async for piece in stream:
                    tell(piece)
                return await stream.result()

    def stream(self, io: Any) -> OpenAiStream:  # noqa: ANN401 - duck-typed by contract
        """Send the conversation once; return when the answer begins. Errors as for `invoke`."""
        failures = self._failures()
        with failures:
            stream = self._clients.sync(self._key()).chat.completions.create(**self._request(), stream=True)
        return OpenAiStream(stream, failures, io.correlation_id)

    async def astream(self, io: Any) -> AsyncOpenAiStream:  # noqa: ANN401 - duck-typed by contract
        """`stream` for a task."""
        failures = self._failures()
        with failures:
            stream = await self._clients.asynchronous(self._key()).chat.completions.create(**self._request(), stream=True)
        return AsyncOpenAiStream(stream, failures, io.correlation_id)

    def exchange_preview(self, op: str) -> str:
        """What would be sent, as JSON."""
        return json.dumps({"op": op, **self._request()}, default=str)

    def reset_turn_state(self) -> None:
        """Nothing to forget: the conversation is the caller's."""

    def check_ready(self) -> None:
        """Say what is missing before a slot is waited for.

        Raises:
            ConfigError: the variable with the key is not set.
        """
        self._key()

    def close(self) -> None:
        """Close the connections of threads; also those of this engine's siblings."""
        self._clients.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop; also those of this engine's siblings."""
        await self._clients.aclose()

    def _request(self) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self.model, "messages": list(self.messages)}
        if self.tools:
            request["tools"] = list(self.tools)
        if self.temperature is not None:
            request["temperature"] = self.temperature
        if self.max_tokens is not None:
            request["max_tokens"] = self.max_tokens
        return request

    def _key(self) -> str:
        if not self.api_key_env:
            return "none"  # the SDK insists on one; endpoints that want none ignore it
        key = os.environ.get(self.api_key_env)
        if not key:
            message = f"the API key is missing: set the environment variable {self.api_key_env}"
            raise ConfigError(message, knob="api_key_env", value=repr(self.api_key_env), source="engine")
        return key

    def _failures(self) -> Failures:
        return Failures(self._whom, self._key() if self.api_key_env else "")

    def _refuse(self, io: Any) -> LlmResult:  # noqa: ANN401 - duck-typed by contract
        text = f"{type(self).__name__} answers LLM_CALL, not {io.op}"
        return LlmResult(correlation_id=io.correlation_id, response_kind=ERROR, text=text)


class _Telling:
    """Passes text on to the caller; what breaks after the first piece is not to be tried again, or text would come twice."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._told = False

    def __call__(self, piece: str) -> None:
        self._told = True
        self._on_text(piece)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._told and isinstance(error, ProviderError):
            raise ProviderError(f"the answer broke off: {error}", status=error.status) from error
