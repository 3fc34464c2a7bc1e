"""A ledger that is moved away."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from store_support import PATIENCE_S, file_store, ignore, look, put, run

if TYPE_CHECKING:
    from pathlib import Path


def test_a_ledger_that_was_moved_away_is_soon_left_alone(tmp_path: Path) -> None:
    """It keeps its name elsewhere, so only the path can tell; that is asked a few times a second."""
    path, elsewhere = tmp_path / "ledger.json", tmp_path / "moved.json"
    store = file_store(path)
    run(store, put("a"))
    path.rename(elsewhere)
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists() and time.monotonic() < deadline:
        run(store, put("b"))
    moved = elsewhere.read_bytes()
    run(store, put("c"))
    assert (run(file_store(path), look).value, elsewhere.read_bytes()) == ("c", moved)


def test_a_ledger_that_another_process_has_set_aside_is_not_set_aside_again(tmp_path: Path) -> None:
    """What it has open is damaged; what stands there now is not."""
    path = tmp_path / "ledger.json"
    slow, quick = file_store(path), file_store(path)
    run(slow, put("a"))
    path.write_bytes(b"garbage")
    path.with_name("ledger.json.copy").write_bytes(b"")
    run(quick, put("b"))
    answer = run(slow, look)
    assert (answer.value, len(list(tmp_path.glob("*.corrupt-*")))) == ("b", 1)


def test_nothing_is_written_where_nothing_has_changed(tmp_path: Path) -> None:
    """Not even by a store that opens the ledger for the first time."""
    path = tmp_path / "ledger.json"
    run(file_store(path), put("a"))
    before = path.read_bytes()
    file_store(path).transact(look, ignore, None)
    assert path.read_bytes() == before
