"""Who may go: the cap, and the strictest policy of those who are here."""

from __future__ import annotations

import pytest
from rules_ledger import Ledger

from llm_sched.model import Terms
from llm_sched.rules import admission


def test_calls_up_to_the_cap_go_at_once() -> None:
    """As many calls as the cap allows hold a slot; the next one waits."""
    ledger = Ledger(Terms(max_in_flight=2))
    calls = [ledger.ask() for _ in range(3)]
    assert (ledger.held(), ledger.waiting()) == (calls[:2], calls[2:])


def test_a_cap_of_0_is_no_cap() -> None:
    """Without a cap everybody goes."""
    ledger = Ledger(Terms(max_in_flight=0))
    calls = [ledger.ask() for _ in range(100)]
    assert ledger.held() == calls


def test_the_strictest_cap_of_those_who_are_here_holds() -> None:
    """An owner with a cap of 5 obeys another's cap of 1 while that one holds a slot."""
    ledger = Ledger()
    ledger.ask("1-a", terms=Terms(max_in_flight=1))
    assert ledger.ask("2-b", terms=Terms(max_in_flight=5)) in ledger.waiting()


def test_the_strictest_cap_ends_with_its_owner() -> None:
    """When the strict owner has nothing here any more, the others' cap holds, and all who may then go do."""
    ledger = Ledger()
    strict = ledger.ask("1-a", terms=Terms(max_in_flight=1))
    others = [ledger.ask("2-b", terms=Terms(max_in_flight=3)) for _ in range(3)]
    ledger.release(strict, "1-a")
    assert ledger.held() == others


def test_no_cap_is_less_strict_than_any_cap() -> None:
    """0 never wins against a number."""
    joined = admission.strictest([Terms(max_in_flight=0), Terms(max_in_flight=7)])
    assert joined.max_in_flight == 7


def test_the_strictest_of_each_limit_holds_not_the_strictest_policy() -> None:
    """One policy's cap and another's rate hold together; a burst counts only beside a rate."""
    joined = admission.strictest(
        [Terms(max_in_flight=2, burst=1.0), Terms(max_in_flight=9, requests_per_minute=6.0, burst=3.0)]
    )
    assert (joined.max_in_flight, joined.requests_per_minute, joined.burst) == (2, 6.0, 3.0)


def test_no_terms_at_all_are_no_limit() -> None:
    """A bucket that nobody uses limits nobody."""
    joined = admission.strictest([])
    assert (joined.max_in_flight, joined.requests_per_minute) == (0, 0.0)


def test_lowering_the_cap_under_load_admits_nobody_until_it_has_drained() -> None:
    """Four slots are out when the cap becomes 2: three have to come back before the next one goes."""
    ledger = Ledger(Terms(max_in_flight=4))
    held = [ledger.ask() for _ in range(4)]
    newcomer = ledger.ask(terms=Terms(max_in_flight=2))
    admitted = [(ledger.release(call), newcomer in ledger.held()) for call in held[:3]]
    assert admitted == [(True, False), (True, False), (True, True)]


def test_raising_the_cap_lets_the_waiting_through_at_the_next_decision() -> None:
    """The owner's newest terms count for all that it has here."""
    ledger = Ledger(Terms(max_in_flight=1))
    calls = [ledger.ask() for _ in range(3)]
    last = ledger.ask(terms=Terms(max_in_flight=3))
    assert (ledger.held(), ledger.waiting()) == (calls, [last])


@pytest.mark.parametrize(
    ("terms", "kind"),
    [
        (Terms(max_in_flight=1), "in_flight"),
        (Terms(max_in_flight=9, requests_per_minute=1.0, burst=1.0), "rate"),
        (Terms(max_in_flight=9), "none"),
    ],
)
def test_a_waiter_can_be_told_what_it_waits_for(terms: Terms, kind: str) -> None:
    """The cap, the token, or nothing."""
    ledger = Ledger(terms)
    ledger.ask()
    ledger.queue()
    assert admission.waits_for(ledger.bucket, terms, ledger.now) == kind


def test_a_waiter_that_its_own_policy_would_admit_waits_for_another_policy() -> None:
    """Somebody else's stricter cap shows as `policy`, to its own owner as `in_flight`."""
    ledger = Ledger()
    strict, lax = Terms(max_in_flight=1), Terms(max_in_flight=5)
    ledger.ask("1-a", terms=strict)
    ledger.ask("2-b", terms=lax)
    assert [admission.waits_for(ledger.bucket, own, ledger.now) for own in (lax, strict)] == ["policy", "in_flight"]
