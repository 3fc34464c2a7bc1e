"""`kill -9` between any two system calls of a write, or in the middle of one: readers and successors see old or new, whole."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from store_support import file_store, grow, look, put, run

from llm_sched import codec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CHANGES = [pytest.param(9000, 9000, id="rewritten"), pytest.param(300, 9000, id="grown")]


class KilledError(BaseException):
    """The process is gone."""


class Steps:
    """The system calls that change files, with something done before each, and an end in the middle of one.

    Args:
        before: called before each step.
        last: number of the step in which the process dies; None = it lives.
        share: of that step's bytes, how many eighths are written.
    """

    def __init__(self, before: Callable[[], None], last: int | None = None, share: int = 0) -> None:
        self._before = before
        self._last = last
        self._share = share
        self._pwrite, self._ftruncate, self._reserve = os.pwrite, os.ftruncate, os.posix_fallocate
        self.taken = 0

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Take the calls' places."""
        monkeypatch.setattr(os, "pwrite", self.pwrite)
        monkeypatch.setattr(os, "ftruncate", self.ftruncate)
        monkeypatch.setattr(os, "posix_fallocate", self.posix_fallocate)

    def _step(self) -> bool:
        self._before()
        self.taken += 1
        return self.taken - 1 == self._last

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        """In two halves, so that a reader looks in between; or the last, of which only a part is written."""
        if self._step():
            self._pwrite(fd, data[: len(data) * self._share // 8], offset)
            raise KilledError
        half = len(data) // 2
        self._pwrite(fd, data[:half], offset)
        self._before()
        return half + self._pwrite(fd, data[half:], offset + half)

    def ftruncate(self, fd: int, length: int) -> None:
        """Done, or not done any more."""
        if self._step():
            raise KilledError
        self._ftruncate(fd, length)

    def posix_fallocate(self, fd: int, offset: int, length: int) -> None:
        """Done, or not done any more."""
        if self._step():
            raise KilledError
        self._reserve(fd, offset, length)


def prepare(path: Path, old: int) -> None:
    """A ledger of that size, long after its start."""
    store = file_store(path)
    run(store, grow(old, "older"))
    run(store, grow(old, "old"))
    store.close()


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_a_reader_sees_old_or_new_between_any_two_steps_of_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: int, new: int
) -> None:
    """First the old, then the new, and nothing else."""
    store = file_store(tmp_path / "ledger.json")
    prepare(store.path, old)
    seen: list[str] = []
    Steps(lambda: seen.append(store.read().ident)).patch(monkeypatch)
    run(store, grow(new, "new"))
    monkeypatch.undo()
    assert seen == sorted(seen, reverse=True)
    assert {"old"} <= set(seen) <= {"old", "new"}


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_a_writer_killed_at_any_step_leaves_the_old_or_the_new_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: int, new: int
) -> None:
    """For readers, and for the next transaction, after which both files are whole."""
    idle = Steps(lambda: None)
    path = tmp_path / "ledger.json"
    prepare(path, old)
    idle.patch(monkeypatch)
    run(file_store(path), grow(new, "new"))
    monkeypatch.undo()
    for step, share in ((step, share) for step in range(idle.taken) for share in (0, 1, 4, 7, 8)):
        prepare(path, old)
        Steps(lambda: None, step, share).patch(monkeypatch)
        with pytest.raises(KilledError):
            run(file_store(path), grow(new, "new"))
        monkeypatch.undo()
        assert_whole(path, f"step {step}, {share}/8 of it")


def assert_whole(path: Path, when: str) -> None:
    """Reader and successor agree on old or new; the successor leaves both files whole."""
    store = file_store(path)
    seen = (store.read().ident, run(store, look).value)
    assert seen in {("old", "old"), ("new", "new")}, when
    run(store, put("next"))
    store.close()
    files = (path, path.with_name(path.name + ".copy"))
    assert [codec.decode(file.read_bytes()).ident for file in files] == ["next", "next"], when
    assert not list(path.parent.glob("*.corrupt-*")), when
