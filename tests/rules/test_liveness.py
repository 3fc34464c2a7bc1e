"""The dead, the overdue, another boot, lost ledgers, buckets that nobody uses."""

from __future__ import annotations

from rules_ledger import BUCKET, START, Ledger

from llm_sched.model import Claim, Terms
from llm_sched.rules import liveness, transitions

ONE = Terms(max_in_flight=1)
HOLD = Terms(max_in_flight=2, max_hold_s=10.0)
KEYS = {"provider": "openai", "model": "gpt-4o"}


def test_the_slots_of_the_dead_go_to_the_waiting() -> None:
    """At once, in the same transaction."""
    ledger = Ledger(ONE)
    ledger.ask("1-a")
    waiting = ledger.ask("2-b")
    ledger.reap("1-a")
    assert (ledger.held(), ledger.bucket.totals.reclaimed) == ([waiting], 1)


def test_all_that_the_dead_had_is_taken() -> None:
    """Slots, tickets, membership, the owner's entry."""
    ledger = Ledger(ONE)
    ledger.ask("1-a")
    ledger.ask("1-a")
    ledger.reap("1-a")
    assert (ledger.held(), ledger.waiting(), ledger.bucket.members, list(ledger.state.owners)) == ([], [], {}, [])


def test_the_living_keep_what_they_have() -> None:
    """Slots and places in the queue."""
    ledger = Ledger(Terms(max_in_flight=2))
    kept, _ = ledger.ask("1-a"), ledger.ask("2-b")
    waiting = [ledger.ask("1-a"), ledger.ask("1-a")]
    ledger.reap("2-b")
    assert (ledger.held(), ledger.waiting()) == ([kept, waiting[0]], waiting[1:])


def test_nobody_to_reap_changes_nothing() -> None:
    """So nothing is written."""
    ledger = Ledger(ONE)
    ledger.ask()
    ledger.out.changed = False
    ledger.reap("9-nobody")
    assert not ledger.out.changed


def test_a_dead_owners_strict_policy_dies_with_it() -> None:
    """The others go on under theirs."""
    ledger = Ledger()
    ledger.ask("1-a", terms=ONE)
    others = [ledger.ask("2-b", terms=Terms(max_in_flight=2)) for _ in range(2)]
    ledger.reap("1-a")
    assert (ledger.held(), ledger.bucket.terms) == (others, [Terms(max_in_flight=2)])


def test_a_slot_held_too_long_is_taken_back_and_passed_on() -> None:
    """And its late release frees nothing a second time."""
    ledger = Ledger(Terms(max_in_flight=1, max_hold_s=10.0))
    late, waiting = ledger.ask(), ledger.ask()
    ledger.at(START + 10.5)
    taken = [lease.number for lease in ledger.expire()]
    assert (taken, ledger.release(late), ledger.held()) == ([late], False, [waiting])


def test_a_slot_within_its_time_is_kept() -> None:
    """Exactly `max_hold_s` is not too long."""
    ledger = Ledger(HOLD)
    call = ledger.ask()
    ledger.at(START + 10.0)
    assert (ledger.expire(), ledger.held()) == ([], [call])


def test_without_max_hold_a_slot_is_kept_for_ever() -> None:
    """A live process keeps its slots."""
    ledger = Ledger(ONE)
    call = ledger.ask()
    ledger.at(START + 1e6)
    assert (ledger.expire(), ledger.held()) == ([], [call])


def test_max_hold_is_its_owners_own() -> None:
    """Nobody's slots are taken under somebody else's policy."""
    ledger = Ledger()
    ledger.ask("1-a", terms=HOLD)
    kept = ledger.ask("2-b", terms=Terms(max_in_flight=2))
    ledger.at(START + 1000)
    ledger.expire()
    assert ledger.held() == [kept]


def test_what_is_overdue_is_reported() -> None:
    """With how long it had been held."""
    ledger = Ledger(HOLD)
    ledger.ask()
    ledger.at(START + 30)
    ledger.expire()
    assert [(event.kind, event.seconds) for event in ledger.out.events[-1:]] == [("overdue", 30.0)]


def test_after_a_reboot_nobody_lives_and_the_totals_last() -> None:
    """The clock starts anew with the machine."""
    ledger = Ledger(Terms(max_in_flight=1))
    ledger.ask()
    ledger.ask()
    transitions.reboot(ledger.state, "another boot")
    bucket = ledger.bucket
    assert (list(ledger.state.owners), bucket.leases, bucket.queue, bucket.members) == ([], [], [], {})
    assert (ledger.state.boot, ledger.now, bucket.totals.granted, bucket.totals.reclaimed) == ("another boot", 0.0, 1, 1)


def test_after_a_reboot_a_rate_starts_empty() -> None:
    """A reboot mints no tokens."""
    ledger = Ledger(Terms(max_in_flight=0, requests_per_minute=60.0, burst=5.0))
    ledger.ask()
    transitions.reboot(ledger.state, "another boot")
    ledger.at(5.0)
    assert ledger.ask() in ledger.waiting()


def test_a_cleared_ledger_has_no_calls_but_the_same_owners() -> None:
    """Its new identity tells them to look which of their calls it lists."""
    ledger = Ledger(ONE)
    ledger.ask()
    transitions.clear(ledger.state, "new ident")
    assert (ledger.state.ident, list(ledger.state.owners), list(ledger.state.buckets)) == ("new ident", ["1-a"], [])


def test_a_lost_ledger_is_made_again_from_what_the_living_hold() -> None:
    """Held slots count against the cap; tickets keep their call times."""
    ledger = Ledger(ONE, origin="rebuilt")
    for number, at, held in ((3, 30.0, False), (1, 10.0, True), (2, 20.0, False)):
        transitions.adopt(ledger.state, BUCKET, Claim("1-a", ONE, KEYS, number, 0, at, number, held))
    newcomer = ledger.ask("2-b")
    assert (ledger.held(), ledger.waiting()) == ([1], [2, 3, newcomer])


def test_a_bucket_idle_for_an_hour_is_dropped_when_the_next_is_made() -> None:
    """So the ledger stays bounded; a bucket in use stays, however long."""
    ledger = Ledger(ONE)
    ledger.release(ledger.ask())
    for name, now in (("busy", START), ("new", START + liveness.IDLE_BUCKET_S + 1)):
        ledger.at(now)
        transitions.bucket_for(ledger.state, name, KEYS, ledger.now)
        transitions.adopt(ledger.state, "busy", Claim("1-a", ONE, KEYS, 50, 0, START, 50, held=True))
    assert list(ledger.state.buckets) == ["busy", "new"]
