"""Which bucket a call belongs to, and what it is called."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from unit_support import Caller, until

from llm_sched import ConfigError, Policy

if TYPE_CHECKING:
    from unit_support import Stage


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        (("provider", "model"), "openai/gpt-4o"),
        (("provider",), "openai"),
        (("model",), "gpt-4o"),
        (("user",), "ann"),
        (("user", "provider"), "openai/ann"),
        (("provider", "model", "user"), "openai/gpt-4o/ann"),
    ],
)
def test_a_bucket_is_named_by_the_values_of_its_keys(keys: tuple[str, ...], name: str) -> None:
    """In the order provider, model, user."""
    assert Policy(keys=keys, user="ann").target("openai", "gpt-4o").bucket == name


@pytest.mark.parametrize(
    ("provider", "model", "name"),
    [
        ("a/b", "m", "a%2Fb/m"),
        ("100%", "m", "100%25/m"),
        ("a%2Fb", "m", "a%252Fb/m"),
        ("p", "meta/llama-3%20", "p/meta/llama-3%20"),
        ("127.0.0.1:8000", "m", "127.0.0.1:8000/m"),
    ],
)
def test_percent_and_slash_are_encoded_except_in_the_model(provider: str, model: str, name: str) -> None:
    """Model names have slashes of their own."""
    assert Policy().target(provider, model).bucket == name


def test_different_values_never_make_one_name() -> None:
    """However slashes are spread over provider, model and user."""
    policy = Policy(keys=("provider", "model", "user"))
    parts = ("a", "a/b", "b", "a%2Fb", "%", "/")
    names = {
        Policy(keys=policy.keys, user=user).target(provider, model).bucket
        for provider in parts
        for model in parts
        for user in parts
    }
    assert len(names) == len(parts) ** 3


@pytest.mark.parametrize(
    ("label", "provider", "expected"), [(None, None, "default"), ("vllm", None, "vllm"), ("vllm", "x", "x")]
)
def test_a_call_without_provider_belongs_to_the_policys_label(label: str | None, provider: str | None, expected: str) -> None:
    """Else to `default`."""
    assert Policy(provider=label).target(provider, None).bucket == f"{expected}/default"


def test_the_keys_are_kept_beside_the_name() -> None:
    """Nobody has to take a name apart."""
    assert Policy().target("a/b", "m").keys == {"provider": "a/b", "model": "m"}


def test_a_name_that_is_no_text_is_refused() -> None:
    """At the call, by argument."""
    anything: Any = 7
    with pytest.raises(ConfigError, match=r"model=7 \(call\)") as caught:
        Policy().target("p", anything)
    assert (caught.value.knob, caught.value.source) == ("model", "call")


def test_a_name_too_long_for_a_ledger_is_refused() -> None:
    """With how long it may be."""
    with pytest.raises(ConfigError, match="too long: together at most 430 bytes"):
        Policy().target("p", "m" * 431)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Policy(keys=["model"]), Policy(keys=["user"])),
        (Policy(keys=["provider"]), Policy(keys=["model"])),
        (Policy(provider="p"), Policy(keys=["provider", "model", "user"], provider="p", user="u")),
    ],
    ids=["model and user", "provider and model", "a model with a slash, and a user"],
)
def test_two_buckets_of_one_name_are_not_mixed(stage: Stage, one: Policy, other: Policy) -> None:
    """The keys make the bucket: who comes second is told, whether he waits, tries once or is a task; the first goes on."""
    knobs = [{knob: getattr(policy, knob) for knob in ("keys", "provider", "user")} for policy in (one, other)]
    first, second = (stage.scheduler(max_in_flight=1, **each) for each in knobs)
    model = "m/u" if one.provider else None
    slot = first.acquire(model=model)
    for timeout_s in (0, 9):
        with pytest.raises(ConfigError, match="the `keys` of two policies differ") as caught:
            second.acquire(model=model and "m", timeout_s=timeout_s)
        assert caught.value.knob == "keys"
    with pytest.raises(ConfigError, match=f"bucket {slot.bucket} stands for"):
        asyncio.run(second.acquire_async(model=model and "m"))
    assert (stage.held(slot.bucket), stage.waiting(slot.bucket)) == (1, 0)
    slot.release()
    first.acquire(model=model, timeout_s=0).release()
    assert stage.is_empty()


def test_a_call_of_other_keys_does_not_disturb_the_calls_beside_it(stage: Stage) -> None:
    """Whichever thread's transaction takes it in, its own caller hears of it, and nobody else."""
    first, second = stage.scheduler(max_in_flight=1, keys=["model"]), stage.scheduler(max_in_flight=1, keys=["user"])
    slot = first.acquire()
    with stage.locked():
        callers = [Caller(second), Caller(first), Caller(second)]
    assert [type(callers[index].ended()) for index in (0, 2)] == [ConfigError] * 2
    until(lambda: stage.waiting(slot.bucket) == 1)
    slot.release()
    callers[1].ended().release()
    assert stage.is_empty()
