"""Files that were torn, emptied or deleted: repaired from the copy, else set aside and made again; never read as they are."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
from store_support import Done, file_store, grow, look, put, run

from llm_sched import LedgerError, codec
from llm_sched.model import Owner

if TYPE_CHECKING:
    from pathlib import Path

    from llm_sched.model import State

SIZE = 9000
"""Spans three pages."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger is."""
    return tmp_path / "ledger.json"


def copy_of(path: Path) -> Path:
    """The ledger's second file."""
    return path.with_name(path.name + ".copy")


def set_aside(path: Path) -> list[Path]:
    """What was set aside."""
    return list(path.parent.glob(f"{path.name}.corrupt-*"))


def answer(found: bool, _: State) -> bool:  # noqa: FBT001 - it is the answer
    """What the living say when a ledger is lost."""
    return found


def old_and_new(path: Path, old: int = SIZE, new: int = SIZE) -> tuple[bytes, bytes]:
    """Two successive contents of the main file; the copy has the new one."""
    store = file_store(path)
    run(store, grow(old, "old"))
    before = path.read_bytes()
    run(store, grow(new, "new"))
    store.close()
    return before, path.read_bytes()


def cuts(length: int) -> list[int]:
    """Page and block boundaries, what is next to them, and a coarse comb in between."""
    edges = {edge + step for edge in range(0, length + 1, 1024) for step in (-1, 0, 1)}
    return sorted(cut for cut in edges | set(range(0, length, 211)) | {length - 1} if 0 <= cut < length)


def test_no_truncated_document_is_taken_for_a_whole_one(path: Path) -> None:
    """At every byte."""
    document = old_and_new(path, 50, 50)[1].rstrip()
    for cut in range(len(document)):
        with pytest.raises(codec.UnreadableError):
            codec.decode(document[:cut])


@pytest.mark.parametrize(("old", "new"), [(300, 300), (900, 300), (300, 900)])
def test_no_mixture_of_two_documents_is_taken_for_a_third(path: Path, old: int, new: int) -> None:
    """At every byte, with the new one in front or behind, of the same length or not."""
    before, after = old_and_new(path, old, new)
    whole = {codec.encode(codec.decode(each)) for each in (before, after)}
    for cut in range(max(len(before), len(after))):
        for mixture in (after[:cut] + before[cut:], before[:cut] + after[cut:]):
            with suppress(codec.UnreadableError):
                assert codec.encode(codec.decode(mixture)) in whole


def test_a_main_file_cut_off_anywhere_is_repaired_from_the_copy(path: Path) -> None:
    """A reader without the lock, and the next transaction, see the last document."""
    _, after = old_and_new(path)
    for cut in cuts(len(after.rstrip())):
        path.write_bytes(after[:cut])
        store = file_store(path)
        assert (store.read().ident, run(store, look).value) == ("new", "new"), cut
        store.close()


def test_a_main_file_written_halfway_is_repaired_from_the_copy(path: Path) -> None:
    """New in front and old behind, as `kill -9` leaves it."""
    before, after = old_and_new(path)
    for cut in cuts(len(after.rstrip())):
        path.write_bytes(after[:cut] + before[cut:])
        store = file_store(path)
        seen = {store.read().ident, str(run(store, look).value)}
        assert len(seen) == 1, cut
        assert seen <= {"old", "new"}, cut
        store.close()


def test_the_next_write_makes_a_torn_main_file_whole(path: Path) -> None:
    """Both files are in order again, and the numbers go on."""
    _, after = old_and_new(path)
    path.write_bytes(after[: SIZE // 2])
    run(file_store(path), put("next"))
    states = [codec.decode(file.read_bytes()) for file in (path, copy_of(path))]
    assert [(state.ident, state.seq) for state in states] == [("next", 3), ("next", 3)]


def test_a_torn_copy_harms_nobody(path: Path) -> None:
    """The main file is whole then, and the next write makes the copy whole."""
    _, after = old_and_new(path)
    copy_of(path).write_bytes(after[: SIZE // 2])
    store = file_store(path)
    assert (store.read().ident, run(store, put("next")).changed) == ("new", True)
    assert codec.decode(copy_of(path).read_bytes()).ident == "next"


def test_a_ledger_edited_by_hand_is_repaired_from_the_copy(path: Path) -> None:
    """Its checksum tells."""
    _, after = old_and_new(path, 50, 50)
    path.write_bytes(after.replace(b'"new"', b'"own"'))
    assert run(file_store(path), look).value == "new"


@pytest.mark.parametrize("left", [b"", b" \n", b"\0" * 2048])
def test_an_emptied_main_file_is_repaired_from_the_copy(path: Path, left: bytes) -> None:
    """Emptied, blank, or full of zero bytes."""
    old_and_new(path)
    path.write_bytes(left)
    store = file_store(path)
    assert (store.read().ident, run(store, look).value) == ("new", "new")


def test_a_deleted_main_file_is_made_again_from_the_copy(path: Path) -> None:
    """A temp cleaner took one of the two; the first transaction writes it, though it changes nothing itself."""
    old_and_new(path)
    path.unlink()
    store = file_store(path)
    assert (run(store, look).value, path.exists(), store.read().seq) == ("new", True, 3)
    assert (run(store, put("next")).changed, store.read().seq) == (True, 4)


def test_a_main_file_deleted_under_an_open_store_is_made_again(path: Path) -> None:
    """Its descriptor still reads the old file, but the path counts."""
    store = file_store(path)
    run(store, put("kept"))
    path.unlink()
    assert (store.intact(), run(store, look).value, run(store, put("next")).changed, store.intact()) == (
        False,
        "kept",
        True,
        True,
    )


def test_a_main_file_that_somebody_replaced_is_used(path: Path) -> None:
    """An editor writes a new file over the old name; the new one counts if it is whole."""
    store = file_store(path)
    run(store, put("old"))
    other = file_store(path.with_name("other.json"))
    run(other, put("restored from a backup"))
    other.path.replace(path)
    assert run(store, look).value == "restored from a backup"


def test_garbage_is_set_aside_and_the_copy_used(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Somebody's bytes are kept under another name, and the log says so."""
    old_and_new(path)
    path.write_bytes(b"\x89PNG garbage")
    with caplog.at_level(logging.WARNING, "llm_sched"):
        answer = run(file_store(path), look)
    (aside,) = set_aside(path)
    assert (answer.value, aside.read_bytes(), str(aside) in caplog.text) == ("new", b"\x89PNG garbage", True)


@pytest.mark.parametrize("damage", [b"garbage", b'{"schema":1,"seq":'])
def test_when_both_are_torn_the_ledger_is_set_aside_and_made_again_from_the_living(path: Path, damage: bytes) -> None:
    """What it grew from is noted, so that rates start empty."""
    old_and_new(path, 50, 50)
    path.write_bytes(damage)
    copy_of(path).write_bytes(damage[:5])

    def recover(state: State) -> bool:
        state.owners["1-a"] = Owner(pid=1)
        return True

    def owners(state: State) -> Done:
        return Done(changed=True, value=(list(state.owners), state.origin))

    assert run(file_store(path, recover), owners).value == (["1-a"], "rebuilt")
    assert [aside.read_bytes() for aside in set_aside(path)] == [damage]


def test_a_ledger_that_was_lost_is_rebuilt_even_when_nobody_lives(path: Path) -> None:
    """Nobody knows what was spent before."""
    old_and_new(path, 50, 50)
    path.write_bytes(b"garbage")
    copy_of(path).unlink()
    assert run(file_store(path), lambda state: Done(changed=False, value=state.origin)).value == "rebuilt"


def test_when_both_are_deleted_the_living_are_asked(path: Path) -> None:
    """What they hold makes it a rebuilt ledger; without them it is a new one."""
    answers: list[object] = []
    for found in (True, False):
        store = file_store(path.with_name(f"{found}.json"), partial(answer, found))
        answers.append(run(store, lambda state: Done(changed=False, value=state.origin)).value)
    assert answers == ["rebuilt", "new"]


def test_a_reader_of_what_cannot_be_repaired_is_told_so(path: Path) -> None:
    """And changes nothing: setting aside is for those who have the lock."""
    path.write_bytes(b"garbage")
    with pytest.raises(LedgerError, match=r"no readable ledger.*next call") as caught:
        file_store(path).read()
    assert (caught.value.path, path.read_bytes(), set_aside(path)) == (str(path), b"garbage", [])
