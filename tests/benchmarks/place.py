# Where one measurement happens: everything that a worker process needs to meet the others. Values only.
"""The address at which the processes of one measurement meet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a worker process is told before it connects to a peer.

    Parameters: `folder` is private to this place; `name` is unique on the machine; `cap` is in slots (0 = none);
    `waiters` is how many threads will wait at most, for peers that choose their poll interval by it; `rpm` and
    `burst` pace our scheduler only; `address` is where the peer's server listens, when it has one.
    """

    folder: str
    name: str
    cap: int
    waiters: int
    rpm: float = 0
    burst: int = 1
    address: str = ""
