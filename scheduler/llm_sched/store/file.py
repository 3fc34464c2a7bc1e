"""The ledger in a JSON file.

The law: one lock, one document, written whole (see `files.py`); what is unreadable is set aside, never overwritten; what is
somebody else's or newer is refused, untouched. A lost ledger is made again from the owners' mailboxes, which list what
each holds, so that it admits nobody over the cap. May not know what a limit is.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from llm_sched import codec, host
from llm_sched.errors import LedgerError
from llm_sched.store import BusyError, files
from llm_sched.store.lock import FileLock

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_sched.model import State
    from llm_sched.store import OutcomeT

_READ_TRIES = 40


class FileStore:
    """A ledger shared by all processes that name the same path.

    Args:
        path: the JSON file; its folder is made (mode 0700) when missing.
        clock: for the time stamp people read.
        recover: fills an empty state from the mailboxes' folder when the file is lost; returns whether it found anything.
    """

    def __init__(self, path: Path, clock: host.Clock, recover: Callable[[State], bool]) -> None:
        self.path = path
        self._clock = clock
        self._recover = recover
        self._lock: FileLock | None = None
        self._twin = files.TwinFile(path, 0o600)
        self._bytes = b""
        self._state: State | None = None
        self._restored = False

    @property
    def folder(self) -> Path:
        """Where the owners' mailboxes are."""
        return folder_of(self.path)

    def open(self) -> None:
        """See `Store`."""
        if self._lock is None:
            self._prepare()  # only here and in `transact`, which comes after it: threads begin with `open`, one by one

    def transact(
        self,
        change: Callable[[State], OutcomeT],
        commit: Callable[[OutcomeT, int], None],
        deadline: float | None,
        *,
        yields: bool = False,
    ) -> OutcomeT:
        """See `Store`."""
        lock = self._lock or self._prepare()
        if lock.is_mine():  # a signal handler calls in during a transaction of its own thread
            raise BusyError
        try:
            while True:
                lock.acquire(deadline, yields=yields)
                state = self._load()
                self._state = None
                answer = change(state)
                if not answer.changed and not self._restored:
                    break
                if lock.is_current():
                    self._save(state)
                    break
                lock.release()  # somebody deleted its file meanwhile, so others may have written: look again
            commit(answer, state.seq)
        except OSError as error:
            raise explain(error, self.path) from error
        finally:
            # Ctrl-C can come at any instruction, also on the way into `release`: then the second one frees the lock.
            try:
                lock.release()
            finally:
                lock.release()
        return answer

    def _prepare(self) -> FileLock:
        try:
            mode = self._make_folders()
            self._twin = files.TwinFile(self.path, mode)
            self._lock = FileLock(lock_path(self.path), self._open_lock)
        except OSError as error:
            raise explain(error, self.path) from error
        return self._lock

    def _make_folders(self) -> int:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = shared_mode(self.path.parent)
        self.folder.mkdir(mode=mode | (mode & 0o440) >> 2, exist_ok=True)
        if mode & 0o060 and self.folder.stat().st_uid == os.geteuid():
            self.folder.chmod(0o2770)
        return mode

    def _open_lock(self, path: Path) -> int:
        try:
            return files.open_shared(path, shared_mode(self.path.parent))
        except FileNotFoundError:  # somebody deleted the folder
            return files.open_shared(path, self._make_folders())

    def _load(self) -> State:
        data = self._twin.read()
        if data is not None and data == self._bytes and self._state is not None:
            return self._state
        if data is None:
            return self._restore(None)
        try:
            return codec.decode(data)
        except codec.UnreadableError as error:
            if not self._twin.is_current():  # another process has set this file aside: look at what stands there now
                self._twin.close()
                return self._load()
            refuse(error.fault, self.path)
            return self._restore(data)

    def _restore(self, damaged: bytes | None) -> State:
        """The state when the main file is missing or damaged: from its copy, else from what the living hold."""
        if damaged and not damaged.startswith(b'{"schema":'):
            self._set_aside()
        copy = self._twin.read_copy()
        self._restored = True  # so it is written again even if nothing else changes
        try:
            state = codec.decode(copy or b"")
        except codec.UnreadableError:
            if damaged and self._twin.is_current():
                self._set_aside()
            state = codec.new_state(host.new_id(), host.boot_id(), host.machine_id())
            self._restored = bool(self._recover(state) or damaged or copy)
            if self._restored:
                state.origin = "rebuilt"
                _warn("%s was lost; it was made again from what the living processes hold", self.path)
        return state

    def _set_aside(self) -> None:
        aside = self.path.with_name(f"{self.path.name}.corrupt-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
        if aside.exists():
            aside = aside.with_name(f"{aside.name}-{host.new_id()}")
        self.path.rename(aside)
        self._twin.close()
        _warn("%s was no readable ledger; it was set aside as %s", self.path, aside)

    def _save(self, state: State) -> None:
        state.seq += 1
        state.updated_at = round(self._clock.wall(), 3)
        self._bytes = b""
        self._bytes = self._twin.write(codec.encode(state))
        self._state, self._restored = state, False

    def read(self) -> State:
        """See `Store`; also for monitors: it needs no scheduler and changes nothing."""
        return read_ledger(self.path)

    def intact(self) -> bool:
        """See `Store`."""
        return self._twin.is_current()

    def close(self) -> None:
        """See `Store`. Not under another thread's transaction: closing its descriptor would free its lock."""
        if self._lock is None:
            return
        with self._lock.idle() as idle:
            if idle:
                self._forget()

    def _forget(self) -> None:
        self._twin.close()
        self._bytes, self._state = b"", None

    def after_fork(self) -> None:
        """In a forked child: drop what belongs to the parent."""
        if self._lock:
            self._lock.after_fork()
        self._forget()


def folder_of(path: Path) -> Path:
    """The folder of the owners' mailboxes for a ledger."""
    return path.with_name(path.name + ".d")


def lock_path(path: Path) -> Path:
    """The lock file of a ledger."""
    return path.with_name(path.name + ".lock")


def shared_mode(folder: Path) -> int:
    """0660 in a setgid folder that its group may write, else 0600: sharing between users must be asked for."""
    mode = folder.stat().st_mode
    return 0o660 if mode & stat.S_ISGID and mode & stat.S_IWGRP else 0o600


def read_ledger(path: Path) -> State:
    """Read a ledger without its lock: a torn read is tried again, later the copy as well.

    Raises:
        LedgerError: unreadable, somebody else's, or of a newer version; `codec.UnreadableError` is its cause.
    """
    fault: codec.UnreadableError | None = None
    for attempt in range(_READ_TRIES):
        try:
            data = files.read_path(path)
            if not data:  # deleted or emptied: the copy stands for it until the next transaction
                data = files.read_path(path.with_name(path.name + ".copy"))
            if not data:
                return codec.new_state(host.new_id(), host.boot_id(), host.machine_id(), "absent")
            return codec.decode(data)
        except codec.UnreadableError as error:
            fault = error
            refuse(error.fault, path)
        except OSError as error:
            raise explain(error, path) from error
        if attempt >= _READ_TRIES // 2:
            with suppress(codec.UnreadableError, OSError):
                return codec.decode(files.read_path(path.with_name(path.name + ".copy")) or b"")
        if attempt % 4 == 3:  # noqa: PLR2004 - a writer that was interrupted needs the processor
            time.sleep(0.0005)
    message = f"{path} is no readable ledger; the next call of a live process sets it aside and makes it again"
    raise LedgerError(message, path=str(path)) from fault


def refuse(fault: codec.Fault, path: Path) -> None:
    """Raise for what must not be touched: newer, or not ours."""
    if fault == "newer":
        message = f"{path} was written by a newer llm-sched; upgrade this one, or set MAS_LLM_SCHEDULER_STATE"
    elif fault == "foreign":
        message = f"{path} is JSON but no llm-sched ledger; set MAS_LLM_SCHEDULER_STATE (state_path) to another file"
    else:
        return
    raise LedgerError(message, path=str(path)) from codec.UnreadableError(fault)


def explain(error: OSError, path: Path) -> LedgerError:
    """What went wrong with the ledger's files, and what to do."""
    name = error.filename or path
    elsewhere = "set MAS_LLM_SCHEDULER_STATE (state_path) to another file"
    advice = {
        errno.ENOSPC: "the disk is full: free some space; calls that hold a slot keep it and can give it back",
        errno.EDQUOT: "your disk quota is used up: free some space",
        errno.EROFS: "the file system is read-only: set MAS_LLM_SCHEDULER_STATE (state_path) to a writable file",
        errno.EACCES: "no permission: set MAS_LLM_SCHEDULER_STATE (state_path) to a file of your own, or share it through a "
        "setgid folder that the group may write",
        errno.ENOENT: f"a folder of that path is not there and cannot be made: {elsewhere}",
        errno.EPERM: f"that is not permitted there: {elsewhere}",
        errno.ENOTDIR: f"a part of the path is no folder: {elsewhere}",
        errno.EEXIST: f"a file stands where a folder is needed: {elsewhere}",
        errno.EISDIR: f"it is a folder: {elsewhere}",
        errno.EMFILE: "this process has too many open files: raise `ulimit -n`",
    }.get(error.errno or 0, f"{os.strerror(error.errno or 0)}; {elsewhere}")
    return LedgerError(f"cannot use the ledger {path} ({name}): {advice}", path=str(path))


def _warn(message: str, *args: object) -> None:
    import logging  # noqa: PLC0415 - rare, and slow to import

    logging.getLogger("llm_sched").warning(message, *args)
