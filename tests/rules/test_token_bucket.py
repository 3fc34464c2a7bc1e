"""Requests per minute: when the next token is there, what is spent, what comes back."""

from __future__ import annotations

import pytest
from rules_ledger import START, Ledger

from llm_sched.model import Terms
from llm_sched.rules import token_bucket

EVEN = Terms(max_in_flight=0, requests_per_minute=60.0, burst=1.0)
BURST = Terms(max_in_flight=0, requests_per_minute=60.0, burst=3.0)


def test_a_new_ledger_starts_with_a_full_bucket() -> None:
    """The first `burst` calls go at once, the next waits for its token."""
    ledger = Ledger(BURST)
    calls = [ledger.ask() for _ in range(4)]
    assert (ledger.held(), ledger.waiting()) == (calls[:3], calls[3:])


def test_a_rebuilt_ledger_starts_without_a_token() -> None:
    """Nobody can tell what was spent before, so nothing is given away."""
    ledger = Ledger(BURST, origin="rebuilt")
    ledger.ask()
    assert [due.ticket.due for due in ledger.out.dues] == [START + 1.0]


def test_a_rate_of_0_is_no_rate() -> None:
    """Without a rate nobody waits for a token."""
    ledger = Ledger(Terms(max_in_flight=0))
    calls = [ledger.ask() for _ in range(50)]
    assert ledger.held() == calls


def test_the_head_is_told_when_its_token_is_due() -> None:
    """It sleeps to that moment instead of looking again and again."""
    ledger = Ledger(EVEN)
    ledger.ask()
    waiting = ledger.ask()
    assert [(due.ticket.number, round(due.ticket.due - ledger.now, 2)) for due in ledger.out.dues] == [(waiting, 1.0)]


def test_the_head_is_told_only_once() -> None:
    """A due time that it knows already is not worth a wake-up."""
    ledger = Ledger(EVEN)
    ledger.ask()
    ledger.ask()
    ledger.settle()
    assert len(ledger.out.dues) == 1


def test_a_token_comes_with_time_and_not_before() -> None:
    """A moment early is too early."""
    ledger = Ledger(EVEN)
    waiting = [ledger.ask(), ledger.ask()][1]
    due = ledger.out.dues[0].ticket.due
    seen = [ledger.settle_at(moment) and waiting in ledger.held() for moment in (due - 0.001, due)]
    assert seen == [False, True]


def test_tokens_gather_up_to_the_burst_and_no_further() -> None:
    """An hour of silence is worth `burst` calls."""
    ledger = Ledger(BURST)
    ledger.ask()
    ledger.at(START + 3600)
    calls = [ledger.ask() for _ in range(5)]
    assert ledger.waiting() == calls[3:]


def test_a_clock_that_steps_back_mints_no_token() -> None:
    """Time in the ledger never runs backwards, nor twice."""
    ledger = Ledger(EVEN)
    ledger.ask()
    ledger.at(START - 500)
    ledger.ask()
    assert (ledger.now, len(ledger.held())) == (START, 1)


def test_a_grant_a_little_late_does_not_shift_the_grid() -> None:
    """Evenly spaced calls would else lose every wake-up's latency."""
    late = token_bucket.spend(START, EVEN, START + token_bucket.SLACK_S)
    assert late == pytest.approx(START + 1.0)


def test_a_grant_much_later_starts_the_grid_anew() -> None:
    """The slack is never worth a token."""
    later = token_bucket.spend(START, EVEN, START + 10.0)
    assert START + 10.9 < later <= START + 11.0


def test_what_was_spent_and_refunded_was_never_spent() -> None:
    """Within a burst the bucket is as full as before."""
    tat = token_bucket.spend(token_bucket.spend(0.0, BURST, START), BURST, START)
    again = token_bucket.refund(token_bucket.spend(tat, BURST, START), BURST)
    assert again == pytest.approx(tat)


@pytest.mark.parametrize(
    ("tat", "tokens"), [(0.0, 3.0), (START, 3.0), (START + 1.0, 2.0), (START + 2.5, 0.5), (START + 99, 0.0)]
)
def test_what_is_left_is_between_nothing_and_the_burst(tat: float, tokens: float) -> None:
    """`available` never leaves [0, burst]."""
    left = token_bucket.available(tat, BURST, START)
    assert left == pytest.approx(tokens)


def test_a_raised_rate_shortens_the_wait_at_the_next_decision() -> None:
    """Nobody waits out the interval of a rate that no longer holds."""
    ledger = Ledger()
    slow, fast = Terms(requests_per_minute=1.0, burst=1.0), Terms(requests_per_minute=60.0, burst=1.0)
    ledger.ask(terms=slow)
    waiting = [ledger.ask(terms=slow), ledger.queue(terms=fast)][0]
    ledger.settle()
    assert [due.ticket.due - ledger.now for due in ledger.out.dues if due.ticket.number == waiting][-1] <= 1.0


def test_each_waiter_can_be_told_its_own_moment() -> None:
    """The third in the queue sleeps until the third token."""
    ledger = Ledger(EVEN)
    first = ledger.ask()
    waiting = [ledger.ask() for _ in range(3)]
    moments = [ledger.estimate(number) for number in (first, *waiting)]
    assert [round(moment - START) for moment in moments] == [-1000, 1, 2, 3]


def test_a_waiter_that_waits_for_a_slot_is_told_no_moment() -> None:
    """Nobody knows when a slot comes back."""
    ledger = Ledger(Terms(max_in_flight=1, requests_per_minute=60.0, burst=9.0))
    ledger.ask()
    assert ledger.estimate(ledger.ask()) == 0.0
