"""Bytes that survive `kill -9` at any instant: a main file, written in place, and its copy, written just before.

The law: the copy always holds the last whole document, so a torn main file is repaired from it; space for both is
reserved before either is written, so a full disk refuses a change but never tears a file. In place, because a stable
inode can be tailed and `os.replace` costs 20 times more. May not know what the bytes say.
"""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK = 1024
_FIRST_READ = 16384
_ASK_PATH_EVERY_S = 0.25


def open_shared(path: Path, mode: int, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """Open a file of the ledger; a group-shared one gets its mode whatever the umask says."""
    fd = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), mode)
    if mode & 0o060 and flags & os.O_CREAT:
        status = os.fstat(fd)
        if stat.S_IMODE(status.st_mode) != mode and status.st_uid == os.geteuid():
            os.fchmod(fd, mode)
    return fd


def read_all(fd: int) -> bytes:
    """Read a file from its start."""
    data = os.pread(fd, _FIRST_READ, 0)
    while len(data) % _FIRST_READ == 0 and (more := os.pread(fd, max(_FIRST_READ, len(data)), len(data))):
        data += more
        if len(more) % _FIRST_READ:
            break
    return data


def read_path(path: Path) -> bytes | None:
    """Read a file by name; None if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return None
    try:
        return read_all(fd)
    finally:
        os.close(fd)


class TwinFile:
    """A main file and its copy, opened on first use and whenever somebody replaced them."""

    def __init__(self, path: Path, mode: int) -> None:
        self.path = path
        self.copy_path = path.with_name(path.name + ".copy")
        self._name = str(path)
        self._mode = mode
        self._fd = self._copy = -1
        self._identity = (0, 0)
        self._size = 0
        self._ask_path_at = 0.0

    def is_current(self) -> bool:
        """Whether the path still leads to the file that is open here."""
        try:
            status = os.stat(self._name)  # noqa: PTH116 - half the price of Path.stat, on every transaction
        except OSError:
            return False
        return self._fd >= 0 and (status.st_dev, status.st_ino) == self._identity

    def read(self) -> bytes | None:
        """The main file's bytes; None if there is none. Call under the lock."""
        if not self._is_linked():
            self.close()
            try:
                self._open(os.O_RDWR)
            except FileNotFoundError:
                return None
        data = read_all(self._fd)
        self._size = len(data)
        return data

    def _is_linked(self) -> bool:
        """Whether the open file still has a name; one that was deleted or replaced has none.

        One that was moved away keeps one, so the path is asked as well, but being dearer only now and then.
        """
        now = time.monotonic()
        if now >= self._ask_path_at:
            self._ask_path_at = now + _ASK_PATH_EVERY_S
            return self.is_current()
        return self._fd >= 0 and os.fstat(self._fd).st_nlink > 0

    def read_copy(self) -> bytes | None:
        """The copy's bytes; None if there is none."""
        return read_path(self.copy_path)

    def _open(self, flags: int) -> None:
        main = open_shared(self.path, self._mode, flags)
        try:
            status = os.fstat(main)
            copy = open_shared(self.copy_path, self._mode)
        except BaseException:  # both or neither: an interrupt, too, may come between the two
            os.close(main)
            raise
        self._identity, self._size = (status.st_dev, status.st_ino), status.st_size
        self._fd, self._copy = main, copy
        self._ask_path_at = time.monotonic() + _ASK_PATH_EVERY_S

    def write(self, document: bytes) -> bytes:
        """Write copy and main file; return the bytes as they now stand in the file. Call under the lock.

        Raises:
            OSError: nothing was changed, or (a broken disk) the copy is whole.
        """
        if self._fd < 0:
            self._open(os.O_RDWR | os.O_CREAT)
        copy = os.fstat(self._copy)
        if not copy.st_nlink:
            # Somebody deleted the copy. What goes into a file without a name is lost, and the next who opens it by name
            # would make one that goes stale: a ledger restored from that would list slots given back long ago.
            old, self._copy = self._copy, open_shared(self.copy_path, self._mode)
            os.close(old)
            copy = os.fstat(self._copy)
        needed = -(-(len(document) + 1) // _BLOCK) * _BLOCK
        size = self._size
        if needed > size:
            for fd in (self._copy, self._fd):
                _reserve(fd, needed)
            size = needed
        shrunk = needed if needed * 4 <= size else size
        data = document.ljust(shrunk - 1) + b"\n"
        # Each is whole, its old tail gone, before the other is touched.
        _write(self._copy, data)
        if copy.st_size > shrunk:
            os.ftruncate(self._copy, shrunk)
        _write(self._fd, data)
        if self._size > shrunk:
            os.ftruncate(self._fd, shrunk)
        self._size = shrunk
        return data

    def close(self) -> None:
        """Close both. First forgotten, then closed: a number that somebody else has by then is never closed again."""
        open_here, self._fd, self._copy = (self._fd, self._copy), -1, -1
        for fd in open_here:
            if fd >= 0:
                os.close(fd)


def _reserve(fd: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)


def _write(fd: int, data: bytes) -> None:
    written = os.pwrite(fd, data, 0)
    while written < len(data):
        written += os.pwrite(fd, data[written:], written)
