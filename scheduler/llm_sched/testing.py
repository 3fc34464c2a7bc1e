"""Fakes for tests of programs that use llm-sched: no file, no waiting for a clock, everything that happened written down.

    clock = JumpClock()
    scheduler = Scheduler(Policy(), store=MemoryStore(), mailroom=MemoryMailroom(clock), clock=clock)

The law: the fakes take only the place of the machine; rules, steps and drivers are the real ones. A second scheduler of the
same ledger gets the same store and `mailroom.neighbour()`.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import TYPE_CHECKING

from llm_sched import host
from llm_sched.mailbox import Word
from llm_sched.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from llm_sched.mailroom import Header
    from llm_sched.model import Event, EventKind, Owner

__all__ = ["JumpClock", "MemoryMailroom", "MemoryStore", "RecordingObserver"]


class JumpClock(host.Clock):
    """Clocks that stand still until somebody moves them.

    Args:
        now: first reading of the monotonic clock, in seconds.
        wall: first reading of the wall clock, in seconds since the epoch.
    """

    def __init__(self, now: float | None = None, wall: float = 1_700_000_000.0) -> None:
        self._now = time.monotonic() if now is None else now
        self._wall = wall
        self._jumped: list[Callable[[], None]] = []

    def now(self) -> float:
        """See `Clock`."""
        return self._now

    def wall(self) -> float:
        """See `Clock`."""
        return self._wall

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks and wake whoever sleeps; a negative number is a broken clock that steps back."""
        self._now += seconds
        self._wall += seconds
        for jumped in list(self._jumped):
            jumped()

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock on or back, as somebody who corrects a machine's time does; no time passes."""
        self._wall += seconds

    def on_jump(self, jumped: Callable[[], None]) -> None:
        """Have `jumped` called after each `advance`."""
        self._jumped.append(jumped)


class RecordingObserver:
    """Remembers every event.

    Attributes:
        events: all events, oldest first.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_events(self, events: Sequence[Event]) -> None:
        """See `llm_sched.observer.Observer`."""
        self.events.extend(events)

    def kinds(self) -> list[EventKind]:
        """What happened, in order."""
        return [event.kind for event in self.events]


class _Box:
    """One owner's cells, and the pipes (reader, writer) on which its loops listen."""

    def __init__(self, pipes: dict[int, tuple[int, int]]) -> None:
        self.words: dict[int, Word] = {}
        self.pipes = pipes

    def ring_cell(self, cell: int, state: bytes, due: float) -> None:
        """News in a cell, and another bell."""
        bell = (int(self.words[cell].bell, 16) + 1) & 0xFFFF
        self.words[cell] = Word(b"%04x" % bell, state, due)

    def ring_loop(self, loop: int) -> None:
        """Make the loop's descriptor readable."""
        if loop in self.pipes:
            try:
                os.write(self.pipes[loop][1], b"!")
            except BlockingIOError:  # full: it has been rung often enough
                return


def _close(pipes: dict[int, tuple[int, int]]) -> None:
    for ends in pipes.values():
        for fd in ends:
            os.close(fd)


class _Post:
    """The boxes of all owners of one ledger in memory; `rung` guards them and wakes sleeping threads."""

    def __init__(self) -> None:
        self.boxes: dict[str, _Box] = {}
        self.rung = threading.Condition()

    def wake_all(self) -> None:
        """The clock has jumped: everybody looks again."""
        with self.rung:
            for box in self.boxes.values():
                for cell, word in box.words.items():
                    if word.state == b"wait":
                        box.ring_cell(cell, word.state, word.due)
                for loop in box.pipes:
                    box.ring_loop(loop)
            self.rung.notify_all()


class MemoryMailroom:
    """Mailboxes in memory, for threads and loops of one process; an owner lives until it leaves or is killed by `kill`.

    A sleeper wakes when it is rung or when `clock` jumps, never by itself: tests do not wait for time.

    Args:
        clock: the scheduler's clock.
    """

    def __init__(self, clock: JumpClock) -> None:
        self._set_up(_Post())
        clock.on_jump(self._post.wake_all)

    def _set_up(self, post: _Post) -> None:
        self._post = post
        self._box = _Box({})
        self._id = ""
        # Not in `leave`, nor when the interpreter ends: a watch may still be listening.
        weakref.finalize(self, _close, self._box.pipes).atexit = False

    def neighbour(self) -> MemoryMailroom:
        """The mailroom for another scheduler that shares the ledger."""
        other = MemoryMailroom.__new__(MemoryMailroom)
        other._set_up(self._post)  # noqa: SLF001 - its own kind
        return other

    def kill(self) -> None:
        """As if this owner's process had died: from now on nobody takes it for alive."""
        self._post.boxes.pop(self._id, None)

    def join(self, owner_id: str, header: Header, known: Collection[str]) -> None:  # noqa: ARG002 - the protocol's
        """See `llm_sched.mailroom.Mailroom`."""
        with self._post.rung:
            self._id = owner_id
            self._post.boxes.setdefault(owner_id, self._box)

    def leave(self) -> None:
        """See `llm_sched.mailroom.Mailroom`."""
        with self._post.rung:
            self._post.boxes.pop(self._id, None)
            self._box = _Box(self._box.pipes)
            self._post.rung.notify_all()

    def take(self) -> int:
        """See `llm_sched.mailroom.Mailroom`."""
        with self._post.rung:
            words = self._box.words
            cell = next((cell for cell in range(len(words)) if words[cell].state == b"free"), len(words))
            words[cell] = Word(b"0000", b"took", 0.0)
            return cell

    def write(self, cell: int, state: bytes, call: bytes) -> None:  # noqa: ARG002 - the protocol's
        """See `llm_sched.mailroom.Mailroom`."""
        with self._post.rung:
            self._box.words[cell] = Word(b"0000", state, 0.0)

    def clear(self, cell: int) -> None:
        """See `llm_sched.mailroom.Mailroom`."""
        with self._post.rung:
            if cell in self._box.words:
                self._box.words[cell] = Word(b"0000", b"free", 0.0)

    def free(self, cell: int) -> None:
        """See `llm_sched.mailroom.Mailroom`; cells are never used twice here."""

    def in_use(self) -> int:
        """How many cells are taken: 0 when nothing was forgotten."""
        return sum(word.state != b"free" for word in self._box.words.values())

    def look(self, cell: int) -> Word:
        """See `llm_sched.mailroom.Mailroom`."""
        return self._box.words[cell]

    def sleep(self, cell: int, word: Word, timeout: float) -> None:  # noqa: ARG002 - the clock decides
        """See `llm_sched.mailroom.Mailroom`."""
        box = self._box
        with self._post.rung:
            self._post.rung.wait_for(lambda: box is not self._box or box.words[cell].bell != word.bell)

    def deliver(self, owner_id: str, cell: int, loop: int, news: Word, seq: int) -> None:  # noqa: ARG002 - the protocol's
        """See `llm_sched.mailroom.Mailroom`."""
        with self._post.rung:
            box = self._post.boxes.get(owner_id)
            if box and cell in box.words:
                box.ring_cell(cell, news.state, news.due)
                if loop:  # 0 is a thread; the watch listens at that number, for nudges only
                    box.ring_loop(loop)
                self._post.rung.notify_all()

    def nudge(self, owner_id: str) -> None:
        """See `llm_sched.mailroom.Mailroom`."""
        with self._post.rung:
            box = self._post.boxes.get(owner_id)
            if box:
                box.ring_loop(0)

    def listen(self, loop: int) -> int:
        """See `llm_sched.mailroom.Mailroom`."""
        with self._post.rung:
            if loop not in self._box.pipes:
                reader, writer = os.pipe()
                os.set_blocking(reader, False)
                os.set_blocking(writer, False)
                self._box.pipes[loop] = (reader, writer)
            return self._box.pipes[loop][0]

    def is_alive(self, owner_id: str, owner: Owner) -> bool:  # noqa: ARG002 - the protocol's
        """See `llm_sched.mailroom.Mailroom`."""
        return owner_id in self._post.boxes

    def is_intact(self) -> bool:
        """See `Mailroom`."""
        return True

    def forget(self, gone: Collection[str]) -> None:
        """See `llm_sched.mailroom.Mailroom`."""
        with self._post.rung:
            for owner_id in gone:
                self._post.boxes.pop(owner_id, None)
