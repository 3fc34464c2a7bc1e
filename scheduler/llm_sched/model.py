"""The words of the scheduler as values; everything else passes these around.

Values are frozen. `State`, `Bucket`, `Member` and `Totals` are the ledger as one transaction sees it: a transaction
owns its freshly decoded copy and updates it in place; nobody keeps one after the lock is freed.
Times are seconds of the boot's monotonic clock unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Literal

import msgspec

SCHEMA = 1
"""Version of the ledger's format. A file with a larger one is refused, untouched."""

WAIT_BOUNDARIES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds (s) of the wait histogram's cells; one more cell counts what is above."""

LimitKind = Literal["none", "in_flight", "rate", "policy"]
"""What keeps the head of a queue waiting; `policy` is another process's stricter cap or rate."""


FOREVER_S = 1e12
"""A `timeout_s` of `inf` in the ledger: JSON knows no infinity."""


class Terms(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a policy that others must obey while its owner holds or waits in a bucket.

    `max_in_flight` 0 = no cap; `requests_per_minute` 0 = no rate; `burst` in requests; `max_hold_s` 0 = for ever.
    """

    max_in_flight: int = 8
    requests_per_minute: float = 0.0
    burst: float = 1.0
    max_hold_s: float = 0.0
    fair_by: str = ""
    timeout_s: float = 300.0
    source: str = "default"


class Owner(msgspec.Struct, frozen=True, omit_defaults=True):
    """One live process's participation in one ledger.

    `pid` is the number in the pid namespace `pid_ns` (the namespace file's inode); `started` is the kernel's
    start time of the process in clock ticks, 0 where the platform has none.
    """

    pid: int
    user: str = "default"
    command: str = ""
    pid_ns: int = 0
    started: int = 0


class Ticket(msgspec.Struct, frozen=True, omit_defaults=True):
    """A published place in a bucket's queue.

    `number` is unique within its owner. `at` is when the call was made: the queue's order. `cell` and `loop`
    say where the owner wants to be rung. `due` is when the owner has been told that its rate token comes; 0 = not told.
    """

    owner: str
    number: int
    at: float
    cell: int
    loop: int = 0
    due: float = 0.0
    deadline: float = 0.0
    traceparent: str = ""


class Lease(msgspec.Struct, frozen=True, omit_defaults=True):
    """A slot that is held, `since` the grant, after `waited` seconds; `cell` lists it in the owner's mailbox.

    `paid` is by how much its rate token moved the bucket's `tat` on, in seconds; 0 = there was no rate.
    """

    owner: str
    number: int
    since: float
    waited: float
    cell: int
    loop: int = 0
    traceparent: str = ""
    paid: float = 0.0


class Member(msgspec.Struct, omit_defaults=True):
    """What one owner has in one bucket: its terms (index into `Bucket.terms`), how many wait and hold, grants so far.

    `waiting` counts published tickets, `backlog` those that the owner still keeps to itself.
    """

    terms: int = 0
    waiting: int = 0
    backlog: int = 0
    held: int = 0
    granted: int = 0


class Totals(msgspec.Struct, omit_defaults=True):
    """Counters since the bucket's first call; `waits` are histogram counts per cell of `WAIT_BOUNDARIES`."""

    granted: int = 0
    timed_out: int = 0
    canceled: int = 0
    reclaimed: int = 0
    wait_s: float = 0.0
    waits: list[int] = []


class Bucket(msgspec.Struct, omit_defaults=True):
    """All that one limit applies to.

    `queue` is sorted by (`at`, owner, number). `tat` is the token bucket's theoretical arrival time, told under `rate`
    (requests per minute; 0 = never under any) and `burst`.
    `turns` remembers, per user, the number of the grant that was the user's last; used with `fair_by: user` only.
    """

    keys: dict[str, str]
    leases: list[Lease] = []
    queue: list[Ticket] = []
    members: dict[str, Member] = {}
    terms: list[Terms] = []
    tat: float = 0.0
    active: float = 0.0
    totals: Totals = msgspec.field(default_factory=Totals)
    turns: dict[str, int] = {}
    rate: float = 0.0
    burst: float = 0.0


class State(msgspec.Struct):
    """The whole ledger. `clock` is the latest monotonic time anyone has written: time never runs backwards in it.

    `origin` says what the ledger grew from (`new`, `rebuilt`): a rebuilt one takes its token buckets for empty at
    `since`. `ident` is drawn when a ledger is made: owners that see another one look which of their calls it lists.
    """

    ident: str
    boot: str
    machine: str
    owners: MutableMapping[str, Owner]
    buckets: MutableMapping[str, Bucket]
    seq: int = 0
    clock: float = 0.0
    updated_at: float = 0.0
    origin: str = "new"
    since: float = 0.0


class Grant(msgspec.Struct, frozen=True):
    """A ticket that became a lease; the owner must be rung at `lease.cell` / `lease.loop`."""

    bucket: str
    lease: Lease


class Due(msgspec.Struct, frozen=True):
    """The head of the queue waits for a rate token until `ticket.due`, and has not been told so yet."""

    bucket: str
    ticket: Ticket


EventKind = Literal["queued", "granted", "released", "timed_out", "canceled", "reclaimed", "overdue", "refused"]


class Event(msgspec.Struct, frozen=True):
    """One fact about the ledger, for observers. `seconds`: the wait, or how long a slot had been held."""

    kind: EventKind
    bucket: str
    owner: str
    number: int
    seconds: float = 0.0
    limit: LimitKind = "none"


class Transition(msgspec.Struct):
    """What a rule did: who got a slot, who must be told to wait for a token, what happened. Collected, not returned."""

    grants: list[Grant] = []
    dues: list[Due] = []
    events: list[Event] = []
    changed: bool = False


class Decision(msgspec.Struct, frozen=True):
    """May the head of the queue go? If not: what it waits for, and until when (0 = nobody can tell)."""

    admit: bool
    limit: LimitKind = "none"
    due: float = 0.0


class Claim(msgspec.Struct, frozen=True):
    """A call that a living owner's mailbox lists: what a lost ledger is made again from."""

    owner: str
    terms: Terms
    keys: dict[str, str]
    number: int
    loop: int
    at: float
    cell: int
    held: bool
