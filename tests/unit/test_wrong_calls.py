"""The public names, called as one might guess: the error says how."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from msgspec.structs import replace

from llm_sched import ConfigError, Policy, Scheduler, default, install, llm_slot

# Type checkers refuse all of these, so they must not look.
POLICY: Any = Policy
INSTALL: Any = install
SCHEDULER: Any = Scheduler
LLM_SLOT: Any = llm_slot
WRONG = [
    (lambda: POLICY(max_inflight=3), "max_inflight", "did you mean 'max_in_flight'?"),
    (lambda: POLICY(4), "", "by name, e.g. Policy(max_in_flight=4)"),
    (lambda: INSTALL(max_in_flight=4), "max_in_flight", "install(Policy(max_in_flight=4))"),
    (lambda: INSTALL(rpm=4), "rpm", "the knobs are max_in_flight, requests_per_minute"),
    (lambda: INSTALL({"max_in_flight": 4}), "", "install(Policy.from_params(mapping))"),
    (lambda: INSTALL(4), "", "install takes a Policy, not 4"),
    (lambda: SCHEDULER(max_in_flight=4), "max_in_flight", "Scheduler(Policy(max_in_flight=4))"),
    (lambda: SCHEDULER({"max_in_flight": 4}), "", "Scheduler(Policy.from_params(mapping))"),
    (lambda: SCHEDULER("ledger.json"), "", "Scheduler takes a Policy, not 'ledger.json'"),
]


@pytest.mark.parametrize(("call", "knob", "hint"), WRONG)
def test_a_wrong_call_is_answered_with_the_right_one(monkeypatch: pytest.MonkeyPatch, call: Any, knob: str, hint: str) -> None:
    """As a ConfigError; nothing is installed by it."""
    monkeypatch.setattr(default, "_installed", [])
    with pytest.raises(ConfigError) as caught:
        call()
    assert (caught.value.knob, hint in str(caught.value), default._installed) == (knob, True, [])  # noqa: SLF001 - see above


@pytest.mark.parametrize("function", [LLM_SLOT, Scheduler().slot])
def test_labels_are_given_by_name(function: Any) -> None:
    """Nobody sees which is which; it is a mistake in the call, not in a knob."""
    with pytest.raises(TypeError, match=r"slot\(provider='openai', model='gpt-4o'\)"):
        function("openai", "gpt-4o")


def test_a_policy_can_still_be_copied_replaced_and_pickled() -> None:
    """Which make one in ways of their own."""
    policy = Policy(max_in_flight=3, keys=["model"])
    copies = [copy.copy(policy), pickle.loads(pickle.dumps(policy)), replace(policy), policy.with_environment()]  # noqa: S301 - ours
    assert [each.max_in_flight for each in copies] == [3] * 4
    assert copies[:3] == [policy] * 3
