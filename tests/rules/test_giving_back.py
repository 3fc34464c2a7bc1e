"""How a slot or a place in the queue ends: released, withdrawn, timed out."""

from __future__ import annotations

import pytest
from rules_ledger import BUCKET, START, Ledger

from llm_sched.model import WAIT_BOUNDARIES, EventKind, Terms, Ticket
from llm_sched.rules import transitions

ONE = Terms(max_in_flight=1)
RATED = Terms(max_in_flight=0, requests_per_minute=60.0, burst=2.0)


def test_releasing_twice_frees_one_slot() -> None:
    """The second release finds nothing and admits nobody."""
    ledger = Ledger(ONE)
    first, second, third = (ledger.ask() for _ in range(3))
    answers = [ledger.release(first), ledger.release(first)]
    assert (answers, ledger.held(), ledger.waiting()) == ([True, False], [second], [third])


def test_a_release_of_an_unknown_slot_changes_nothing() -> None:
    """Neither in a bucket that exists nor in one that does not."""
    ledger = Ledger(ONE)
    ledger.ask()
    ledger.out.changed = False
    answers = [ledger.release(99), transitions.release(ledger.state, "no/bucket", "1-a", 1, ledger.out)]
    assert (answers, ledger.out.changed) == ([False, False], False)


def test_nobody_can_release_somebody_elses_slot() -> None:
    """A number belongs to its owner."""
    ledger = Ledger(ONE)
    call = ledger.ask("1-a")
    assert (ledger.release(call, "2-b"), ledger.held()) == (False, [call])


def test_a_release_says_how_long_the_slot_was_held() -> None:
    """For observers."""
    ledger = Ledger(ONE)
    call = ledger.ask()
    ledger.at(START + 7.5)
    ledger.release(call)
    assert [event.seconds for event in ledger.out.events if event.kind == "released"] == [7.5]


@pytest.mark.parametrize(("kind", "counter"), [("canceled", "canceled"), ("timed_out", "timed_out"), ("refused", "timed_out")])
def test_a_withdrawn_ticket_leaves_the_queue_and_is_counted(kind: EventKind, counter: str) -> None:
    """Those behind it move up."""
    ledger = Ledger(ONE)
    _, second, third = (ledger.ask() for _ in range(3))
    ledger.withdraw(second, kind=kind)
    assert (ledger.waiting(), getattr(ledger.bucket.totals, counter), ledger.kinds()[-1]) == ([third], 1, kind)


def test_withdrawing_twice_counts_once() -> None:
    """The second finds nothing."""
    ledger = Ledger(ONE)
    waiting = [ledger.ask(), ledger.ask()][1]
    ledger.withdraw(waiting)
    ledger.withdraw(waiting)
    assert (ledger.bucket.totals.canceled, ledger.bucket.members["1-a"].waiting) == (1, 0)


def test_a_withdrawal_from_an_unknown_bucket_changes_nothing() -> None:
    """The ledger may have been lost meanwhile."""
    ledger = Ledger(ONE)
    transitions.withdraw(ledger.state, "no/bucket", "1-a", 1, "canceled", ledger.out)
    assert (ledger.out.changed, ledger.out.events) == (False, [])


def test_a_slot_that_came_while_its_call_was_cancelled_goes_on_at_once() -> None:
    """No slot is lost between a grant and a cancellation."""
    ledger = Ledger(ONE)
    granted, waiting = ledger.ask(), ledger.ask()
    ledger.withdraw(granted)
    assert (ledger.held(), ledger.waiting()) == ([waiting], [])


def test_a_withdrawn_call_has_spent_no_token() -> None:
    """Granted or not, its token is there for the next."""
    ledger = Ledger(RATED)
    granted = [ledger.ask() for _ in range(2)]
    waiting = ledger.ask()
    ledger.withdraw(granted[1])
    assert ledger.held() == [granted[0], waiting]


def test_a_ticket_that_timed_out_in_the_queue_delays_nobody() -> None:
    """The head's token goes to whoever is head then."""
    ledger = Ledger(RATED)
    waiting = [ledger.ask() for _ in range(4)][2:]
    ledger.withdraw(waiting[0], kind="timed_out")
    ledger.at(START + 1.0)
    ledger.settle()
    assert ledger.waiting() == []


def test_a_withdrawn_grant_is_taken_out_of_the_totals() -> None:
    """As if it had never been granted."""
    ledger = Ledger(ONE)
    ledger.withdraw(ledger.ask())
    totals = ledger.bucket.totals
    assert (totals.granted, sum(totals.waits), totals.wait_s, ledger.bucket.members["1-a"].granted) == (0, 0, 0.0, 0)


def test_a_strict_waiter_that_gives_up_frees_the_others() -> None:
    """Its policy holds only while it waits."""
    ledger = Ledger()
    ledger.ask("2-b", terms=Terms(max_in_flight=5))
    strict = ledger.ask("1-a", terms=ONE)
    other = ledger.ask("2-b", terms=Terms(max_in_flight=5))
    ledger.withdraw(strict, "1-a", "timed_out")
    assert (other in ledger.held(), ledger.waiting()) == (True, [])


def test_a_call_that_gave_up_unpublished_is_counted() -> None:
    """It queued in its own process only."""
    ledger = Ledger(ONE)
    ledger.ask()
    transitions.give_up(ledger.state, BUCKET, Ticket("1-a", 77, START - 3, 0), "timed_out", ledger.out)
    assert (ledger.bucket.totals.timed_out, ledger.out.events[-1].seconds) == (1, 3.0)


@pytest.mark.parametrize(("waited", "cell"), [(0.0, 0), (0.001, 0), (0.0011, 1), (300.0, 14), (301.0, 15)])
def test_each_wait_is_counted_in_its_cell(waited: float, cell: int) -> None:
    """A bound belongs to the cell below it; the last cell has no bound."""
    ledger = Ledger(ONE)
    ledger.ask(at=START - waited)
    assert [index for index, count in enumerate(ledger.bucket.totals.waits) if count] == [cell]
    assert len(ledger.bucket.totals.waits) == len(WAIT_BOUNDARIES) + 1


def test_events_come_in_the_order_of_what_happened() -> None:
    """Queued before granted, the release before the grant that it makes possible."""
    ledger = Ledger(ONE)
    first, _ = ledger.ask(), ledger.ask()
    ledger.release(first)
    assert ledger.kinds() == ["queued", "granted", "queued", "released", "granted"]
