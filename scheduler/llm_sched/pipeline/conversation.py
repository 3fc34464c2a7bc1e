"""A conversation with an agent, over any pipeline."""

# Law: keeps the messages in order. A turn that fails leaves the conversation as it was before.

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llm_sched.errors import SchedulerError
from llm_sched.pipeline.exchange import ERROR, LlmRequest, LlmResult, leaf
from llm_sched.pipeline.openai_wire import INCOMPLETE

if TYPE_CHECKING:
    from llm_sched.pipeline.agents import AgentFile


class TurnError(SchedulerError):
    """An engine reported that it has no answer."""


class Conversation:
    """Asks questions, one after another.

    Args:
        agent: who is asked.
        engine: the pipeline, from `registry.build`.
    """

    def __init__(self, agent: AgentFile, engine: Any) -> None:  # noqa: ANN401 - engines are duck-typed
        self._engine = engine
        self._leaf = leaf(engine)
        self._leaf.temperature = agent.temperature
        self._leaf.max_tokens = agent.max_tokens
        self._system = [{"role": "system", "content": agent.system}] if agent.system else []
        self._numbers = itertools.count(1)
        self.reset()

    def reset(self) -> None:
        """Forget all that was said."""
        self._leaf.messages = [dict(message) for message in self._system]
        forget = getattr(self._engine, "reset_turn_state", None)
        if callable(forget):
            forget()

    def ask(self, question: str, on_text: Callable[[str], None] | None = None, *, cacheable: bool = True) -> LlmResult:
        """Ask, and wait for the whole answer.

        Args:
            question: what the user says.
            on_text: hears the answer's pieces while they arrive.
            cacheable: False: the answer must be a new one.

        Raises:
            TurnError: the engine reports a failure.
            SlotTimeout: no slot came in time.
            ProviderError: the live call failed.
            ConfigError: the key is missing.
        """
        messages: list[dict[str, Any]] = self._leaf.messages
        before = len(messages)
        messages.append({"role": "user", "content": question})
        self._leaf.on_text = on_text
        try:
            result = self._answer(cacheable=cacheable)
        except BaseException:  # also Ctrl-C: the question was never answered
            del messages[before:]
            raise
        messages.append({"role": "assistant", "content": result.text})
        return result

    def _answer(self, *, cacheable: bool) -> LlmResult:
        number = next(self._numbers)
        request = LlmRequest(correlation_id=number, call_id=f"turn-{number}", cacheable=cacheable)
        result: LlmResult = self._engine.invoke(request)
        if result.response_kind == ERROR:
            raise TurnError(result.text)
        if not result.text and getattr(result, "finish_reason", "") == INCOMPLETE:
            raise TurnError("the provider sent no answer: is this the URL of an OpenAI-compatible endpoint?")
        return result
