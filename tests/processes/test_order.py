"""First come, first served, over all processes; and the strictest live policy counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from process_crew import until
from process_ledger import in_flight, is_quiet, waiting

from llm_sched import read_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from process_crew import Child, Crew


def queue_up(ledger: Path, waiters: list[Child], hows: list[str], **order: object) -> list[tuple[Child, str]]:
    """Let waiters queue one after the other, each seen in the queue before the next; return them in that order."""
    queue = []
    before = waiting(ledger)
    for number, how in enumerate(hows):
        waiter, name = waiters[number % len(waiters)], f"call {before + number}"
        waiter.tell(name=name, do=how, **order)
        until(lambda number=number: waiting(ledger) == before + number + 1, f"{name} waits")  # type: ignore[misc]
        queue.append((waiter, name))
    return queue


def test_slots_are_granted_in_the_order_of_the_calls(crew: Crew, ledger: Path) -> None:
    """Calls of three processes, in threads and tasks, get the slot in exactly the order in which they came."""
    holder, *waiters = (crew.puppet(ledger, max_in_flight=1) for _ in range(4))
    assert holder.ask("held", do="acquire")["got"]
    queue = queue_up(ledger, waiters, ["begin", "begin_task"] * 9)
    holder.ask("release held", do="release")
    for place, (waiter, name) in enumerate(queue):
        assert waiter.hear(name)["got"]
        assert not any(later.heard(other) for later, other in queue[place + 1 :])
        waiter.ask(f"release {name}", do="release")


def test_more_waiters_than_a_process_publishes_are_all_served(crew: Crew, ledger: Path) -> None:
    """With 40 waiters in each of three processes, far more than the ledger lists, each gets its slot, none is lost."""
    holder, *waiters = (crew.puppet(ledger, max_in_flight=2) for _ in range(4))
    for number in range(2):
        assert holder.ask(f"held {number}", do="acquire")["got"]
    for number in range(40):
        for waiter, how in zip(waiters, ("begin", "begin_task", "begin"), strict=True):
            waiter.tell(name=f"call {number}", do=how, keep=False)
    until(lambda: waiting(ledger) == 120, "all wait")
    assert all(each.count == 40 for each in read_snapshot(ledger).buckets[0].waiters)
    for number in range(2):
        holder.ask(f"release held {number}", do="release")
    for number in range(40):
        for waiter in waiters:
            assert waiter.hear(f"call {number}")["got"]
    until(lambda: is_quiet(read_snapshot(ledger)), "nobody holds or waits")
    assert read_snapshot(ledger).buckets[0].totals.granted == 122


def test_calls_that_time_out_in_the_middle_of_a_backlog_block_nobody(crew: Crew, ledger: Path) -> None:
    """Of 30 waiters in a process 10 in the middle give up; the others are served in order, none of the 10 is."""
    holder, waiter, other = (crew.puppet(ledger, max_in_flight=1) for _ in range(3))
    assert holder.ask("held", do="acquire")["got"]
    early = queue_up(ledger, [waiter], ["begin", "begin_task"] * 5)
    impatient = queue_up(ledger, [waiter], ["begin", "begin_task"] * 5, timeout_s=1.5)
    late = queue_up(ledger, [waiter, other], ["begin", "begin_task"] * 5)
    for process, name in impatient:
        assert process.hear(name)["error"] == "SlotTimeout"
    until(lambda: waiting(ledger) == 20, "those who gave up wait no more")
    holder.ask("release held", do="release")
    for process, name in early + late:
        assert process.hear(name)["got"]
        process.ask(f"release {name}", do="release")
    until(lambda: is_quiet(read_snapshot(ledger)), "nobody holds or waits")
    assert read_snapshot(ledger).buckets[0].totals.timed_out == 10


def test_a_call_that_gives_up_spends_no_token(crew: Crew, ledger: Path) -> None:
    """Cap 1, 2 requests a minute, burst 2: A holds, B times out, A ends, and C passes at once on the second token."""
    policy: dict[str, Any] = {"max_in_flight": 1, "requests_per_minute": 2, "burst": 2}
    first, second, third = (crew.puppet(ledger, **policy) for _ in range(3))
    assert first.ask("A", do="acquire")["got"]
    assert second.ask("B", do="acquire", timeout_s=0.2)["error"] == "SlotTimeout"
    assert second.ask("B again", do="acquire", timeout_s=0)["error"] == "SlotTimeout"
    first.ask("release A", do="release")
    assert third.ask("C", do="acquire", timeout_s=0)["got"]
    third.ask("release C", do="release")
    assert first.ask("D", do="acquire", timeout_s=0)["error"] == "SlotTimeout"


def test_the_strictest_live_policy_holds_while_it_lives(crew: Crew, ledger: Path) -> None:
    """A process with a smaller cap binds everybody while it holds; when it is gone the others' cap counts again."""
    strict = crew.puppet(ledger, max_in_flight=1)
    loose = crew.puppet(ledger, max_in_flight=3)
    assert strict.ask("held", do="acquire")["got"]
    answer = loose.ask("wanted", do="acquire", timeout_s=0)
    assert answer["error"] == "SlotTimeout"
    loose.tell(name="wanted", do="begin")
    until(lambda: waiting(ledger) == 1, "it waits")
    bucket = read_snapshot(ledger).buckets[0]
    assert bucket.max_in_flight == 1
    assert {(policy.pid, policy.max_in_flight) for policy in bucket.policies} == {(strict.pid, 1), (loose.pid, 3)}
    assert [each.waiting_for for each in bucket.waiters] == ["policy"]
    strict.kill()
    assert loose.hear("wanted", 5)["got"]
    for number in range(2):
        assert loose.ask(f"more {number}", do="acquire", timeout_s=0)["got"]
    assert in_flight(ledger) == 3
    assert read_snapshot(ledger).buckets[0].max_in_flight == 3


def test_a_strict_policy_that_joins_lets_the_bucket_drain_first(crew: Crew, ledger: Path) -> None:
    """When a stricter process comes to wait, those who hold keep their slots, and nobody gets in until there is room."""
    loose = crew.puppet(ledger, max_in_flight=3)
    strict = crew.puppet(ledger, max_in_flight=1)
    for number in range(3):
        assert loose.ask(f"held {number}", do="acquire")["got"]
    strict.tell(name="wanted", do="begin")
    until(lambda: waiting(ledger) == 1, "it waits")
    for number in range(2):
        loose.ask(f"release held {number}", do="release")
        assert not strict.heard("wanted")
        assert waiting(ledger) == 1
    loose.ask("release held 2", do="release")
    assert strict.hear("wanted", 5)["got"]
    assert not loose.ask("too many", do="acquire", timeout_s=0)["got"]
