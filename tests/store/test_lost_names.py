"""Files whose names somebody deletes: mailboxes, their FIFOs, the ledger itself."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from store_support import PATIENCE_S, Done, file_store, look, put, run

from llm_sched import LedgerError, Policy, Scheduler, SlotTimeout, host
from llm_sched.loops import LoopDoor
from llm_sched.mailbox import Mailbox, Word, call_text
from llm_sched.mailroom import FileMailroom, Header
from llm_sched.model import Owner, Terms
from llm_sched.store import files
from llm_sched.store.file import lock_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llm_sched.model import State

HELD = Word(b"", b"held", 0.0)
ME = Header(Owner(os.getpid()), Terms())


@pytest.fixture
def rooms(tmp_path: Path) -> Iterator[tuple[FileMailroom, FileMailroom]]:
    """Two processes' mailrooms; the second one has rung the first before, and then the folder is deleted."""
    folder = tmp_path / "ledger.json.d"
    folder.mkdir()
    one, other = FileMailroom(folder), FileMailroom(folder)
    one.join("1-a", ME, [])
    one.write(one.take(), b"wait", call_text(7, 0, 1.5, b"{}"))
    one.listen(1)
    other.deliver("1-a", 0, 1, HELD, 1)
    shutil.rmtree(folder)
    yield one, other
    one.leave()
    other.leave()


def test_a_mailbox_that_was_made_again_is_the_one_that_is_rung(rooms: tuple[FileMailroom, FileMailroom]) -> None:
    """Whoever has the deleted one open looks for the new one, which goes on where the old was."""
    one, other = rooms
    one.join("1-a", ME, [])
    one.write(0, b"wait", call_text(7, 0, 1.5, b"{}"))
    other.deliver("1-a", 0, 0, HELD, 2)
    assert (one.look(0).state, [claim.number for claim in other.claims("1-a", Terms())]) == (b"held", [7])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_loops_fifo_is_made_again_with_its_mailbox(rooms: tuple[FileMailroom, FileMailroom]) -> None:
    """Who listens at the old one is called over; rings come to the new one."""
    one, other = rooms
    old = one.listen(1)
    os.read(old, 100)
    one.join("1-a", ME, [])
    new = one.listen(1)
    assert (os.read(old, 100), new != old) == (b"!", True)
    other.deliver("1-a", 0, 1, HELD, 2)
    assert os.read(new, 100) == b"!"


def test_the_living_are_not_taken_for_dead_where_their_mailbox_was_deleted(rooms: tuple[FileMailroom, FileMailroom]) -> None:
    """Whoever had it open still sees its lock; of a process in another namespace nobody else can tell."""
    one, other = rooms
    stranger = FileMailroom(other._folder)  # noqa: SLF001
    elsewhere = Owner(os.getpid(), pid_ns=host.pid_namespace() + 1)
    assert (other.is_alive("1-a", elsewhere), stranger.is_alive("1-a", elsewhere)) == (True, True)
    one.drop()
    gone = Owner(2**22 + 1, pid_ns=host.pid_namespace())
    assert (other.is_alive("1-a", gone), stranger.is_alive("1-a", gone)) == (False, False)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows' loops listen to no FIFO")
def test_a_loop_listens_at_the_new_fifo() -> None:
    """It is called over by a ring at the old one."""

    async def main() -> list[bytes]:
        pipes = [os.pipe() for _ in range(2)]
        readers = iter([pipes[0][0], pipes[1][0], pipes[1][0]])
        rung: list[bytes] = []
        twice = asyncio.Event()

        def look_(_calls: Any) -> list[Any]:
            rung.append(b"!")
            if len(rung) > 1:
                twice.set()
            return []

        door = LoopDoor(asyncio.get_running_loop(), 1, lambda _: next(readers), look_)
        door.open()
        os.write(pipes[0][1], b"!")
        os.write(pipes[1][1], b"!")
        await asyncio.wait_for(twice.wait(), PATIENCE_S)
        door.close()
        for fd in (fd for pipe in pipes for fd in pipe):
            os.close(fd)
        return rung

    assert asyncio.run(main()) == [b"!", b"!"]


def test_who_cannot_look_does_not_conclude_that_somebody_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many open files is a clear error; the holder keeps its slot and its mailbox."""
    path = tmp_path / "ledger.json"
    one, other = (Scheduler(Policy(max_in_flight=1, state_path=path)) for _ in range(2))
    held = one.acquire()
    with monkeypatch.context() as patch:

        def refuse(_path: Path) -> Mailbox:
            raise OSError(errno.EMFILE, "Too many open files")

        patch.setattr(Mailbox, "open", refuse)
        with pytest.raises(LedgerError, match="too many open files: raise `ulimit -n`"):
            other.acquire(timeout_s=0)
    with pytest.raises(SlotTimeout):
        other.acquire(timeout_s=0)
    held.release()
    other.acquire(timeout_s=0).release()
    one.close()
    other.close()


def test_first_calls_that_found_the_disk_full_take_no_slot_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each had its error; nobody is left to give such a slot back."""
    scheduler = Scheduler(Policy(max_in_flight=2, state_path=tmp_path / "ledger.json"))
    errors: list[str] = []
    begin = threading.Barrier(30)

    def call() -> None:
        begin.wait(PATIENCE_S)
        try:
            scheduler.acquire(timeout_s=PATIENCE_S)
        except LedgerError as error:
            errors.append(str(error))

    def full(_fd: int, _size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "_reserve", full)
        threads = [threading.Thread(target=call) for _ in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    slots = [scheduler.acquire(timeout_s=PATIENCE_S) for _ in range(2)]
    roll = scheduler._engine.part.roll  # noqa: SLF001
    assert (len(errors), len(slots), [call for call in roll.waiting() if not call.over]) == (30, 2, [])
    for slot in slots:
        slot.release()
    scheduler.close()


def test_a_reader_takes_the_copy_of_a_ledger_that_was_deleted(tmp_path: Path) -> None:
    """As the next transaction will: what is held is still held."""
    path = tmp_path / "ledger.json"
    store = file_store(path)
    run(store, put("a"))
    path.unlink()
    assert (store.read().ident, run(file_store(path), look).value) == ("a", "a")


def test_who_lost_the_lock_meanwhile_looks_again(tmp_path: Path) -> None:
    """Its file was deleted inside a transaction, and another process wrote: that must not be written over."""
    path = tmp_path / "ledger.json"
    slow, quick = file_store(path), file_store(path)
    run(slow, put("a"))
    seen: list[str] = []

    def change(state: State) -> Done:
        seen.append(state.ident)
        if len(seen) == 1:
            lock_path(path).unlink()
            run(quick, put("b"))
        state.ident += "!"
        return Done(changed=True)

    run(slow, change)
    assert (seen, quick.read().ident) == (["a", "b"], "b!")


def test_only_what_is_named_as_ours_is_swept(tmp_path: Path) -> None:
    """Whoever joins removes what the dead left; somebody's notes in the same folder stay."""
    folder = tmp_path / "ledger.json.d"
    folder.mkdir()
    left = {"4242-0123abcd.box", "4242-0123abcd.1.lease"}
    foreign = {"notes.txt", "77-dead.box", "4242-0123ABCD.box", "x4242-0123abcd.box", ".hidden", "4242-0123abcd"} - left
    for name in left | foreign:
        (folder / name).write_text("mine")
    room = FileMailroom(folder)
    room.join(f"{os.getpid()}-89abcdef", ME, [])
    names = {path.name for path in folder.iterdir()}
    room.leave()
    assert names == {f"{os.getpid()}-89abcdef.box"} | foreign


def test_a_mailbox_says_that_a_call_is_over_before_the_ledger_is_let_go(tmp_path: Path) -> None:
    """A ledger that is lost just then, and made again from the mailboxes, must not list what was given back."""
    path = tmp_path / "ledger.json"
    scheduler = Scheduler(Policy(max_in_flight=1, state_path=path))
    slot = scheduler.acquire()
    part = scheduler._engine.part  # noqa: SLF001
    commit, listed = part._carry_out, list[int]()  # noqa: SLF001

    def look_on(*arguments: Any) -> None:
        listed.append(len(list(part.mailroom.own.entries())))
        commit(*arguments)

    part._carry_out = look_on  # type: ignore[method-assign] # noqa: SLF001
    slot.release()
    with pytest.raises(SlotTimeout), scheduler.acquire():
        scheduler.acquire(timeout_s=0)
    scheduler.close()
    assert listed == [0, 1, 1, 0, 0]
