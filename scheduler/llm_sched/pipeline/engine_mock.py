"""A leaf engine that calls nobody: the same question gets the same answer, at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llm_sched.pipeline.exchange import ERROR, LlmResult, is_llm_call
from llm_sched.pipeline.streams import AsyncReplayedStream, ReplayedStream


class MockEngine:
    """Answers an `LLM_CALL` out of a table, else by repeating the last message.

    Args:
        model: name of the model that it pretends to be.
        replies: last message -> answer.

    Attributes:
        provider: its label, `mock`.
        messages: the conversation that the next `LLM_CALL` is about; the caller appends to it.
        tools: ignored, but part of what a cache sees.
        temperature: likewise.
        max_tokens: likewise.
        on_text: hears the answer's text; None = nobody does.
    """

    provider = "mock"

    def __init__(self, model: str = "mock", *, replies: Mapping[str, str] | None = None) -> None:
        self.model = model
        self.messages: list[dict[str, Any]] = []
        self.tools: Sequence[Mapping[str, Any]] = ()
        self.temperature: float | None = None
        self.max_tokens: int | None = None
        self.on_text: Callable[[str], None] | None = None
        self._replies = dict(replies or {})

    def invoke(self, io: Any) -> LlmResult:  # noqa: ANN401 - duck-typed by contract
        """Answer at once."""
        result = self._answer(io)
        if self.on_text and result.response_kind != ERROR:
            self.on_text(result.text)
        return result

    async def ainvoke(self, io: Any) -> LlmResult:  # noqa: ANN401 - duck-typed by contract
        """Answer at once."""
        return self.invoke(io)

    def stream(self, io: Any) -> ReplayedStream:  # noqa: ANN401 - duck-typed by contract
        """Answer in one piece."""
        return ReplayedStream(self._answer(io))

    async def astream(self, io: Any) -> AsyncReplayedStream:  # noqa: ANN401 - duck-typed by contract
        """Answer in one piece."""
        return AsyncReplayedStream(self._answer(io))

    def exchange_preview(self, op: str) -> str:
        """What would be sent."""
        return json.dumps({"op": op, "model": self.model, "messages": self.messages})

    def reset_turn_state(self) -> None:
        """Nothing to forget: the conversation is the caller's."""

    def _answer(self, io: Any) -> LlmResult:  # noqa: ANN401 - duck-typed by contract
        if not is_llm_call(io):
            text = f"{type(self).__name__} answers LLM_CALL, not {io.op}"
            return LlmResult(correlation_id=io.correlation_id, response_kind=ERROR, text=text)
        asked = str(self.messages[-1].get("content") or "") if self.messages else ""
        text = self._replies.get(asked, f"mock: {asked}")
        return LlmResult(correlation_id=io.correlation_id, text=text, finish_reason="stop")
