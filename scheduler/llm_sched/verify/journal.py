"""What a worker writes down while it calls: the witness's evidence, independent of the ledger.

Each process has a file of its own; each record is one line, written by one `write` to a descriptor opened with O_APPEND, so
it survives `kill -9`, and threads don't mix theirs. A time is read before it is written, so a record never claims
what has not happened yet.
"""

from __future__ import annotations

import itertools
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

RecordKind = Literal[
    "asked",  # just before asking; text: bucket, timeout_s
    "queued",  # just after the transaction that queued the call
    "granted",  # just after the slot was got
    "ended",  # just before it is released
    "timed_out",  # just after the wait ended without a slot
    "canceling",  # just before the task is cancelled
    "interrupted",  # in the handler of SIGINT, before it raises
    "left",  # just after a cancelled or interrupted call was over
    "forked",  # just before forking
    "dying",  # just before the process kills itself with SIGKILL
    "clean",  # all calls are over and the ledger lists nothing of this process
    "unclean",  # it still does; text says what
    "failed",  # something that must not happen; text says what
]
_KINDS = frozenset(get_args(RecordKind))
_FIELDS = 4
_LONGEST = 1000
NO_CALL = 0
SUFFIX = ".journal"


@dataclass(frozen=True, slots=True)
class Record:
    """One line: what happened to which call of the process, when (seconds of CLOCK_MONOTONIC), and more about it."""

    kind: RecordKind
    call: int
    at: float
    text: str = ""


class Journal:
    """One process's file, to write."""

    def __init__(self, path: Path) -> None:
        """Open a new file."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self._path = path
        self._fd = os.open(path, flags, 0o600)
        self._numbers = itertools.count(NO_CALL + 1)
        self.latest = NO_CALL

    def begin(self, bucket: str, timeout_s: float) -> int:
        """Note that a call is about to ask, and return its number."""
        number = self.latest = next(self._numbers)
        self.note("asked", number, f"{bucket} {timeout_s:.6f}")
        return number

    def note(self, kind: RecordKind, call: int = NO_CALL, text: str = "") -> None:
        """Note what happens now."""
        at = time.monotonic()
        line = f"{kind} {call} {at:.9f} {' '.join(text.split())[:_LONGEST]}\n"
        os.write(self._fd, line.encode())

    def of_child(self) -> Journal:
        """The journal of this process, just forked from the one that wrote here."""
        os.close(self._fd)
        return Journal(self._path.with_name(f"{self._path.stem}-{os.getpid()}{SUFFIX}"))


def parse(lines: Iterable[str]) -> list[Record]:
    """The records of a file; what was torn by a kill is passed over: it tells of something that did not end."""
    records: list[Record] = []
    for line in lines:
        fields = line.rstrip("\n").split(" ", _FIELDS - 1)
        if not line.endswith("\n") or len(fields) < _FIELDS or fields[0] not in _KINDS:
            continue
        kind: RecordKind = fields[0]  # type: ignore[assignment] # pyright narrows by the set above, mypy does not
        records.append(Record(kind, int(fields[1]), float(fields[2]), fields[3]))
    return records


def read_all(folder: Path) -> dict[str, list[Record]]:
    """The records of every process that wrote into a folder, by the journals' names."""
    found: dict[str, list[Record]] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        with path.open(encoding="utf-8", errors="replace") as file:
            found[path.stem] = parse(file)
    return found
