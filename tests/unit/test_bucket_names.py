"""Which bucket a call belongs to, and what it is called."""

from __future__ import annotations

from typing import Any

import pytest

from llm_sched import ConfigError, Policy


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
