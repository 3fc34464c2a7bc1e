"""Real `openai` clients, and what the demo asks them."""

# Law: everything that knows the openai SDK is here. Retries are off: a refusal must be seen, not smoothed over.

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import openai

from llm_sched.demo.messages import Failure

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam

    from llm_sched.demo.messages import Target

ANSWER_TIMEOUT_S = 120.0

STREAM_EVERY = 3
"""Every third answer is streamed: its slot is held until the last piece has arrived."""

QUESTION = "Answer in five words: why should calls be paced?"

HOPELESS = frozenset({401, 403, 404})
"""Answers that the next call would get as well: wrong key, no permission, no such model."""


def sync_client(target: Target) -> openai.OpenAI:
    """A client for threads."""
    # Proxies from the environment are for real endpoints; the stub is on the loopback.
    http_client = openai.DefaultHttpxClient(trust_env=False) if target.is_stub else None
    return openai.OpenAI(
        base_url=target.base_url,
        api_key=_key(target),
        max_retries=0,
        timeout=ANSWER_TIMEOUT_S,
        http_client=http_client,
    )


def async_client(target: Target) -> openai.AsyncOpenAI:
    """A client for asyncio."""
    http_client = openai.DefaultAsyncHttpxClient(trust_env=False) if target.is_stub else None
    return openai.AsyncOpenAI(
        base_url=target.base_url,
        api_key=_key(target),
        max_retries=0,
        timeout=ANSWER_TIMEOUT_S,
        http_client=http_client,
    )


def ask(client: openai.OpenAI, model: str, number: int) -> None:
    """Make call `number`, and return when its answer has arrived completely.

    Raises:
        openai.OpenAIError: whatever the provider or the way to it had against it.
    """
    if number % STREAM_EVERY == 0:
        with client.chat.completions.create(model=model, messages=_messages(), stream=True) as pieces:
            for _ in pieces:
                pass
    else:
        client.chat.completions.create(model=model, messages=_messages())


async def ask_async(client: openai.AsyncOpenAI, model: str, number: int) -> None:
    """Make call `number` as `ask` does."""
    if number % STREAM_EVERY == 0:
        async with await client.chat.completions.create(model=model, messages=_messages(), stream=True) as pieces:
            async for _ in pieces:
                pass
    else:
        await client.chat.completions.create(model=model, messages=_messages())


def explain(error: Exception) -> Failure:
    """An error as something to count and something to read."""
    kind = type(error).__name__
    if isinstance(error, openai.APIStatusError):
        kind = f"{error.status_code} {kind}"
    detail = next(iter(str(error).splitlines()), "") or kind
    return Failure(kind=kind, detail=detail)


def is_hopeless(error: Exception) -> bool:
    """Whether every further call would fail as this one did."""
    return isinstance(error, openai.APIStatusError) and error.status_code in HOPELESS


def _key(target: Target) -> str:
    return "stub" if target.is_stub else os.environ["OPENAI_API_KEY"]


def _messages() -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": QUESTION}]
