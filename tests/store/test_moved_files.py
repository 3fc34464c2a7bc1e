"""A ledger that is moved, and a lock that is waited for without hurry."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from store_support import PATIENCE_S, file_store, ignore, look, put, run

from llm_sched.store.file import lock_path
from llm_sched.store.files import open_shared
from llm_sched.store.lock import FileLock

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


def test_who_lets_others_go_first_keeps_nobody_of_his_process_out(tmp_path: Path) -> None:
    """Threads queue in front of the lock; one that only naps there must not stand in the way."""
    path = lock_path(tmp_path / "ledger.json")
    elsewhere, here = (FileLock(path, lambda path: open_shared(path, 0o600)) for _ in range(2))
    elsewhere.acquire(None)
    got = threading.Event()

    def wait() -> None:
        here.acquire(time.monotonic() + PATIENCE_S, yields=True)
        here.release()
        got.set()

    thread = threading.Thread(target=wait)
    thread.start()
    with here.idle() as is_free:
        assert is_free
    elsewhere.release()
    assert got.wait(PATIENCE_S)
    thread.join()
    for lock in (here, elsewhere):
        lock.reset()


def test_nothing_is_written_where_nothing_has_changed(tmp_path: Path) -> None:
    """Not even by a store that opens the ledger for the first time."""
    path = tmp_path / "ledger.json"
    run(file_store(path), put("a"))
    before = path.read_bytes()
    file_store(path).transact(look, ignore, None)
    assert path.read_bytes() == before
