"""Rates that come, go or change, and ledgers that were lost: nothing is minted, nobody waits longer than a refill."""

from __future__ import annotations

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
