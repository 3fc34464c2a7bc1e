"""Recordings: what a monitor saw, to be watched again at any speed.

The law: a recording is a gzip file of JSON lines, a head and then one line a snapshot that differs from the one before;
each line is flushed, so that a recording which was cut off still plays. The user's home folder stands in it as `~`.
"""

from __future__ import annotations

import gzip
import zlib
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from llm_sched.errors import LedgerError
from llm_sched.snapshot import Snapshot
from llm_sched_tui.view_model.text import home_short
from llm_sched_tui.view_model.values import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORMAT = 1
_BATCH = 64
"""Snapshots that are taken in at once: at a high speed some are left out, so that the work stays bounded."""


class _Head(msgspec.Struct):
    """First line; `wall` is when the recording began, in seconds since the epoch."""

    llm_sched_recording: int
    wall: float


class _Line(msgspec.Struct, omit_defaults=True):
    """One snapshot, `at` seconds after the beginning. The last line has none: it tells when the recording ended."""

    at: float
    snapshot: msgspec.Raw = msgspec.Raw(b"null")
    refused: str = ""


class RecordingError(LedgerError):
    """A recording cannot be written or read."""


class Recorder:
    """Writes a recording.

    Args:
        path: the file; it must not exist.
        home: the user's home folder.

    Raises:
        RecordingError: it exists already, or cannot be written.
    """

    def __init__(self, path: Path, home: str) -> None:
        self._path = path
        self._home = home
        self._start: float | None = None
        self._at = 0.0
        try:
            self._file = gzip.GzipFile(path, "xb", compresslevel=6, mtime=0)
        except FileExistsError as error:
            raise RecordingError(f"--record {path}: the file exists; give another name", path=str(path)) from error
        except OSError as error:
            raise RecordingError(f"--record {path}: {error.strerror}; give another name", path=str(path)) from error

    def take(self, reading: Reading) -> None:
        """Write a reading, if it differs from the one before.

        Raises:
            RecordingError: the disk is full.
        """
        if self._start is None:
            self._start = reading.at
            self._write(msgspec.json.encode(_Head(FORMAT, reading.wall)))
        self._at = reading.at - self._start
        if reading.changed:
            snapshot = msgspec.structs.replace(reading.snapshot, path=home_short(reading.snapshot.path, self._home))
            line = _Line(round(self._at, 4), msgspec.Raw(msgspec.json.encode(snapshot)), reading.refused)
            self._write(msgspec.json.encode(line))

    def _write(self, line: bytes) -> None:
        try:
            self._file.write(line + b"\n")
            self._file.flush()
        except OSError as error:
            raise RecordingError(f"--record {self._path}: {error.strerror}", path=str(self._path)) from error

    def close(self) -> None:
        """Write the end."""
        if not self._file.closed:
            if self._start is not None:
                self._write(msgspec.json.encode(_Line(round(self._at, 4))))
            self._file.close()


class ReplaySource:
    """Plays a recording; see `Source`.

    Args:
        path: the recording.
        speed: how many times as fast as it happened.
        clock: seconds, monotonic.

    Raises:
        RecordingError: no such file, or no recording.
    """

    def __init__(self, path: Path, speed: float, clock: Callable[[], float]) -> None:
        self._path = path
        self._speed = speed
        self._clock = clock
        self._lines = _lines(path)
        self._head = _head(self._lines, path)
        self._next: _Line | None = next(self._lines, None)
        if self._next is None:
            raise RecordingError(f"--replay {path}: there is no snapshot in this recording", path=str(path))
        self._from: float | None = None
        self._still: float | None = None
        self._last: Reading | None = None
        self._end = 0.0

    def now(self) -> float:
        """Seconds since the recording's beginning; it stands still before the first look and after the end."""
        if self._from is None:
            return 0.0
        passed = ((self._still if self._still is not None else self._clock()) - self._from) * self._speed
        return passed if self._next is not None else min(passed, self._end)

    def wall(self) -> float:
        """See `Source`: the time of day then."""
        return self._head.wall + self.now()

    def hold(self, *, still: bool) -> None:
        """See `Source`."""
        if still and self._still is None:
            self._still = self._clock()
        elif not still and self._still is not None:
            if self._from is not None:
                self._from += self._clock() - self._still
            self._still = None

    def progress(self) -> str:
        """See `Source`."""
        speed = f"{self._speed:g}x"
        return f"replay {speed}" if self._next is not None else "replay ended"

    def poll(self) -> list[Reading]:
        """See `Source`."""
        if self._from is None:
            self._from = self._clock()
        due = list(self._due(self.now()))
        if len(due) > _BATCH:
            due = [*islice(due[:-1], 0, None, len(due) // _BATCH + 1), due[-1]]
        readings = [self._reading(line) for line in due]
        if not readings and self._last is not None:
            readings = [Reading(self.now(), self._last.taken, self.wall(), self._last.snapshot, self._last.refused)]
        return readings

    def _due(self, now: float) -> Iterator[_Line]:
        while self._next is not None and self._next.at <= now:
            line = self._next
            self._end = line.at
            self._next = next(self._lines, None)
            if bytes(line.snapshot) != b"null":
                yield line

    def _reading(self, line: _Line) -> Reading:
        try:
            snapshot = msgspec.json.decode(line.snapshot, type=Snapshot)
        except msgspec.DecodeError as error:
            raise _damaged(self._path) from error
        self._last = Reading(line.at, line.at, self._head.wall + line.at, snapshot, line.refused)
        return self._last


def _lines(path: Path) -> Iterator[Any]:
    """The lines of a recording, decoded but for the snapshots; the end of one that was cut off is its end."""
    try:
        with gzip.open(path, "rb") as file:
            yield msgspec.json.decode(file.readline(), type=_Head)
            for line in file:
                yield msgspec.json.decode(line, type=_Line)
    except EOFError:
        return
    except (gzip.BadGzipFile, zlib.error, msgspec.DecodeError) as error:
        raise _damaged(path) from error
    except OSError as error:
        raise RecordingError(f"--replay {path}: {error.strerror}", path=str(path)) from error


def _head(lines: Iterator[Any], path: Path) -> _Head:
    head = next(lines, None)
    if not isinstance(head, _Head):
        raise _damaged(path)
    if head.llm_sched_recording > FORMAT:
        raise RecordingError(f"--replay {path}: written by a newer llm-sched-tui; upgrade this one", path=str(path))
    return head


def _damaged(path: Path) -> RecordingError:
    return RecordingError(f"--replay {path}: this is no recording of llm-sched-tui, or a damaged one", path=str(path))
