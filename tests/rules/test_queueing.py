"""Who is next."""

from __future__ import annotations

from rules_ledger import Ledger

from llm_sched.model import Terms

ONE = Terms(max_in_flight=1)
TURNS = Terms(max_in_flight=1, fair_by="user")


def test_a_released_slot_goes_to_the_oldest_waiter() -> None:
    """First come, first served."""
    ledger = Ledger(ONE)
    first, second, third = (ledger.ask() for _ in range(3))
    ledger.release(first)
    assert (ledger.held(), ledger.waiting()) == ([second], [third])


def test_a_newcomer_cannot_barge_in() -> None:
    """The slot is handed over in the release itself; whoever comes after it queues behind."""
    ledger = Ledger(ONE)
    first, second = ledger.ask("1-a"), ledger.ask("2-b")
    ledger.release(first, "1-a")
    newcomer = ledger.ask("3-c")
    assert (ledger.held(), ledger.waiting()) == ([second], [newcomer])


def test_the_queue_goes_by_when_the_call_was_made_not_by_who_got_the_lock_first() -> None:
    """A ticket that is published late stands where its call time belongs."""
    ledger = Ledger(ONE)
    ledger.ask()
    late = ledger.ask("2-b", at=ledger.now - 1)
    early = ledger.ask("3-c", at=ledger.now - 2)
    assert ledger.waiting() == [early, late]


def test_calls_of_the_same_instant_have_one_order_for_everybody() -> None:
    """Ties are broken by owner and number, whatever order they were published in."""
    ledger = Ledger(ONE)
    ledger.ask("0-z")
    calls = {ledger.ask(owner): owner for owner in ("3-c", "1-a", "2-b", "1-a")}
    assert [calls[number] for number in ledger.waiting()] == ["1-a", "1-a", "2-b", "3-c"]


def test_nobody_overtakes_a_head_that_waits_for_a_token() -> None:
    """A free slot is no way around the rate."""
    ledger = Ledger(Terms(max_in_flight=9, requests_per_minute=1.0, burst=1.0))
    ledger.ask()
    head, next_one = ledger.ask(), ledger.ask()
    assert ledger.waiting() == [head, next_one]


def test_users_take_turns_when_the_policy_is_fair_by_user() -> None:
    """Somebody's hundred calls do not hold up another user's two."""
    ledger = Ledger(TURNS, users={"1-a": "ann", "2-b": "bob"})
    running = [(ledger.ask("1-a"), "1-a")]
    anns = [ledger.ask("1-a") for _ in range(4)]
    bobs = [ledger.ask("2-b") for _ in range(2)]
    order: list[int] = []
    while running:
        number, owner = running.pop()
        ledger.release(number, owner)
        running += [(lease.number, lease.owner) for lease in ledger.bucket.leases]
        order += ledger.held()
    assert order == [bobs[0], anns[0], bobs[1], anns[1], anns[2], anns[3]]


def test_one_users_calls_stay_in_order_when_users_take_turns() -> None:
    """Also over several processes of that user."""
    ledger = Ledger(TURNS, users={"1-a": "ann", "2-b": "ann"})
    first = ledger.ask("1-a")
    calls = [ledger.ask(owner, at=ledger.now + index) for index, owner in enumerate(("1-a", "2-b", "1-a"))]
    ledger.release(first, "1-a")
    assert (ledger.held(), ledger.waiting()) == ([calls[0]], calls[1:])


def test_one_owner_that_wants_turns_is_enough() -> None:
    """Taking turns is stricter than not, so it holds for all."""
    ledger = Ledger(ONE, users={"1-a": "ann", "2-b": "bob"})
    anns = [ledger.ask("1-a") for _ in range(3)]
    bobs = ledger.ask("2-b", terms=TURNS)
    ledger.release(anns[0], "1-a")
    ledger.release(anns[1], "1-a")
    assert (ledger.held(), ledger.waiting()) == ([bobs], [anns[2]])
