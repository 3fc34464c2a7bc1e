"""A call, from its start to its release, as this process knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from llm_sched.mailbox import call_text
from llm_sched.model import LimitKind, Ticket

if TYPE_CHECKING:
    from llm_sched.config import Target
    from llm_sched.loops import LoopDoor


class Occupancy(NamedTuple):
    """How full a bucket was at some moment; `oldest` describes its oldest holder, `holders` are the traces of them all."""

    ahead: int
    in_flight: int
    limit: int
    waits_for: LimitKind
    oldest: str
    holders: tuple[str, ...] = ()


class Call:
    """One call: waiting, then holding.

    Attributes:
        keys: the bucket's key/value pairs; `bucket` is its name; `labels` are all that is known, also what is no key.
        owner: id of the owner that made it; `number` is unique within that.
        at: when the call was made; `deadline` when it gives up (`inf` = never).
        cell: its cell in the owner's mailbox; -1 = none.
        cleared: the mailbox says that it is over.
        bell: the last ring that its task was woken for.
        door: how its event loop is rung; None = a thread waits.
        granted: the slot is there; turns true once.
        announced: it has asked to be taken in.
        over: it was given up; nobody is to take it in any more.
        clash: the keys for which the bucket's name is already in use; None = none but its own.
        waited_s: how long it took.
        seen: how full the bucket was when it had to wait.
    """

    __slots__ = (
        "announced",
        "at",
        "bell",
        "bucket",
        "cell",
        "clash",
        "cleared",
        "deadline",
        "door",
        "granted",
        "keys",
        "keys_data",
        "labels",
        "number",
        "over",
        "owner",
        "seen",
        "traceparent",
        "waited_s",
    )

    def __init__(self, target: Target, owner: str, number: int, at: float, timeout_s: float) -> None:
        self.owner = owner
        self.keys, self.bucket, self.keys_data, self.labels = target
        self.number = number
        self.at = at
        self.deadline = at + timeout_s
        self.cell = -1
        self.cleared = False
        self.bell = b"0000"
        self.door: LoopDoor | None = None
        self.granted = False
        self.announced = False
        self.over = False
        self.clash: dict[str, str] | None = None
        self.waited_s = 0.0
        self.traceparent = ""
        self.seen: Occupancy | None = None

    @property
    def loop(self) -> int:
        """Number of the loop to ring; 0 = a thread waits."""
        return self.door.number if self.door else 0

    def text(self) -> bytes:
        """The call as it stands in its cell."""
        return call_text(self.number, self.loop, self.at, self.keys_data)

    def ticket(self) -> Ticket:
        """The call as the ledger lists it."""
        deadline = round(self.deadline, 3) if self.deadline < float("inf") else 0.0
        return Ticket(self.owner, self.number, round(self.at, 6), self.cell, self.loop, 0.0, deadline, self.traceparent)


def by_time(call: Call) -> tuple[float, int]:
    """The order of calls within a process."""
    return (call.at, call.number)
