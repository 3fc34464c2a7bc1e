"""An independent witness of the cap: it counts who is inside, and knows nothing of the ledger.

The law: `enter` after a slot was got, `leave` before it is given back, each under the witness's own lock. Whoever kills a
child dooms it here first: from then on nothing of that child counts. May not import llm_sched.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = 1024
_INSIDE, _PEAK, _SERVED, _FIRST_ROW = 0, 1, 2, 8
_DOOMED = -1_000_000


class Witness:
    """Counts holders over all processes; one per thread, since a kernel lock belongs to an open file.

    Args:
        path: file of the counters, made by `Witness.make`.
        row: which child this is.
    """

    def __init__(self, path: str | Path, row: int = 0) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._map = mmap.mmap(self._fd, 0)
        self._numbers = memoryview(self._map).cast("q")
        self._row = _FIRST_ROW + row

    @classmethod
    def make(cls, path: Path) -> Witness:
        """Make an empty witness."""
        path.write_bytes(bytes(8 * (_FIRST_ROW + ROWS)))
        return cls(path)

    @contextmanager
    def _guarded(self) -> Iterator[memoryview]:
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            yield self._numbers
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def enter(self) -> None:
        """A slot was got."""
        with self._guarded() as numbers:
            if numbers[self._row] > _DOOMED:
                numbers[self._row] += 1
                numbers[_INSIDE] += 1
                numbers[_SERVED] += 1
                numbers[_PEAK] = max(numbers[_PEAK], numbers[_INSIDE])

    def leave(self) -> None:
        """A slot is about to be given back."""
        with self._guarded() as numbers:
            if numbers[self._row] > _DOOMED:
                numbers[self._row] -= 1
                numbers[_INSIDE] -= 1

    @contextmanager
    def doomed(self, row: int) -> Iterator[None]:
        """Within this block the child of that row is killed; none of its holds counts any more."""
        with self._guarded() as numbers:
            held = numbers[_FIRST_ROW + row]
            if held > _DOOMED:
                numbers[_INSIDE] -= held
                numbers[_FIRST_ROW + row] = _DOOMED
            yield

    @property
    def inside(self) -> int:
        """How many hold a slot now."""
        return int(self._numbers[_INSIDE])

    @property
    def peak(self) -> int:
        """The most that ever held a slot at the same time."""
        return int(self._numbers[_PEAK])

    @property
    def served(self) -> int:
        """How many slots were got in all."""
        return int(self._numbers[_SERVED])
