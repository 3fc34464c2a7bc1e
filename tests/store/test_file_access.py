"""Who may read the ledger's files, and what happens where they cannot be used."""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from store_support import PATIENCE_S, Done, file_store, grow, ignore, look, put, run

from llm_sched import LedgerError, host
from llm_sched.store import BusyError
from llm_sched.store.file import folder_of, lock_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no POSIX modes")


def mode(path: Path) -> int:
    """Permission bits."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=lambda umask: f"umask {umask:03o}")
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each usual umask; modes must not depend on it."""
    before = os.umask(request.param)
    yield
    os.umask(before)


@posix
@pytest.mark.usefixtures("umask")
def test_the_ledger_is_for_its_user_alone(tmp_path: Path) -> None:
    """0600 in a folder of 0700, and so are lock and copy."""
    path = tmp_path / "cache" / "mas" / "ledger.json"
    run(file_store(path), put("a"))
    files = [path, path.with_name("ledger.json.copy"), lock_path(path)]
    assert [mode(file) for file in files] == [0o600, 0o600, 0o600]
    assert [mode(folder) for folder in (path.parent, folder_of(path))] == [0o700, 0o700]


@posix
@pytest.mark.usefixtures("umask")
def test_in_a_setgid_folder_that_the_group_may_write_the_ledger_is_the_groups(tmp_path: Path) -> None:
    """0660, whatever the umask; the folder of the mailboxes hands its group on."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o2770)
    path = folder / "ledger.json"
    run(file_store(path), put("a"))
    files = [path, path.with_name("ledger.json.copy"), lock_path(path)]
    assert [mode(file) for file in files] == [0o660, 0o660, 0o660]
    assert mode(folder_of(path)) == 0o2770


@posix
@pytest.mark.parametrize("folder_mode", [0o770, 0o2750])
def test_sharing_with_a_group_must_be_asked_for(tmp_path: Path, folder_mode: int) -> None:
    """Group-writable alone, or setgid alone, is not enough."""
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(folder_mode)
    run(file_store(folder / "ledger.json"), put("a"))
    assert mode(folder / "ledger.json") == 0o600


def test_the_ledger_keeps_its_inode(tmp_path: Path) -> None:
    """So it can be tailed."""
    store = file_store(tmp_path / "ledger.json")
    inodes = {(run(store, grow(size)), store.path.stat().st_ino)[1] for size in (10, 50_000, 10)}
    assert len(inodes) == 1


def test_a_ledger_that_shrank_gives_its_space_back(tmp_path: Path) -> None:
    """Both files, once it is worth it."""
    store = file_store(tmp_path / "ledger.json")
    run(store, grow(100_000))
    run(store, grow(10))
    sizes = [file.stat().st_size for file in (store.path, store.path.with_name("ledger.json.copy"))]
    assert max(sizes) <= 1024


def test_two_stores_on_one_path_share_the_ledger(tmp_path: Path) -> None:
    """Each sees what the other has just written."""
    stores = [file_store(tmp_path / "ledger.json") for _ in range(2)]
    seen = [run(stores[index % 2], look).value for index in range(4) if run(stores[(index + 1) % 2], put(f"{index}")).changed]
    assert seen == ["0", "1", "2", "3"]


def test_two_stores_on_one_path_exclude_each_other(tmp_path: Path) -> None:
    """A transaction of one finds the other's lock."""
    one, other = (file_store(tmp_path / "ledger.json") for _ in range(2))

    def intrude(_: object) -> Done:
        with pytest.raises(BusyError):
            run(other, look)
        return Done(changed=False)

    assert not run(one, intrude).changed


def test_a_lock_file_that_was_deleted_and_made_again_still_excludes(tmp_path: Path) -> None:
    """A store that still has the old one open does not take it for the lock."""
    one, other = (file_store(tmp_path / "ledger.json") for _ in range(2))
    run(one, put("a"))
    run(other, put("b"))
    lock_path(one.path).unlink()
    run(one, put("c"))

    def intrude(_: object) -> Done:
        with pytest.raises(BusyError):
            run(other, look)
        return Done(changed=False)

    run(one, intrude)
    assert run(other, look).value == "c"


def test_a_deleted_folder_is_made_again(tmp_path: Path) -> None:
    """A temp cleaner took everything."""
    path = tmp_path / "mas" / "ledger.json"
    store = file_store(path)
    run(store, put("a"))
    for file in path.parent.iterdir():
        file.rmdir() if file.is_dir() else file.unlink()
    path.parent.rmdir()
    assert (run(store, put("b")).changed, store.read().ident) == (True, "b")


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="only Linux lists who holds a lock")  # noqa: PTH110 - decorator
def test_whoever_holds_the_lock_too_long_is_named(tmp_path: Path) -> None:
    """By its pid, from the kernel's own list."""
    store = file_store(tmp_path / "ledger.json")
    run(store, put("a"))
    fd = os.open(lock_path(store.path), os.O_RDWR)
    try:
        assert host.try_lock(fd)
        with pytest.raises(BusyError) as caught:
            store.transact(look, ignore, 0.0)
    finally:
        os.close(fd)
    assert caught.value.holder == os.getpid()


def test_threads_of_one_store_wait_for_another_stores_lock(tmp_path: Path) -> None:
    """And get it when it is free."""
    one, other = (file_store(tmp_path / "ledger.json") for _ in range(2))
    answers: list[object] = []
    thread = threading.Thread(
        target=lambda: answers.append(other.transact(look, ignore, host.Clock().now() + PATIENCE_S).value)
    )

    one.transact(put("a"), lambda *_: thread.start(), None)
    thread.join()
    assert answers == ["a"]


def failing(path: Path, match: str) -> None:
    """The store at `path` raises one clear error, from a transaction and from a reader that finds something there."""
    with pytest.raises(LedgerError, match=match) as caught:
        run(file_store(path), put("a"))
    assert (caught.value.path, str(path) in str(caught.value)) == (str(path), True)
    assert isinstance(caught.value.__cause__, OSError)


def test_a_path_below_a_file_is_refused_with_advice(tmp_path: Path) -> None:
    """A part of the path is no folder."""
    (tmp_path / "file").touch()
    failing(tmp_path / "file" / "ledger.json", "a file stands where a folder is needed.*MAS_LLM_SCHEDULER_STATE")
    failing(tmp_path / "file" / "deeper" / "ledger.json", "no folder.*MAS_LLM_SCHEDULER_STATE")


def test_a_folder_as_path_is_refused_with_advice(tmp_path: Path) -> None:
    """By transactions and by readers."""
    path = tmp_path / "ledger.json"
    path.mkdir()
    failing(path, "it is a folder.*MAS_LLM_SCHEDULER_STATE")
    with pytest.raises(LedgerError, match="it is a folder"):
        file_store(path).read()


@pytest.mark.parametrize(
    ("number", "match"),
    [
        (errno.EROFS, "read-only.*MAS_LLM_SCHEDULER_STATE"),
        (errno.EACCES, "no permission.*MAS_LLM_SCHEDULER_STATE.*setgid"),
        (errno.EMFILE, "too many open files.*ulimit"),
        (errno.EIO, "MAS_LLM_SCHEDULER_STATE"),
    ],
)
def test_each_failure_to_open_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, match: str) -> None:
    """The system's own reason is the cause."""

    def refuse(name: os.PathLike[str], *_: object) -> int:
        raise OSError(number, os.strerror(number), os.fspath(name))

    store = file_store(tmp_path / "ledger.json")
    monkeypatch.setattr("llm_sched.store.files.os.open", refuse)
    with pytest.raises(LedgerError, match=match) as caught:
        run(store, put("a"))
    assert str(store.path) in str(caught.value)
