"""Paced clients of llmock, which has real quotas, breaks in many ways, and judges its clients."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import openai
import pytest
from transport_support import BODY, CHAT, FLAVOURS, MODEL, QUESTION, SDK_FLAVOURS, STREAM_BODY, Ledger, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from real_providers import LLMock

    from llm_sched import Scheduler

FLAVOUR = FLAVOURS[SDK_FLAVOURS[-1]]
"""The library that the installed SDK comes with."""

QUOTA_RPM = 60


def sdk(provider: LLMock, scheduler: Scheduler, **options: Any) -> openai.OpenAI:
    """A paced client of the real SDK."""
    return FLAVOUR.sdk(provider.base_url, FLAVOUR.paced.PacedTransport(scheduler=scheduler), **options)


def ask(client: openai.OpenAI) -> str:
    """One question, answered in one piece."""
    return client.chat.completions.create(model=MODEL, messages=QUESTION).choices[0].message.content or ""


def use_up(quota: LLMock) -> int:
    """Send unpaced requests, with the SDK's key, until one is refused; returns how many were served."""
    with FLAVOUR.client(None, timeout=30, headers={"Authorization": "Bearer any"}) as client:
        for number in range(10 * QUOTA_RPM):
            if client.post(quota.base_url + CHAT, json=BODY).status_code == 429:
                return number
    raise AssertionError("the quota has no end")


def test_the_verdict_condemns_who_ignores_retry_after(quota: LLMock) -> None:
    """The judge is awake: quota used up, asked again at once."""
    assert use_up(quota) >= QUOTA_RPM
    with FLAVOUR.client(None, timeout=30, headers={"Authorization": "Bearer any"}) as client:
        assert client.post(quota.base_url + CHAT, json=BODY).status_code == 429
    verdict = quota.verdict()
    assert not verdict["passed"]
    assert {finding["code"] for finding in verdict["findings"]} == {"retry_after_ignored"}


def test_a_policy_below_the_quota_is_never_refused(quota: LLMock, schedulers: Callable[..., Scheduler]) -> None:
    """More requests than the quota holds at once, from eight threads; unpaced, the last would get a 429."""
    scheduler = schedulers(requests_per_minute=0.9 * QUOTA_RPM)
    with FLAVOUR.client(FLAVOUR.paced.PacedTransport(scheduler=scheduler), timeout=30) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.post(quota.base_url + CHAT, json=BODY), range(QUOTA_RPM - 2)))
    assert {answer.status_code for answer in answers} == {200}
    assert all(int(answer.headers["x-ratelimit-remaining-requests"]) >= 0 for answer in answers)
    assert {answer.headers["x-ratelimit-limit-requests"] for answer in answers} == {str(QUOTA_RPM)}
    assert quota.verdict()["findings"] == []
    assert Ledger(scheduler).granted() == len(answers)


def test_retry_after_is_waited_for_without_a_slot(quota: LLMock, schedulers: Callable[..., Scheduler]) -> None:
    """With one slot and the quota used up, four threads come through, and each attempt had a slot of its own."""
    scheduler = schedulers(max_in_flight=1)
    before = use_up(quota) + 1
    with sdk(quota, scheduler, max_retries=8) as client, ThreadPoolExecutor(4) as pool:
        questions: list[Any] = [[{"role": "user", "content": f"question {number}"}] for number in range(4)]
        answers = list(pool.map(lambda asked: client.chat.completions.create(model=MODEL, messages=asked), questions))
    assert [answer.choices[0].finish_reason for answer in answers] == ["stop"] * 4
    mine = quota.requests()[before:]
    assert any(request["status"] == 429 for request in mine)
    assert len(mine) == Ledger(scheduler).granted()
    assert Ledger(scheduler).is_free()
    assert quota.verdict()["errors"] == 0


FAULTS: dict[str, dict[str, Any]] = {
    "429": {"type": "fail", "status": 429, "retry_after": 0.01},
    "504": {"type": "fail", "status": 504},
    "cut off": {"type": "stream_fault", "kind": "disconnect", "after_chunks": 2},
    "truncated": {"type": "stream_fault", "kind": "truncate", "after_chunks": 2},
    "malformed": {"type": "stream_fault", "kind": "malformed", "after_chunks": 2},
    "stalled": {"type": "stream_fault", "kind": "stall", "after_chunks": 2, "stall_seconds": 60},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_of_llmock_costs_a_slot(llmock: LLMock, schedulers: Callable[..., Scheduler], fault: str) -> None:
    """Streams that fail in each way, more often than there are slots; and then it serves well again."""
    scheduler = schedulers(max_in_flight=2)
    ledger = Ledger(scheduler)
    llmock.script({**FAULTS[fault], "times": 3})
    with FLAVOUR.client(FLAVOUR.paced.PacedTransport(scheduler=scheduler), timeout=30) as client:
        patience = FLAVOUR.lib.Timeout(30, read=0.1 if fault == "stalled" else 30)
        for _ in range(3):
            if fault in {"cut off", "stalled"}:
                with pytest.raises(FLAVOUR.lib.TransportError):
                    client.post(llmock.base_url + CHAT, json=STREAM_BODY, timeout=patience)
            else:
                answer = client.post(llmock.base_url + CHAT, json=STREAM_BODY)
                assert answer.status_code == (int(fault) if fault.isdigit() else 200)
            assert ledger.held() == 0
        assert client.post(llmock.base_url + CHAT, json=STREAM_BODY).text.endswith("data: [DONE]\n\n")
    assert (ledger.granted(), ledger.is_free()) == (4, True)


def test_the_sdks_retries_pass_the_verdict_and_each_has_its_slot(llmock: LLMock, schedulers: Callable[..., Scheduler]) -> None:
    """Twice 429 with a Retry-After, once 503, then well; attempts as llmock counts them are slots as the ledger does."""
    scheduler = schedulers(max_in_flight=1)
    llmock.script({"type": "fail", "status": 429, "retry_after": 0.2, "times": 2}, {"type": "fail", "status": 503, "times": 1})
    with sdk(llmock, scheduler, max_retries=3) as client:
        assert ask(client)
    assert [request["status"] for request in llmock.requests()] == [429, 429, 503, 200]
    assert Ledger(scheduler).granted() == 4
    assert llmock.verdict()["passed"]


def test_a_dead_provider_gets_as_many_attempts_as_the_ledger_gave_slots(
    llmock: LLMock, schedulers: Callable[..., Scheduler]
) -> None:
    """Always 429: nothing is leaked, and the next that is served well gets its slot."""
    scheduler = schedulers(max_in_flight=1)
    llmock.script({"type": "fail", "status": 429, "retry_after": 0.01, "times": None})
    with sdk(llmock, scheduler, max_retries=2) as client:
        for _ in range(3):
            with pytest.raises(openai.RateLimitError):
                ask(client)
        assert len(llmock.requests()) == Ledger(scheduler).granted() == 9
        llmock.reset()
        assert ask(client)
        stream = client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True)
        next(stream)
        del stream
        gc.collect()
        until(Ledger(scheduler).is_free)
