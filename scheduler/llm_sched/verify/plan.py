"""What is going to be done: buckets, phases, and the task of each worker process."""

# Law: pure. Seconds and the machine's abilities in, values out.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from llm_sched.config import Policy, bucket_name

if TYPE_CHECKING:
    from pathlib import Path

Kind = Literal["threads", "tasks", "interrupted"]
"""How a worker makes its calls; `interrupted` makes them in its main thread and is sent SIGINT now and then."""

PROVIDER = "verify"
SHORTEST_S, LONGEST_S = 3.0, 600.0
"""What `--seconds` may be: below, hardly anything would happen."""

_CAP_SHARE = 0.6
_RATE_SHARE = 0.3
"""Of the seconds, for each phase; the rest goes into starting processes and looking at what is left."""


@dataclass(frozen=True, slots=True)
class BucketPlan:
    """One bucket, its limits, and how it is called.

    Attributes:
        model: its name's second part.
        max_in_flight: the cap.
        hold_s: shortest and longest time that a slot is held.
        wait_s: shortest and longest `timeout_s` of most calls; some calls wait for less or not at all.
        requests_per_minute: the rate; 0 = none.
        burst: capacity of the token bucket.
    """

    model: str
    max_in_flight: int
    hold_s: tuple[float, float]
    wait_s: tuple[float, float]
    requests_per_minute: float = 0.0
    burst: float = 1.0

    @property
    def name(self) -> str:
        """The bucket's name in the ledger."""
        return bucket_name({"provider": PROVIDER, "model": self.model})

    def policy(self, state: Path) -> Policy:
        """The policy under which it is called."""
        return Policy(
            max_in_flight=self.max_in_flight,
            requests_per_minute=self.requests_per_minute,
            burst=self.burst,
            state_path=state,
        )


@dataclass(frozen=True, slots=True)
class Task:
    """What one worker process does; goes to it as it is.

    Attributes:
        name: of the worker and its journal.
        kind: how it makes its calls.
        lanes: how many calls it makes at once.
        buckets: lane number n calls the bucket n modulo their number.
        state: the ledger.
        journals: folder for its journal.
        seed: of its random numbers.
        forks: whether it forks while it holds.
    """

    name: str
    kind: Kind
    lanes: int
    buckets: tuple[BucketPlan, ...]
    state: Path
    journals: Path
    seed: int
    forks: bool


@dataclass(frozen=True, slots=True)
class Phase:
    """Workers that run at the same time on one ledger.

    Attributes:
        name: `cap` or `rate`; also the ledger's name.
        seconds: from the moment that all are ready.
        buckets: what they call.
        workers: kind and number of lanes of each.
        kill_every_s: mean seconds from one `kill -9` to the next.
    """

    name: str
    seconds: float
    buckets: tuple[BucketPlan, ...]
    workers: tuple[tuple[Kind, int], ...]
    kill_every_s: float


WIDE = BucketPlan("wide", 4, hold_s=(0.005, 0.03), wait_s=(2.0, 4.0))
NARROW = BucketPlan("narrow", 1, hold_s=(0.002, 0.015), wait_s=(2.0, 4.0))
# Waits are short in here because a grant happened at some time of its wait: the shorter that is, the sharper the proof.
PACED = BucketPlan("paced", 4, hold_s=(0.005, 0.02), wait_s=(0.05, 0.4), requests_per_minute=600.0, burst=10.0)


def phases(seconds: float, *, can_interrupt: bool) -> tuple[Phase, Phase]:
    """The phases of a run, one after the other.

    Args:
        seconds: how long the whole run should take.
        can_interrupt: whether a process of this platform can be sent SIGINT.
    """
    interrupted: tuple[tuple[Kind, int], ...] = (("interrupted", 1),) if can_interrupt else ()
    # 12 lanes on one bucket are more than a process publishes in the ledger, so its inner queue is used too.
    crowd: tuple[tuple[Kind, int], ...] = (("threads", 6), ("tasks", 6), ("threads", 3), ("tasks", 18))
    return (
        Phase("cap", seconds * _CAP_SHARE, (WIDE, NARROW, WIDE), crowd + interrupted, kill_every_s=0.7),
        Phase("rate", seconds * _RATE_SHARE, (PACED,), (("threads", 3), ("tasks", 3), ("threads", 3)), kill_every_s=1.5),
    )
