"""All mailboxes of one ledger: this owner's and the others'; who lives, who is rung, what the living hold.

May not know why somebody is rung, nor any limit. Whatever changes files here runs under the ledger's lock.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from typing import TYPE_CHECKING, Protocol

import msgspec

from llm_sched import host, wakeup
from llm_sched.mailbox import Mailbox, Word
from llm_sched.model import Claim, Owner, Terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

WATCH = 0
"""Number of the FIFO on which an owner's watch listens; loops have 1 and above."""

_SUFFIX = ".box"
_OWNER_ID = re.compile("[0-9]+-[0-9a-f]{8}")


class Header(msgspec.Struct, frozen=True):
    """First page of a mailbox: who its owner is and under which terms it calls."""

    owner: Owner
    terms: Terms


_header = msgspec.json.Decoder(Header)


class Mailroom(Protocol):
    """How a participant sleeps, is rung, rings others, and tells who lives. The real one is `FileMailroom`."""

    def join(self, owner_id: str, header: Header, known: Collection[str]) -> None:
        """Open one's own mailbox; nothing to do when it is open. `known`: the owners that the ledger lists."""
        ...

    def leave(self) -> None:
        """Remove one's own mailbox and close all."""
        ...

    def take(self) -> int:
        """Reserve a cell."""
        ...

    def write(self, cell: int, state: bytes, call: bytes) -> None:
        """Fill a cell of one's own."""
        ...

    def clear(self, cell: int) -> None:
        """Say in a cell of one's own that its call is over."""
        ...

    def free(self, cell: int) -> None:
        """Give a cell back that was cleared."""
        ...

    def look(self, cell: int) -> Word:
        """Read the news in a cell of one's own."""
        ...

    def sleep(self, cell: int, word: Word, timeout: float) -> None:
        """Block this thread until the cell's bell differs from `word.bell`, at most `timeout` seconds."""
        ...

    def deliver(self, owner_id: str, cell: int, loop: int, news: Word, seq: int) -> None:
        """Write news into a cell and ring; never raises."""
        ...

    def nudge(self, owner_id: str) -> None:
        """Tell an owner's watch that the list of owners has changed; never raises."""
        ...

    def listen(self, loop: int) -> int:
        """Return a descriptor that becomes readable when the loop of that number is rung; -1 = look now and then."""
        ...

    def is_alive(self, owner_id: str, owner: Owner) -> bool:
        """Whether an owner lives."""
        ...

    def is_intact(self) -> bool:
        """Whether others can still find one's own mailbox; else `join` makes it again."""
        ...

    def forget(self, gone: Collection[str]) -> None:
        """Remove what owners who are gone have left."""
        ...


class FileMailroom:
    """Mailboxes as files in the ledger's folder.

    Args:
        folder: `<state_path>.d`.
        bell: how threads sleep; None = the platform's best.
    """

    def __init__(self, folder: Path, bell: wakeup.ThreadBell | None = None) -> None:
        self._folder = folder
        self._bell = bell or wakeup.thread_bell()
        self._boxes: dict[str, Mailbox] = {}
        self._fifos: dict[int, int] = {}
        self._left: list[int] = []  # FIFOs without a name, on which a loop may still listen: closed only with all
        self._own_id = ""
        self._own: Mailbox | None = None
        self._mode = 0o600
        # The watch looks who lives without the ledger's lock, while a transaction may close what it looks at.
        self._guard = threading.RLock()

    @property
    def own(self) -> Mailbox:
        """One's own mailbox; `join` comes first."""
        if self._own is None:
            raise FileNotFoundError(self._folder / f"{self._own_id}{_SUFFIX}")
        return self._own

    def join(self, owner_id: str, header: Header, known: Collection[str]) -> None:
        """See `Mailroom`; what others left behind who were killed is swept on the way."""
        if self._own and _linked(self._own.fd):
            return
        if not self._folder.is_dir():
            self._folder.mkdir(mode=0o700)
        self._mode = 0o660 if self._folder.stat().st_mode & 0o020 else 0o600
        replaced, self._own_id = self._own, owner_id
        box = Mailbox.create(self._folder / f"{owner_id}{_SUFFIX}", msgspec.json.encode(header), self._mode)
        if replaced:
            box.take_over(replaced)
        self._own = self._boxes[owner_id] = box
        if replaced:
            self._move_in(replaced)
        self._sweep(known)

    def _move_in(self, replaced: Mailbox) -> None:
        """Call everybody over who sleeps at the mailbox that was deleted, threads and loops."""
        for cell in replaced.turn_away():
            self._bell.wake(replaced, cell)
        with self._guard:
            fifos, self._fifos = self._fifos, {}
            self._left += fifos.values()
            for loop, fd in fifos.items():
                self.listen(loop)
                with contextlib.suppress(BlockingIOError):
                    os.write(fd, b"!")

    def _sweep(self, known: Collection[str]) -> None:
        """Remove what owners left whom the ledger does not know and who do not live; what is named otherwise is not ours."""
        for owner_id in {path.name.partition(".")[0] for path in self._folder.iterdir()}.difference(known):
            if _OWNER_ID.fullmatch(owner_id) and not self._is_held(self._folder / f"{owner_id}{_SUFFIX}"):
                self._unlink(owner_id)

    def _is_held(self, path: Path) -> bool:
        try:
            box = self._box(path.stem)
        except FileNotFoundError:
            return False
        except PermissionError:  # another user's, and nobody here may tell
            return True
        return box is self._own or host.is_locked(box.fd)

    def _box(self, owner_id: str) -> Mailbox:
        box = self._boxes.get(owner_id)
        if box is None:
            with self._guard:
                box = self._boxes.get(owner_id)
                if box is None:
                    box = self._boxes[owner_id] = Mailbox.open(self._folder / f"{owner_id}{_SUFFIX}")
        return box

    def _linked_box(self, owner_id: str) -> Mailbox:
        """The mailbox as it stands in the folder: its owner makes it again when somebody has deleted it."""
        box = self._box(owner_id)
        if _linked(box.fd):
            return box
        with self._guard:
            path = self._folder / f"{owner_id}{_SUFFIX}"
            if box is self._own or not path.exists():
                return box
            del self._boxes[owner_id]
            box.close()
            return self._box(owner_id)

    def _unlink(self, owner_id: str) -> None:
        box = self._boxes.pop(owner_id, None)
        if box:
            box.close()
        for path in self._folder.glob(f"{owner_id}.*"):
            path.unlink(missing_ok=True)

    def leave(self) -> None:
        """See `Mailroom`."""
        self.drop()
        if self._own_id:
            self._unlink(self._own_id)

    def drop(self) -> None:
        """Close every descriptor and leave the files: for a forked child, whose parent goes on using them."""
        with self._guard:
            fifos, self._fifos = [*self._fifos.values(), *self._left], {}
            self._left = []
            boxes, self._boxes = self._boxes, {}
            self._own = None
        for fd in fifos:
            os.close(fd)
        for box in boxes.values():
            box.close()

    def after_fork(self) -> None:
        """In a forked child: another thread of the parent may have held the guard for ever."""
        self._guard = threading.RLock()
        self.drop()

    def take(self) -> int:
        """See `Mailroom`."""
        return self.own.take()

    def write(self, cell: int, state: bytes, call: bytes) -> None:
        """See `Mailroom`."""
        self.own.write(cell, state, call)

    def clear(self, cell: int) -> None:
        """See `Mailroom`."""
        self.own.clear(cell)

    def free(self, cell: int) -> None:
        """See `Mailroom`."""
        self.own.free(cell)

    def look(self, cell: int) -> Word:
        """See `Mailroom`."""
        return self.own.look(cell)

    def sleep(self, cell: int, word: Word, timeout: float) -> None:
        """See `Mailroom`."""
        self._bell.wait(self.own, cell, word.bell, timeout)

    def deliver(self, owner_id: str, cell: int, loop: int, news: Word, seq: int) -> None:
        """See `Mailroom`. An owner that cannot be reached finds out at its next slow check."""
        with contextlib.suppress(OSError, ValueError):
            box = self._linked_box(owner_id)
            box.mark(cell, news.state, news.due, seq)
            if not loop:
                self._bell.wake(box, cell)
            elif owner_id == self._own_id and loop in self._fifos:
                os.write(self._fifos[loop], b"!")  # works also when somebody has deleted the FIFO's name
            elif wakeup.has_fifos():
                wakeup.ring(box, loop)

    def nudge(self, owner_id: str) -> None:
        """See `Mailroom`."""
        with contextlib.suppress(OSError):
            if wakeup.has_fifos():
                wakeup.ring(self._linked_box(owner_id), WATCH)

    def listen(self, loop: int) -> int:
        """See `Mailroom`."""
        if not wakeup.has_fifos():
            return -1
        with self._guard:
            if loop not in self._fifos:
                self._fifos[loop] = wakeup.listen(self.own.path, loop, self._mode)
            return self._fifos[loop]

    def is_alive(self, owner_id: str, owner: Owner) -> bool:
        """See `Mailroom`. Where somebody deleted the mailbox, the process itself is looked for."""
        with self._guard:
            path = self._folder / f"{owner_id}{_SUFFIX}"
            box = self._boxes.get(owner_id)
            if box and (box is self._own or host.is_locked(box.fd)):
                return True
            if path.exists():
                return self._is_held(path) if box is None or _linked(box.fd) else _is_locked(path)
        # Of a process in another namespace nothing can be told then; it is not taken for dead.
        return owner.pid_ns != host.pid_namespace() or host.process_alive(owner.pid, owner.started)

    def is_intact(self) -> bool:
        """See `Mailroom`."""
        own = self._own
        return own is None or _linked(own.fd)

    def forget(self, gone: Collection[str]) -> None:
        """See `Mailroom`."""
        with self._guard:
            for owner_id in gone:
                self._unlink(owner_id)

    def headers(self) -> Iterator[tuple[str, Header]]:
        """The living owners, by id."""
        for path in self._folder.glob(f"*{_SUFFIX}"):
            if self._is_held(path):
                with contextlib.suppress(OSError, msgspec.DecodeError):
                    yield path.stem, _header.decode(self._box(path.stem).header())

    def claims(self, owner_id: str, terms: Terms) -> Iterator[Claim]:
        """What a living owner holds and waits for."""
        for entry in self._box(owner_id).entries():
            with contextlib.suppress(msgspec.DecodeError):
                keys = msgspec.json.decode(entry.keys, type=dict[str, str])
                yield Claim(owner_id, terms, keys, entry.number, entry.loop, entry.at, entry.cell, entry.state == "held")


def _is_locked(path: Path) -> bool:
    """Whether a mailbox is held that is not the one open here; opened for a moment only."""
    box = Mailbox.open(path)
    try:
        return host.is_locked(box.fd)
    finally:
        box.close()


def _linked(fd: int) -> bool:
    try:
        return os.fstat(fd).st_nlink > 0
    except OSError:
        return False
