"""The pipeline on llmock, which has real quotas, breaks in many ways, and judges its clients."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from provider_workers import hold_all
from transport_support import Ledger

from llm_sched import LlmSchedulerMiddleware, SlotTimeout
from llm_sched.default import current
from llm_sched.demo.lifeline import Child
from llm_sched.labels import provider_label
from llm_sched.pipeline.cache import LlmCacheMiddleware
from llm_sched.pipeline.engine_openai import OpenAiEngine
from llm_sched.pipeline.exchange import LlmRequest, ProviderError
from llm_sched.pipeline.judge import install_openai_llm_service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from real_providers import LLMock

MODEL = "gpt-4o"
QUOTA_RPM = 60


@pytest.fixture
def pipelines(tmp_path: Path) -> Iterator[Callable[..., LlmSchedulerMiddleware]]:
    """Makes a paced engine for a provider; engines and scheduler are closed afterwards."""
    engines: list[OpenAiEngine] = []

    def make(provider: LLMock, **knobs: Any) -> LlmSchedulerMiddleware:
        engine = OpenAiEngine(MODEL, api_base=provider.base_url, api_key_env=None, timeout_s=30)
        engine.messages.append({"role": "user", "content": "hello"})
        engines.append(engine)
        paced: LlmSchedulerMiddleware = LlmSchedulerMiddleware.wrap(
            engine, {"state_path": str(tmp_path / "state.json"), **knobs}
        )
        return paced

    yield make
    for engine in engines:
        engine.close()
    current().close()


def statuses(provider: LLMock) -> list[int]:
    """What was answered to each request."""
    return [request["status"] for request in provider.requests()]


def test_the_pipelines_retries_pass_the_verdict(llmock: LLMock, pipelines: Callable[..., LlmSchedulerMiddleware]) -> None:
    """429 with a Retry-After, 503, then well: each attempt took one slot, and llmock finds nothing wrong."""
    paced = pipelines(llmock, max_in_flight=1)
    llmock.script({"type": "fail", "status": 429, "retry_after": 0.2, "times": 2}, {"type": "fail", "status": 503, "times": 1})
    assert paced.invoke(LlmRequest()).text
    assert statuses(llmock) == [429, 429, 503, 200]
    assert Ledger(current()).granted() == 4
    assert llmock.verdict()["findings"] == []


def test_attempts_are_what_an_always_refusing_provider_counts(
    llmock: LLMock, pipelines: Callable[..., LlmSchedulerMiddleware]
) -> None:
    """And then it works again."""
    paced = pipelines(llmock, max_in_flight=1, max_retries=2)
    llmock.script({"type": "fail", "status": 429, "retry_after": 0.01, "times": None})
    for count in range(1, 4):
        with pytest.raises(ProviderError, match="gave up after 3 attempts") as caught:
            paced.invoke(LlmRequest())
        assert caught.value.attempts == 3
        assert len(statuses(llmock)) == Ledger(current()).granted() == 3 * count
    llmock.reset()
    assert paced.invoke(LlmRequest()).text
    assert Ledger(current()).is_free()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_cannot_be_repaired_is_asked_once(
    llmock: LLMock, pipelines: Callable[..., LlmSchedulerMiddleware], status: int
) -> None:
    """Whoever repeats it fails llmock's verdict."""
    paced = pipelines(llmock)
    llmock.script({"type": "fail", "status": status, "times": None})
    with pytest.raises(ProviderError, match=str(status)):
        paced.invoke(LlmRequest())
    assert statuses(llmock) == [status]
    assert llmock.verdict()["passed"]


@pytest.mark.soak
def test_a_used_up_quota_is_waited_for_without_a_slot(quota: LLMock, pipelines: Callable[..., LlmSchedulerMiddleware]) -> None:
    """Four agents on one slot; the Retry-After is a real one, and nobody comes back early."""
    paced = pipelines(quota, max_in_flight=1, max_retries=8)
    base: OpenAiEngine = paced.inner
    for _ in range(10 * QUOTA_RPM):
        paced.invoke(LlmRequest())
        if 429 in statuses_of_last(quota):
            break

    def ask(number: int) -> str:
        own = base.sibling()
        own.messages.append({"role": "user", "content": f"question {number}"})
        text: str = LlmSchedulerMiddleware(own).invoke(LlmRequest()).text
        return text

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(4)))
    assert statuses(quota).count(429) > 1
    assert len(statuses(quota)) == Ledger(current()).granted()
    assert quota.verdict()["findings"] == []


def statuses_of_last(provider: LLMock) -> list[int]:
    """What was answered to the last two requests: a refusal is not the last, for it was tried again."""
    return statuses(provider)[-2:]


@pytest.mark.soak
def test_a_policy_below_the_quota_sees_no_refusal(quota: LLMock, pipelines: Callable[..., LlmSchedulerMiddleware]) -> None:
    """Nine tenths of it."""
    paced = pipelines(quota, requests_per_minute=0.9 * QUOTA_RPM)
    for _ in range(QUOTA_RPM - 3):
        assert paced.invoke(LlmRequest()).text
    assert set(statuses(quota)) == {200}


STREAM_FAULTS: dict[str, dict[str, Any]] = {
    "cut off": {"type": "stream_fault", "kind": "disconnect", "after_chunks": 2},
    "malformed": {"type": "stream_fault", "kind": "malformed", "after_chunks": 2},
}


@pytest.mark.parametrize("fault", STREAM_FAULTS)
def test_a_stream_that_breaks_is_an_error_and_costs_no_slot(
    llmock: LLMock, pipelines: Callable[..., LlmSchedulerMiddleware], fault: str
) -> None:
    """More often than there are slots; text that was shown is not asked for again; then it streams well."""
    paced = pipelines(llmock, max_in_flight=2)
    pieces: list[str] = []
    paced.inner.on_text = pieces.append
    llmock.script({**STREAM_FAULTS[fault], "times": 3})
    for _ in range(3):
        with pytest.raises(ProviderError, match="broke off"):
            paced.invoke(LlmRequest())
        assert Ledger(current()).is_free()
    pieces.clear()
    assert paced.invoke(LlmRequest()).text == "".join(pieces)
    assert (len(statuses(llmock)), Ledger(current()).granted()) == (4, 4)


def test_a_stream_that_ends_early_in_silence_is_told_as_incomplete(
    llmock: LLMock, pipelines: Callable[..., LlmSchedulerMiddleware]
) -> None:
    """The SDK raises nothing; the result says it."""
    paced = pipelines(llmock)
    paced.inner.on_text = len
    llmock.script({"type": "stream_fault", "kind": "truncate", "after_chunks": 2})
    assert paced.invoke(LlmRequest()).finish_reason == "incomplete"
    assert paced.invoke(LlmRequest()).finish_reason == "stop"


def test_a_cached_answer_comes_while_another_process_has_every_slot(
    llmock: LLMock, pipelines: Callable[..., LlmSchedulerMiddleware], tmp_path: Path
) -> None:
    """And a question that is not in the cache gets no slot."""
    knobs = {"max_in_flight": 2, "state_path": str(tmp_path / "state.json")}
    paced = pipelines(llmock, **knobs, timeout_s=0)
    pipeline = LlmCacheMiddleware.wrap(paced, {"cache_path": str(tmp_path / "cache.sqlite3")})
    holder = Child(hold_all, knobs, provider_label(llmock.base_url), MODEL, name="holder")
    with closing(pipeline), closing_child(holder):
        first = pipeline.invoke(LlmRequest())
        holder.connection.send("now")
        assert holder.connection.recv() == 2
        again = pipeline.invoke(LlmRequest())
        assert (first.source, again.source, again.text) == ("live", "cache", first.text)
        paced.inner.messages[-1]["content"] = "something else"
        with pytest.raises(SlotTimeout):
            pipeline.invoke(LlmRequest())
    assert len(statuses(llmock)) == 1


@contextmanager
def closing_child(child: Child) -> Iterator[None]:
    """End a child, whatever happens."""
    try:
        yield
    finally:
        child.stop()


def test_the_judge_takes_slots_from_the_agents_bucket_and_none_for_a_hit(
    llmock: LLMock, pipelines: Callable[..., LlmSchedulerMiddleware], tmp_path: Path
) -> None:
    """One for a miss, one more for its repair, none for asking again."""
    paced = pipelines(llmock, max_in_flight=1)
    paced.invoke(LlmRequest())
    judge = install_openai_llm_service(cache_params={"cache_path": str(tmp_path / "judge.sqlite3")})
    llmock.script({"type": "reply", "text": "no JSON", "times": 1}, {"type": "reply", "text": '{"score": 3}', "times": 1})
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}
    with closing(judge._cache):  # noqa: SLF001 - the service itself lives as long as its process
        assert judge.complete_json("how good is it?", schema) == {"score": 3}
        assert Ledger(current()).granted() == 3
        assert judge.complete_json("how good is it?", schema) == {"score": 3}
    assert Ledger(current()).granted() == len(statuses(llmock)) == 3
    assert len(Ledger(current()).buckets()) == 1
