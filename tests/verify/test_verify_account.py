"""What the records of a process prove."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from llm_sched.verify.account import Call, calls_of
from llm_sched.verify.journal import Journal, Record, parse, read_all

if TYPE_CHECKING:
    from pathlib import Path

ASKED = Record("asked", 1, 1.0, "verify/wide 2.5")
GRANTED = Record("granted", 1, 2.0)


def only(*records: Record, killed_at: float | None = None) -> Call:
    """The one call that these records tell of."""
    (call,) = calls_of("a", records, killed_at)
    return call


def test_a_hold_counts_from_after_the_grant_to_before_the_release() -> None:
    """Which is less than it lasted, so nobody is accused who is innocent."""
    call = only(ASKED, Record("queued", 1, 1.5), GRANTED, Record("ended", 1, 3.0))
    assert (call.process, call.bucket, call.asked, call.timeout_s, call.queued) == ("a", "verify/wide", 1.0, 2.5, 1.5)
    assert (call.granted, call.held_until, call.end) == (2.0, 3.0, "released")


def test_the_hold_of_a_killed_process_ends_just_before_the_kill() -> None:
    """The parent has read the clock before it killed."""
    call = only(ASKED, GRANTED, killed_at=2.25)
    assert (call.held_until, call.end) == (2.25, "killed")


def test_a_hold_that_began_after_the_clock_was_read_for_the_kill_has_no_length() -> None:
    """It was granted while the kill was under way."""
    call = only(ASKED, GRANTED, killed_at=1.9)
    assert (call.granted, call.held_until, call.end) == (2.0, 2.0, "killed")


def test_a_process_that_kills_itself_says_when() -> None:
    """A forked child, whose parent is not asked."""
    assert only(ASKED, GRANTED, Record("dying", 0, 2.5)).held_until == 2.5


def test_an_interrupted_hold_ends_in_the_handler() -> None:
    """What happened between the handler and the release is unknown."""
    call = only(ASKED, GRANTED, Record("interrupted", 1, 2.1), Record("ended", 1, 2.9))
    assert (call.held_until, call.end) == (2.1, "interrupted")


def test_a_hold_without_an_end_lasts_until_the_last_word_of_its_process() -> None:
    """Then it surely lived."""
    call = only(ASKED, GRANTED, Record("clean", 0, 2.75))
    assert (call.held_until, call.end) == (2.75, "unknown")


@pytest.mark.parametrize(
    ("record", "waited_until", "end"),
    [
        (Record("timed_out", 1, 3.6), 3.5, "timed_out"),
        (Record("canceling", 1, 1.7), 1.7, "canceled"),
        (Record("interrupted", 1, 1.8), 1.8, "interrupted"),
        (Record("left", 1, 1.9), 1.0, "unknown"),
    ],
)
def test_a_wait_counts_until_something_may_have_ended_it(record: Record, waited_until: float, end: str) -> None:
    """A timeout not before it is due, a cancellation not before it is made."""
    call = only(ASKED, record)
    assert (call.granted, call.waited_until, call.end) == (None, waited_until, end)


def test_a_killed_waiter_waited_until_the_kill() -> None:
    """Like a killed holder."""
    assert only(ASKED, killed_at=1.5).waited_until == 1.5


def test_a_journal_is_read_as_it_was_written(tmp_path: Path) -> None:
    """By several threads at a time, and by processes under names of their own."""
    journal = Journal(tmp_path / "a.journal")

    def write() -> None:
        for _ in range(200):
            journal.note("ended", journal.begin("verify/wide", 0.25))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    Journal(tmp_path / "b.journal").note("failed", text="two\nlines")
    told = read_all(tmp_path)
    assert sorted(record.call for record in told["a"] if record.kind == "asked") == list(range(1, 801))
    assert len(told["a"]) == 1600
    assert [(record.kind, record.text) for record in told["b"]] == [("failed", "two lines")]


def test_a_torn_line_says_nothing() -> None:
    """It was being written when the process was killed."""
    assert parse(["granted 1 2.0 \n", "ended 1 2", "gibberish\n", "\n"]) == [Record("granted", 1, 2.0)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_forked_child_writes_into_a_journal_of_its_own(tmp_path: Path) -> None:
    """So it is a process of its own for the witness."""
    journal = Journal(tmp_path / "a.journal")
    pid = os.fork()
    if not pid:
        journal.of_child().note("clean")
        os._exit(0)
    os.waitpid(pid, 0)
    journal.note("forked")
    told = read_all(tmp_path)
    assert [record.kind for record in told["a"]] == ["forked"]
    assert [record.kind for record in told[f"a-{pid}"]] == ["clean"]
