"""Every field of a snapshot, from a ledger made for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from llm_sched import Policy, codec, host, snapshot
from llm_sched.config import OVERDUE_S
from llm_sched.mailroom import FileMailroom
from llm_sched.model import WAIT_BOUNDARIES, Owner, State, Terms, Ticket, Transition
from llm_sched.rules import transitions
from llm_sched.testing import JumpClock

if TYPE_CHECKING:
    from pathlib import Path

BUCKET = "openai/gpt-4o"
START = 1000.0


class Scene:
    """A ledger with owners that call in one bucket, and the snapshot of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._out = Transition()
        self._number = 0
        self.clock = JumpClock(START)
        self.state: State = codec.new_state("ident", host.boot_id(), "machine")
        transitions.advance(self.state, START)

    def ask(self, owner: str, terms: Terms, *, deadline: float = 0.0) -> int:
        """An owner calls; returns the call's number."""
        self._number += 1
        self.state.owners.setdefault(owner, Owner(int(owner[0]), f"user-{owner[0]}", f"{owner[0]}.py"))
        transitions.bucket_for(self.state, BUCKET, {"provider": "openai", "model": "gpt-4o"}, self.clock.now())
        ticket = Ticket(owner, self._number, self.clock.now(), 0, deadline=deadline)
        transitions.enqueue(self.state, BUCKET, ticket, terms, self._out)
        transitions.settle(self.state, BUCKET, self._out)
        return self._number

    def release(self, owner: str, number: int) -> None:
        """A call ends."""
        transitions.release(self.state, BUCKET, owner, number, self._out)

    def pass_time(self, seconds: float) -> None:
        """Time passes, also in the ledger."""
        self.clock.advance(seconds)
        transitions.advance(self.state, self.clock.now())

    def view(self) -> snapshot.Snapshot:
        """The snapshot."""
        return snapshot.view(self.state, "path", FileMailroom(self._folder), self.clock)

    def bucket(self) -> dict[str, Any]:
        """The bucket in it."""
        (bucket,) = self.view().to_dict()["buckets"]
        return dict(bucket)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """An empty scene."""
    return Scene(tmp_path)


def test_a_bucket_shows_who_holds_and_since_when(scene: Scene) -> None:
    """The oldest first."""
    terms = Terms(max_in_flight=2)
    scene.ask("1-a", terms)
    scene.pass_time(5)
    scene.ask("2-b", terms)
    scene.pass_time(1)
    assert scene.bucket()["holders"] == [
        {"pid": 1, "user": "user-1", "command": "1.py", "held_s": 6.0, "waited_s": 0.0, "overdue": False},
        {"pid": 2, "user": "user-2", "command": "2.py", "held_s": 1.0, "waited_s": 0.0, "overdue": False},
    ]


def test_a_bucket_shows_who_waits_per_process(scene: Scene) -> None:
    """How many, the oldest's wait, its place in the queue, and when it gives up."""
    terms = Terms(max_in_flight=1)
    for owner, deadline in (("1-a", 0.0), ("2-b", START + 30), ("3-c", 0.0), ("2-b", START + 60)):
        scene.ask(owner, terms, deadline=deadline)
        scene.pass_time(1)
    scene.state.buckets[BUCKET].members["3-c"].backlog = 40
    shown = scene.bucket()
    base = {"waiting_for": "in_flight"}
    assert shown["waiters"] == [
        {"pid": 2, "user": "user-2", "command": "2.py", "count": 2, "oldest_wait_s": 3.0, "position": 1, "deadline_s": 26.0}
        | base,
        {"pid": 3, "user": "user-3", "command": "3.py", "count": 41, "oldest_wait_s": 2.0, "position": 2, "deadline_s": None}
        | base,
    ]
    assert (shown["waiting"], shown["oldest_wait_s"], shown["in_flight"]) == (43, 3.0, 1)


@pytest.mark.parametrize(
    ("holder", "waiter", "kind"),
    [
        (Terms(max_in_flight=1), Terms(max_in_flight=1), "in_flight"),
        (Terms(max_in_flight=1), Terms(max_in_flight=5), "policy"),
        (Terms(requests_per_minute=1, burst=1), Terms(requests_per_minute=1, burst=1), "rate"),
        (Terms(requests_per_minute=1, burst=1), Terms(), "policy"),
    ],
)
def test_a_waiter_shows_what_it_waits_for(scene: Scene, holder: Terms, waiter: Terms, kind: str) -> None:
    """A slot, a token, or somebody else's stricter policy."""
    scene.ask("1-a", holder)
    scene.ask("2-b", waiter)
    assert [each["waiting_for"] for each in scene.bucket()["waiters"]] == [kind]


@pytest.mark.parametrize(("max_hold_s", "limit"), [(0.0, OVERDUE_S), (20.0, 20.0), (5000.0, 5000.0)])
def test_a_slot_is_overdue_after_its_policys_time_or_600_seconds(scene: Scene, max_hold_s: float, limit: float) -> None:
    """Not at it."""
    scene.ask("1-a", Terms(max_hold_s=max_hold_s))
    seen = []
    for pause in (limit, 0.1):
        scene.pass_time(pause)
        seen.append(scene.bucket()["holders"][0]["overdue"])
    assert seen == [False, True]


def test_the_limits_in_force_are_the_strictest_of_those_who_are_here(scene: Scene) -> None:
    """And each policy is shown with its owner and source."""
    scene.ask("1-a", Terms(max_in_flight=3, source="team.yaml"))
    scene.ask("2-b", Terms(max_in_flight=0, requests_per_minute=60, burst=4, timeout_s=9))
    shown = scene.bucket()
    assert (shown["max_in_flight"], shown["requests_per_minute"], shown["burst"]) == (3, 60.0, 4.0)
    plain = {"requests_per_minute": 0.0, "burst": 1.0, "timeout_s": 300.0}
    assert shown["policies"] == [
        {"pid": 1, "max_in_flight": 3, "source": "team.yaml"} | plain,
        {"pid": 2, "max_in_flight": 0, "requests_per_minute": 60, "burst": 4, "timeout_s": 9, "source": "default"},
    ]


def test_a_policy_that_waits_for_ever_shows_no_timeout(scene: Scene) -> None:
    """JSON knows no infinity; a long wait is not taken for one."""
    for owner, timeout_s in (("1-a", math.inf), ("2-b", 1e11)):
        scene.ask(owner, Policy(timeout_s=timeout_s).terms())
    assert [policy["timeout_s"] for policy in scene.bucket()["policies"]] == [None, 1e11]


def test_an_unused_bucket_shows_the_limits_of_those_who_used_it(scene: Scene) -> None:
    """They will be back."""
    terms = Terms(max_in_flight=3)
    scene.release("1-a", scene.ask("1-a", terms))
    shown = scene.bucket()
    assert (shown["max_in_flight"], shown["in_flight"], shown["policies"]) == (3, 0, [])


def test_a_rate_shows_what_is_left_and_when_the_next_token_comes(scene: Scene) -> None:
    """Also between two writes: time passes for the reader."""
    terms = Terms(max_in_flight=0, requests_per_minute=60, burst=2)
    seen = []
    for pause in (0.0, 0.0, 0.5):
        scene.ask("1-a", terms)
        scene.clock.advance(pause)
        shown = scene.bucket()
        seen.append((shown["rate_available"], shown["rate_next_s"]))
    assert seen == [
        (pytest.approx(left, abs=0.01), pytest.approx(wait, abs=0.01)) for left, wait in ((1, 0), (0, 1), (0.5, 0.5))
    ]


def test_without_a_rate_there_is_nothing_left_and_nothing_to_come(scene: Scene) -> None:
    """Null, not 0."""
    scene.ask("1-a", Terms())
    assert (scene.bucket()["rate_available"], scene.bucket()["rate_next_s"]) == (None, None)


def test_the_wait_histogram_is_cumulative(scene: Scene) -> None:
    """Each bound counts all waits up to it; the last, without bound, counts all."""
    terms = Terms(max_in_flight=1)
    first = scene.ask("1-a", terms)
    second = scene.ask("1-a", terms)
    scene.pass_time(2.0)
    scene.release("1-a", first)
    third = scene.ask("1-a", terms)
    scene.pass_time(1000.0)
    scene.release("1-a", second)
    totals = scene.bucket()["totals"]
    expected = [(bound, 1 if bound < 2 else 2) for bound in WAIT_BOUNDARIES] + [(None, 3)]
    assert ([tuple(cell) for cell in totals["wait_histogram"]], totals["granted"], totals["wait_s"]) == (expected, 3, 1002.0)
    scene.release("1-a", third)


def test_owners_show_all_that_they_have_over_all_buckets(scene: Scene) -> None:
    """And that nobody without a mailbox of his own lives."""
    terms = Terms(max_in_flight=1)
    for _ in range(3):
        scene.ask("1-a", terms)
    (owner,) = scene.view().to_dict()["owners"]
    shown = {"pid": 1, "user": "user-1", "command": "1.py", "in_flight": 1, "waiting": 2, "granted": 1}
    assert {**owner, "alive": None} == {**shown, "alive": None}


def test_an_owner_whom_the_ledger_has_lost_is_shown_by_its_pid(scene: Scene) -> None:
    """Instead of an error."""
    scene.ask("7-x", Terms())
    del scene.state.owners["7-x"]
    (holder,) = scene.bucket()["holders"]
    assert (holder["pid"], holder["user"]) == (7, "?")


def test_the_last_write_is_shown_in_utc_and_by_its_age(scene: Scene) -> None:
    """Wall-clock time, for people."""
    scene.state.updated_at = 1_700_000_000.25
    scene.clock.advance(3.5)
    view = scene.view()
    assert (view.updated_at, view.age_s) == ("2023-11-14T22:13:20.250Z", 3.25)


def test_a_wall_clock_that_was_set_back_makes_no_negative_age(scene: Scene) -> None:
    """And changes no wait."""
    scene.state.updated_at = scene.clock.wall()
    scene.ask("1-a", Terms())
    scene.clock.step_wall(-3600)
    assert (scene.view().age_s, scene.bucket()["holders"][0]["held_s"]) == (0.0, 0.0)
