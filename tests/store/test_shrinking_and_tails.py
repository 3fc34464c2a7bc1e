"""Bugs in files.py / codec.py / file.py / location: each test fails before its fix."""

from __future__ import annotations

from pathlib import Path

import pytest
import test_crash_points
import test_torn_files
from store_support import file_store, grow, put, run

from llm_sched import codec, read_snapshot


def test_reader_while_shrinking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test_crash_points.test_a_reader_sees_old_or_new_between_any_two_steps_of_a_write(tmp_path, monkeypatch, 50_000, 300)


def test_killed_while_shrinking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test_crash_points.test_a_writer_killed_at_any_step_leaves_the_old_or_the_new_ledger(tmp_path, monkeypatch, 50_000, 300)


def test_after_a_rebuild_the_copy_is_whole_again(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    run(file_store(path), grow(9000))
    path.write_bytes(b"garbage")
    copy = path.with_name("ledger.json.copy")
    copy.write_bytes(b"y" * 9000)
    run(file_store(path), put("next"))
    assert codec.decode(copy.read_bytes()).ident == "next"


@pytest.mark.parametrize(("old", "new"), [(900, 300), (300, 900)])
def test_a_torn_ledger_of_ours_is_never_taken_for_somebody_elses(tmp_path: Path, old: int, new: int) -> None:
    before, after = test_torn_files.old_and_new(tmp_path / "ledger.json", old, new)
    for cut in range(max(len(before), len(after))):
        for mixture in (after[:cut] + before[cut:], before[:cut] + after[cut:]):
            try:
                codec.decode(mixture)
            except codec.UnreadableError as error:
                assert error.fault == "torn", mixture  # noqa: PT017 - most mixtures are no error


def test_a_writer_killed_in_its_very_first_write_leaves_an_absent_ledger_not_a_corrupt_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    for file in (path, path.with_name("ledger.json.copy")):
        file.touch()  # as `_open` leaves them before the first pwrite
    assert read_snapshot(path).state in {"absent", "live"}


def test_a_copy_that_was_deleted_is_made_again_by_whoever_writes_next(tmp_path: Path) -> None:
    """So no copy goes stale while somebody writes on into one without a name."""
    path = tmp_path / "ledger.json"
    old = file_store(path)
    run(old, grow(300))
    path.with_name("ledger.json.copy").unlink()
    run(file_store(path), grow(600))
    run(old, grow(900))
    path.write_bytes(b"garbage")
    assert len(file_store(path).read().machine) == 900
