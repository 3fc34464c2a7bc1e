"""Attempts: each has a slot, no pause has one, and the provider counts what we count."""

from __future__ import annotations

import asyncio
import email.utils
import pickle
import time
from typing import Any

import pytest
from pipeline_provider import Provider, Reply, Script, until_later
from pipeline_support import CALL, Leaf, asked, granted, in_flight

from llm_sched import LlmSchedulerMiddleware, Policy, SchedulerError, install
from llm_sched.pipeline.engine_openai import OpenAiEngine
from llm_sched.pipeline.exchange import ProviderError, RetryableError
from llm_sched.pipeline.openai_wire import retry_after_s
from llm_sched.pipeline.retry import Backoff, Retrier

BUSY = Reply(status=429, headers={"Retry-After": "7"}, body=b'{"error": {"message": "slow down"}}')


class Naps:
    """Sleeps that do not take time: remembers how long, and how many slots were held meanwhile."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.held: list[int] = []

    def __call__(self, seconds: float) -> None:
        """Sleep."""
        self.seconds.append(seconds)
        self.held.append(in_flight())

    async def later(self, seconds: float) -> None:
        """For tasks."""
        self(seconds)


def paced(engine: Any, naps: Naps, **backoff: Any) -> LlmSchedulerMiddleware:
    """The engine, paced, with sleeps that do not take time."""
    install(Policy(max_in_flight=1, timeout_s=10))
    return LlmSchedulerMiddleware(engine, retrier=Retrier(Backoff(**backoff), sleep=naps, sleep_async=naps.later))


@pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream", "on_text"])
def test_attempts_are_what_the_provider_counts(provider: Provider, how: str) -> None:
    """Always 429: five attempts, five slots, five requests; and the slot is free during each of the four pauses."""
    provider.reply = BUSY
    naps = Naps()
    engine = asked(OpenAiEngine("m", api_base=provider.url))
    layer = paced(engine, naps)

    async def in_task() -> None:
        try:
            await getattr(layer, how)(CALL)
        finally:
            await engine.aclose()

    def call() -> None:
        if how.startswith("a"):
            asyncio.run(in_task())
        else:
            getattr(layer, "invoke" if how == "on_text" else how)(CALL)

    if how == "on_text":
        engine.on_text = print
    with pytest.raises(RetryableError, match=r"status 429: slow down \(gave up after 5 attempts\)") as caught:
        call()
    engine.close()
    assert (caught.value.attempts, caught.value.status) == (5, 429)
    assert provider.count == 5
    assert granted() == {f"{provider.host}/m": 5}
    assert naps.held == [0, 0, 0, 0]
    assert all(7 <= nap <= 7.7 + 1e-9 for nap in naps.seconds)


def test_what_works_later_is_answered(provider: Provider) -> None:
    """Two failures and an answer are three requests."""
    provider.reply = Script(BUSY, Reply(status=503, body=b"gone"), Reply())
    engine = asked(OpenAiEngine("m", api_base=provider.url))
    assert paced(engine, Naps()).invoke(CALL).text == "four"
    assert provider.count == 3
    engine.close()


def test_pauses_grow_where_the_provider_names_none() -> None:
    """At random below 0.5 s, 1 s, 2 s, 4 s, 8 s and no more, so that those who failed together do not come back together."""
    naps = Naps()
    with pytest.raises(RetryableError):
        paced(Leaf(RetryableError("no")), naps, max_retries=8).invoke(CALL)
    assert len(naps.seconds) == 8
    assert all(0 <= nap <= min(8.0, 0.5 * 2**number) for number, nap in enumerate(naps.seconds))


def test_who_is_asked_to_wait_too_long_does_not() -> None:
    """A provider that says "in an hour" is not asked again: the caller is told at once."""
    naps, leaf = Naps(), Leaf(RetryableError("in an hour", retry_after_s=3600.0))
    with pytest.raises(RetryableError, match=r"in an hour$"):
        paced(leaf, naps).invoke(CALL)
    assert (leaf.begun, naps.seconds) == (1, [])


@pytest.mark.parametrize("error", [ProviderError("wrong model"), ValueError("a bug"), SchedulerError("no")])
def test_what_cannot_pass_is_not_repeated(error: Exception) -> None:
    """Nor is what is no failure of the provider."""
    leaf = Leaf(error)
    with pytest.raises(type(error)):
        paced(leaf, Naps()).invoke(CALL)
    assert leaf.begun == 1


def test_no_retries_are_none() -> None:
    """`max_retries: 0` makes one attempt."""
    leaf = Leaf(RetryableError("no"))
    with pytest.raises(RetryableError, match=r"^no$"):
        LlmSchedulerMiddleware.wrap(leaf, {"max_retries": 0}).invoke(CALL)
    assert leaf.begun == 1


def test_a_cancelled_pause_ends_the_call() -> None:
    """Nothing is sent afterwards, nothing is held."""
    leaf = Leaf(RetryableError("no", retry_after_s=50.0))
    engine = LlmSchedulerMiddleware.wrap(leaf)

    async def main() -> None:
        call = asyncio.create_task(engine.ainvoke(CALL))
        await until_later(lambda: leaf.begun and not in_flight())
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    assert leaf.begun == 1


def test_text_that_was_passed_on_is_not_repeated(provider: Provider) -> None:
    """An answer that breaks off after its first words is an error, not a second answer after the first."""
    provider.reply = Reply(text="one two three", cut=True)
    engine = asked(OpenAiEngine("m", api_base=provider.url))
    heard: list[str] = []
    engine.on_text = heard.append
    layer = paced(engine, Naps())
    with pytest.raises(ProviderError, match="the answer broke off") as caught:
        layer.invoke(CALL)
    assert not isinstance(caught.value, RetryableError)
    assert heard == ["one ", "two ", "three "]

    async def in_task() -> None:
        with pytest.raises(ProviderError, match="the answer broke off"):
            await layer.ainvoke(CALL)
        await engine.aclose()

    asyncio.run(in_task())
    assert provider.count == 2
    engine.close()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_every_form_of_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    """RFC 9110's seconds and dates, OpenAI's milliseconds; what makes no sense does not count."""
    assert retry_after_s(headers) == seconds


def test_a_date_is_a_pause_from_now() -> None:
    """To the second, as HTTP dates are."""
    date = email.utils.formatdate(time.time() + 100, usegmt=True)
    assert retry_after_s({"retry-after": date}) == pytest.approx(100, abs=30)


def test_errors_survive_pickling() -> None:
    """With all their facts."""
    error = RetryableError("no", status=429, retry_after_s=2.0)
    error.attempts = 3
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    assert (str(copy), copy.status, copy.retry_after_s, copy.attempts) == ("no", 429, 2.0, 3)
    assert isinstance(copy, SchedulerError)
