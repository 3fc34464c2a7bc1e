# Time stamps of calls. This file may know nothing of peers or processes: numbers in, numbers out.
"""The record of one acquire and release, as the calling thread itself saw it."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FIELDS = 4
NOT_YET = 0


@dataclass(frozen=True, slots=True)
class Call:
    """Monotonic nanoseconds, one clock for all processes; `NOT_YET` for what had not happened when the log ended."""

    worker: int
    thread: int
    started: int
    granted: int
    releasing: int
    released: int

    def held_until(self, end: int) -> int:
        """Until when it surely held its slot: the release call's start, or `end` of the log."""
        return self.releasing or max(self.granted, end)


def new_log() -> array[int]:
    """Return the log of one thread: four numbers per call, appended without an object for each."""
    return array("q")


def calls_of(logs: Iterable[Iterable[array[int]]]) -> list[Call]:
    """Return all calls of all threads (`logs` has one entry per worker, holding one log per thread)."""
    return [
        Call(worker, thread, *log[at : at + FIELDS])
        for worker, threads in enumerate(logs)
        for thread, log in enumerate(threads)
        for at in range(0, len(log), FIELDS)
    ]
