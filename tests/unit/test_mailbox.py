"""One owner's file: what it lists, how it rings, what survives damage."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import pytest

from llm_sched import LedgerError, host, mailbox
from llm_sched.mailbox import CELL, HEADER, Entry, Mailbox, call_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEYS = b'{"provider":"p","model":"m"}'


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Mailbox]:
    """A mailbox of one's own."""
    box = Mailbox.create(tmp_path / "1-a.box", b'{"owner":{}}', 0o600)
    yield box
    box.close()


def test_a_mailbox_says_whose_it_is(box: Mailbox) -> None:
    """On its first page."""
    other = Mailbox.open(box.path)
    assert other.header() == b'{"owner":{}}'
    other.close()


def test_a_mailbox_is_locked_as_long_as_it_is_open(box: Mailbox) -> None:
    """So its owner lives; the kernel drops the lock with the process."""
    other = Mailbox.open(box.path)
    seen = [host.is_locked(other.fd)]
    box.close()
    seen.append(host.is_locked(other.fd))
    other.close()
    assert seen == [True, False]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no POSIX modes")
def test_a_mailbox_is_its_owners_alone(box: Mailbox) -> None:
    """0600."""
    assert stat.S_IMODE(box.path.stat().st_mode) == 0o600


def test_a_mailbox_left_by_an_interrupted_attempt_is_made_again(box: Mailbox) -> None:
    """Ids are unique, so a file of that name is one's own; the new one is another file, locked again."""
    again = Mailbox.create(box.path, b"{}", 0o600)
    assert again.header() == b"{}"
    assert os.fstat(again.fd).st_ino == box.path.stat().st_ino != os.fstat(box.fd).st_ino
    again.close()


def test_a_mailbox_that_cannot_be_written_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk."""

    def refuse(*_: object) -> int:
        raise OSError(28, "full")

    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(OSError, match="full"):
        Mailbox.create(tmp_path / "1-a.box", b"{}", 0o600)
    assert list(tmp_path.iterdir()) == []


def test_a_mailbox_lists_what_holds_and_waits(box: Mailbox) -> None:
    """In the order of its cells; free cells are passed over."""
    for number, state in ((1, b"held"), (2, b"wait"), (3, b"wait")):
        box.write(box.take(), state, call_text(number, 0, 1000.5 + number, KEYS))
    box.clear(1)
    box.free(1)
    other = Mailbox.open(box.path)
    assert list(other.entries()) == [Entry(0, "held", 1, 0, 1001.5, KEYS), Entry(2, "wait", 3, 0, 1003.5, KEYS)]
    other.close()


def test_a_freed_cell_is_used_again_the_lowest_first(box: Mailbox) -> None:
    """So that reading all stays short."""
    cells = [box.take() for _ in range(4)]
    for cell in (2, 0):
        box.clear(cell)
        box.free(cell)
    assert (cells, [box.take() for _ in range(3)]) == ([0, 1, 2, 3], [0, 2, 4])


def test_more_calls_than_cells_are_refused_with_advice(box: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process has its limits."""
    monkeypatch.setattr(mailbox, "CELLS", 2)
    for _ in range(2):
        box.take()
    with pytest.raises(LedgerError, match=r"more than 2 calls .* use more processes"):
        box.take()


def test_a_ring_changes_the_bell_and_brings_the_news(box: Mailbox) -> None:
    """A slot, or when the token is due."""
    cell = box.take()
    box.write(cell, b"wait", call_text(1, 0, 5.0, KEYS))
    seen = [box.look(cell)]
    other = Mailbox.open(box.path)
    for state, due, seq in ((b"wait", 123.25, 7), (b"held", 0.0, 0x10008)):
        other.mark(cell, state, due, seq)
        seen.append(box.look(cell))
    other.close()
    assert seen == [(b"0000", b"wait", 0.0), (b"0007", b"wait", 123.25), (b"0008", b"held", 0.0)]


def test_a_ring_leaves_the_call_as_it_was(box: Mailbox) -> None:
    """Number, time and keys are its owner's."""
    cell = box.take()
    box.write(cell, b"wait", call_text(42, 0, 1234.567891, KEYS))
    box.mark(cell, b"held", 0.0, 3)
    assert list(box.entries()) == [Entry(cell, "held", 42, 0, 1234.567891, KEYS)]


def test_damaged_lines_are_passed_over(box: Mailbox) -> None:
    """The others still count."""
    for number in (1, 2, 3):
        box.write(box.take(), b"held", call_text(number, 0, 1.0, KEYS))
    os.pwrite(box.fd, b"0000 held what is this?\n", HEADER + CELL)
    assert [entry.number for entry in box.entries()] == [1, 3]


def test_a_mailbox_that_somebody_truncated_is_an_empty_list(box: Mailbox) -> None:
    """And no crash."""
    box.write(box.take(), b"held", call_text(1, 0, 1.0, KEYS))
    os.ftruncate(box.fd, 0)
    assert (list(box.entries()), box.header(), box.look(0)) == ([], b"", (b"", b"", 0.0))


def test_entries_go_on_over_many_pages(box: Mailbox) -> None:
    """As many as calls."""
    for number in range(300):
        box.write(box.take(), b"wait", call_text(number, 0, 1.0, KEYS))
    assert [entry.cell for entry in box.entries()] == list(range(300))


def test_a_new_file_takes_over_the_cells_of_a_deleted_one(box: Mailbox, tmp_path: Path) -> None:
    """What was listed is listed, what was free is free."""
    for number in (1, 2, 3):
        box.write(box.take(), b"held", call_text(number, 0, 1.0, KEYS))
    box.clear(1)
    box.free(1)
    box.path.unlink()
    again = Mailbox.create(tmp_path / "1-a.box", b"{}", 0o600)
    again.take_over(box)
    assert ([entry.number for entry in again.entries()], again.take(), again.take()) == ([1, 3], 1, 3)
    again.close()


def test_closing_twice_is_fine(box: Mailbox) -> None:
    """Whoever comes second has nothing to do."""
    box.close()
    box.close()
    assert box.fd == -1


def test_a_cell_that_was_taken_and_not_yet_written_hides_none_behind_it(box: Mailbox) -> None:
    """An interrupt may come in between."""
    cells = [box.take() for _ in range(2)]
    box.write(cells[1], b"held", call_text(7, 0, 1.5, KEYS))
    assert [entry.number for entry in box.entries()] == [7]
