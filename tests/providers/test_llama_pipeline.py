"""Agents of the pipeline on a real llama.cpp, beside clients of their own, under one cap."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import pytest
from llama_watch import watching
from provider_workers import agents
from real_providers import LLAMA_MODEL, Load
from transport_support import Ledger, until
from transport_workers import call_often

from llm_sched import LlmSchedulerMiddleware, read_snapshot
from llm_sched.default import current
from llm_sched.demo.lifeline import Child
from llm_sched.labels import provider_label
from llm_sched.pipeline.engine_openai import OpenAiEngine
from llm_sched.pipeline.exchange import LlmRequest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from real_providers import Llama

SLOTS = 4


@pytest.fixture
def knobs(tmp_path: Path) -> dict[str, Any]:
    """A policy for all processes of a test."""
    return {"max_in_flight": SLOTS, "state_path": str(tmp_path / "state.json")}


@pytest.fixture
def engine(llama: Llama) -> Iterator[OpenAiEngine]:
    """The engine on the real SDK; its conversation is a question."""
    engine = OpenAiEngine(LLAMA_MODEL, api_base=llama.base_url, api_key_env=None, timeout_s=60)
    engine.max_tokens = 16
    engine.messages.append({"role": "user", "content": "hello"})
    with closing(engine):
        yield engine


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    current().close()


def test_agents_and_clients_of_their_own_share_one_cap(llama: Llama, knobs: dict[str, Any]) -> None:
    """Two processes of agents, one of threads with transports: one bucket, and llama.cpp has to put nobody off."""
    with watching(llama) as watcher, ExitStack() as stack:
        children = [
            Child(agents, knobs, llama.base_url, LLAMA_MODEL, 16, name="agents"),
            Child(agents, knobs, llama.base_url, LLAMA_MODEL, 16, name="agents"),
            Child(_call_llama, knobs, llama.base_url, 16, name="clients"),
        ]
        for child in children:
            stack.callback(child.stop)
        assert [child.connection.recv() for child in children] == [{"MODEL_TEXT"}, {"MODEL_TEXT"}, {200}]
    assert watcher.looks > 10
    assert watcher.most.deferred == 0
    assert 0 < watcher.most.processing <= SLOTS
    (bucket,) = read_snapshot(knobs["state_path"]).buckets
    assert bucket.name == f"{provider_label(llama.base_url)}/{LLAMA_MODEL}"
    assert bucket.totals.granted >= 48  # one more for each time that an agent met a connection which llama.cpp had just closed


def _call_llama(connection: Any, knobs: dict[str, Any], url: str, calls: int) -> None:
    own_connections = {"Connection": "close"}  # see test_llama_transports
    call_often(connection, "httpx", knobs, url, calls, headers=own_connections, max_tokens=64, model=LLAMA_MODEL)


def test_streams_of_an_agent_that_end_early_leave_no_slot_taken(
    llama: Llama, engine: OpenAiEngine, knobs: dict[str, Any]
) -> None:
    """More often than there are slots, closed and dropped; then it answers again."""
    engine.max_tokens = 1900
    paced = LlmSchedulerMiddleware.wrap(engine, knobs)
    ledger = Ledger(current())
    for _ in range(SLOTS + 1):
        stream = paced.stream(LlmRequest())
        next(stream)
        stream.close()
        next(paced.stream(LlmRequest()))
    until(ledger.is_free)
    until(lambda: llama.load() == Load(0, 0))
    engine.max_tokens = 8
    assert paced.invoke(LlmRequest()).usage["completion_tokens"] <= 8
    assert ledger.is_free()
