"""Rates that come, go or change, and ledgers that were lost: nothing is minted, nobody waits longer than a refill."""

from __future__ import annotations

from rules_ledger import Ledger

from llm_sched import codec
from llm_sched.model import Terms, Ticket, Transition
from llm_sched.rules import transitions

KEYS = {"model": "m"}


def test_a_bucket_made_long_after_a_rebuild_starts_full() -> None:
    """What may have been spent before the loss has long been refilled."""
    state, out = codec.new_state("i", "b", "m", "rebuilt"), Transition()
    transitions.advance(state, 1000.0)
    transitions.advance(state, 5000.0)
    transitions.bucket_for(state, "m", KEYS, state.clock)
    transitions.enqueue(state, "m", Ticket("1-a", 1, 5000.0, 0), Terms(requests_per_minute=2, burst=2), out)
    transitions.settle(state, "m", out)
    assert len(out.grants) == 1


def go_at_once(ledger: Ledger, owner: str, terms: Terms) -> bool:
    """Whether a call goes at once; it is withdrawn if not, and over at once if so."""
    number = ledger.ask(owner, terms=terms)
    went = number in ledger.held()
    if went:
        ledger.release(number, owner)
    else:
        ledger.withdraw(number, owner, "refused")
    return went


def test_a_stricter_visitor_gives_nobody_his_tokens_back() -> None:
    """Same rate, smaller burst: who comes and goes in between must not make others forget what they have spent."""
    ledger = Ledger()
    lenient = Terms(max_in_flight=0, requests_per_minute=60.0, burst=60.0)
    strict = Terms(max_in_flight=0, requests_per_minute=60.0, burst=1.0)
    went = [go_at_once(ledger, *call) for call in ([("1-a", lenient)] * 70 + [("2-b", strict)]) * 4]
    assert sum(went) == 60


def test_tokens_last_through_a_change_of_the_rate() -> None:
    """Three of four are left, whatever a token's time is worth then."""
    ledger = Ledger()
    slow, quick = (Terms(max_in_flight=0, requests_per_minute=rate, burst=4.0) for rate in (1.0, 6000.0))
    assert go_at_once(ledger, "1-a", slow)
    assert [go_at_once(ledger, "2-b", quick) for _ in range(4)] == [True, True, True, False]


def test_a_token_is_refunded_at_the_rate_of_the_day() -> None:
    """A call that paid ten seconds' worth is withdrawn when a token is worth ten milliseconds: one token comes back."""
    ledger = Ledger()
    slow, quick = (Terms(max_in_flight=0, requests_per_minute=rate, burst=9.0) for rate in (6.0, 6000.0))
    waiting = [ledger.ask("1-a", terms=slow) for _ in range(9)]
    ledger.release(waiting[0], "1-a")
    assert not go_at_once(ledger, "1-a", quick)
    ledger.withdraw(waiting[1], "1-a", "canceled")
    assert [go_at_once(ledger, "1-a", quick) for _ in range(3)] == [True, False, False]


def test_a_refund_is_what_was_spent() -> None:
    """A call granted without a rate is withdrawn under one: it had spent nothing."""
    state, out = codec.new_state("i", "b", "m"), Transition()
    free, rated = Terms(max_in_flight=0), Terms(max_in_flight=0, requests_per_minute=6.0, burst=1.0)
    transitions.advance(state, 1000.0)
    transitions.bucket_for(state, "m", KEYS, state.clock)
    for number in range(3):
        transitions.enqueue(state, "m", Ticket("1-a", number, 1000.0, 0), free, out)
    transitions.settle(state, "m", out)
    out = Transition()
    for number in range(10, 14):
        transitions.enqueue(state, "m", Ticket("2-b", number, 1000.0, 0), rated, out)
    transitions.settle(state, "m", out)
    for number in range(3):
        transitions.withdraw(state, "m", "1-a", number, "canceled", out)
    assert len(out.grants) <= 2, "burst 1, yet so many at once"
