"""What the children of the tests with real providers do: calls of agents through the pipeline, and holding slots."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from llm_sched import LlmSchedulerMiddleware, Policy, Scheduler
from llm_sched.demo.lifeline import exit_with_parent
from llm_sched.pipeline.engine_openai import OpenAiEngine
from llm_sched.pipeline.exchange import LlmRequest

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def agents(connection: Connection[Any, Any], knobs: dict[str, Any], url: str, model: str, calls: int) -> None:
    """Make calls from eight threads, each an agent of its own, every second streamed; report what was answered.

    Args:
        connection: to the parent.
        knobs: parameters of the scheduler's manifest.
        url: of the provider, ending in `/v1`.
        model: its model.
        calls: how many.
    """
    exit_with_parent(connection, on_message=lambda _: None)
    engine = OpenAiEngine(model, api_base=url, api_key_env=None, timeout_s=60)
    LlmSchedulerMiddleware.wrap(engine, knobs)

    def call(number: int) -> str:
        own = engine.sibling()
        own.max_tokens = 64
        own.messages.append({"role": "user", "content": f"question {number}"})
        own.on_text = len if number % 2 else None
        kind: str = LlmSchedulerMiddleware(own).invoke(LlmRequest()).response_kind
        return kind

    with ThreadPoolExecutor(8) as pool:
        connection.send(set(pool.map(call, range(calls))))
    engine.close()


def hold_all(connection: Connection[Any, Any], knobs: dict[str, Any], provider: str, model: str) -> None:
    """At the parent's word take every slot of a bucket, say so, and keep them until the parent is gone."""
    connection.recv()
    scheduler = Scheduler(Policy(**knobs))
    held = [scheduler.acquire(provider=provider, model=model, timeout_s=30) for _ in range(knobs["max_in_flight"])]
    connection.send(len(held))
    exit_with_parent(connection, on_message=lambda _: None)
    threading.Event().wait()
