"""One owner's file in `<state_path>.d/`: proof of life, list of its calls, and where it is rung.

The kernel lock on it is held as long as its process lives. Its first page says who that is; each further cell is one call:
`bell state due number loop at keys`, readable with `strings`. Others write into a cell only under the ledger's lock, and only
for a ticket that the ledger lists; so a cell is never somebody else's. All goes through `pread`/`pwrite`:
a file that somebody truncates gives an error, not a SIGBUS. The memory map serves only as the futex's address.
"""

from __future__ import annotations

import contextlib
import heapq
import mmap
import os
from typing import TYPE_CHECKING, NamedTuple

from llm_sched import host
from llm_sched.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEADER = 4096
CELL = 512
CELLS = 16384
KEYS_LENGTH = 430
"""Bytes that a bucket's keys may have as JSON, to fit a cell."""

_SIZE = HEADER + CELL * CELLS
_WORD = 30
_CHUNK = 128 * CELL


class Word(NamedTuple):
    """What a waiter finds in its cell: `bell` changes with every ring; `held` = the slot is yours."""

    bell: bytes
    state: bytes
    due: float


class Entry(NamedTuple):
    """One call as listed in a mailbox."""

    cell: int
    state: str
    number: int
    loop: int
    at: float
    keys: bytes


def call_text(number: int, loop: int, at: float, keys: bytes) -> bytes:
    """A call as it stands in a cell."""
    return b"%d %d %.6f %s" % (number, loop, at, keys)


class Mailbox:
    """A mailbox file, one's own (`create`) or another owner's (`open`)."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.fd = fd
        self.fifos: dict[int, int] = {}
        self._free: list[int] = []
        self._used = 0
        self._map: mmap.mmap | None = None
        self._address = 0

    @classmethod
    def create(cls, path: Path, header: bytes, mode: int) -> Mailbox:
        """Make and lock one's own; the caller holds the ledger's lock, so nobody sweeps it before it is locked.

        A file of that name can only be left from an attempt of one's own that was interrupted.
        """
        path.unlink(missing_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), mode)
        try:
            host.lock_alive(fd)
            if mode & 0o060:
                os.fchmod(fd, mode)
            os.pwrite(fd, header + b"\n", 0)
            os.ftruncate(fd, _SIZE)
        except BaseException:
            os.close(fd)
            path.unlink()
            raise
        return cls(path, fd)

    @classmethod
    def open(cls, path: Path) -> Mailbox:
        """Open another owner's, to look and to ring."""
        return cls(path, os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0)))

    def close(self) -> None:
        """Close all descriptors; safe to call again."""
        for fd in (*self.fifos.values(), self.fd):
            with contextlib.suppress(OSError):
                os.close(fd)
        self.fifos.clear()
        self.fd = -1
        if self._map is not None:
            # It has a descriptor of its own, which would keep the lock in a forked child. Whoever still sleeps on the
            # address is woken by an error.
            self._map.close()
            self._map = None

    def header(self) -> bytes:
        """Who the owner is, as written by `create`."""
        return os.pread(self.fd, HEADER, 0).partition(b"\n")[0]

    def take(self) -> int:
        """Reserve a cell; the lowest free one, so that reading all stays short."""
        if self._free:
            return heapq.heappop(self._free)
        if self._used == CELLS:
            message = f"more than {CELLS} calls hold or wait in one process; use more processes or fewer threads"
            raise LedgerError(message, path=str(self.path))
        self._used += 1
        return self._used - 1

    def clear(self, cell: int) -> None:
        """Say in a cell that its call is over."""
        os.pwrite(self.fd, b"free", HEADER + cell * CELL + 5)

    def free(self, cell: int) -> None:
        """Give a cell back that was cleared."""
        heapq.heappush(self._free, cell)

    def write(self, cell: int, state: bytes, call: bytes) -> None:
        """Fill one's own cell; `call` is made by `call_text`."""
        line = b"0000 %s %020.6f %s\n" % (state, 0.0, call)
        os.pwrite(self.fd, line, HEADER + cell * CELL)

    def mark(self, cell: int, state: bytes, due: float, seq: int) -> None:
        """Write news into a cell: first the news, then the bell, so that whoever sees the bell sees the news."""
        offset = HEADER + cell * CELL
        os.pwrite(self.fd, b"%s %020.6f" % (state, due), offset + 5)
        os.pwrite(self.fd, b"%04x" % (seq & 0xFFFF), offset)

    def look(self, cell: int) -> Word:
        """Read a cell's news. The bell is read first: a ring that comes later changes it under the sleeper."""
        text = os.pread(self.fd, _WORD, HEADER + cell * CELL)
        return Word(text[:4], text[5:9], float(text[10:30] or 0))

    def address(self, cell: int) -> int:
        """Memory address of a cell's bell, the futex word."""
        if self._map is None:
            import ctypes  # noqa: PLC0415 - only where somebody waits

            self._map = mmap.mmap(self.fd, _SIZE)
            self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        return self._address + HEADER + cell * CELL

    def take_over(self, old: Mailbox) -> None:
        """Continue a mailbox whose file was deleted: same cells, new file. The old stays open: threads sleep on it."""
        offset = HEADER
        while chunk := os.pread(old.fd, _CHUNK, offset):
            if not chunk.strip(b"\0"):
                break
            os.pwrite(self.fd, chunk, offset)
            offset += _CHUNK
        self._free, self._used = old._free, old._used

    def turn_away(self) -> Iterator[int]:
        """Change every bell, so that nobody goes to sleep here any more; yield the cells, whose sleepers must be woken."""
        for cell in range(self._used):
            os.pwrite(self.fd, b"gone", HEADER + cell * CELL)
            yield cell

    def entries(self) -> Iterator[Entry]:
        """All calls that hold or wait; damaged lines are passed over."""
        offset = HEADER
        while (chunk := os.pread(self.fd, _CHUNK, offset)).strip(b"\0"):
            for start in range(0, len(chunk), CELL):
                fields = chunk[start : start + CELL].partition(b"\n")[0].split(b" ", 6)
                if len(fields) == 7 and fields[1] in {b"held", b"wait"}:  # noqa: PLR2004 - as `write` makes them
                    cell = (offset + start - HEADER) // CELL
                    with contextlib.suppress(ValueError):
                        yield Entry(cell, fields[1].decode(), int(fields[3]), int(fields[4]), float(fields[5]), fields[6])
            offset += _CHUNK
