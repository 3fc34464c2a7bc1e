"""Evidence made up for tests: all is well, unless a test says otherwise."""

from __future__ import annotations

from llm_sched.verify.account import Call, End
from llm_sched.verify.leftovers import Leftovers
from llm_sched.verify.plan import BucketPlan
from llm_sched.verify.storm import Aftermath
from llm_sched.verify.verdict import Evidence

TWO = BucketPlan("two", 2, hold_s=(0.0, 0.0), wait_s=(1.0, 1.0))
RATED = BucketPlan("rated", 4, hold_s=(0.0, 0.0), wait_s=(1.0, 1.0), requests_per_minute=60.0, burst=2.0)


def hold(begin: float, until: float, *, asked: float | None = None, queued: float | None = None, process: str = "a") -> Call:
    """A call that held; it asked when it was granted, unless told otherwise."""
    return killed_or(begin, until, "released", asked, queued, process)


def killed(begin: float, until: float, *, asked: float | None = None) -> Call:
    """A call whose process was killed at `until`."""
    return killed_or(begin, until, "killed", asked, None, "k")


def killed_or(begin: float, until: float, end: End, asked: float | None, queued: float | None, process: str) -> Call:
    """A call that held."""
    return Call(
        process=process,
        bucket=TWO.name,
        asked=begin if asked is None else asked,
        timeout_s=10.0,
        queued=queued,
        granted=begin,
        held_until=until,
        end=end,
    )


def wait(asked: float, until: float, *, queued: float | None = None, process: str = "a", gave_up: float | None = None) -> Call:
    """A call that waited in vain."""
    end: End = "timed_out" if gave_up else "canceled"
    return Call(
        process=process,
        bucket=TWO.name,
        asked=asked,
        timeout_s=until - asked,
        queued=queued,
        waited_until=until,
        gave_up=gave_up,
        end=end,
    )


def rated(asked: float, granted: float) -> Call:
    """A grant in the bucket with a rate."""
    return Call(
        process="a", bucket=RATED.name, asked=asked, timeout_s=10.0, granted=granted, held_until=granted + 0.01, end="released"
    )


def evidence(
    *calls: Call,
    bucket: BucketPlan = TWO,
    leftovers: Leftovers | None = None,
    failures: tuple[str, ...] = (),
    unclean: tuple[str, ...] = (),
    crashed: tuple[str, ...] = (),
    remaining: tuple[str, ...] = (),
    stalled_s: float = 0.0,
) -> Evidence:
    """A phase with these calls."""
    aftermath = Aftermath(
        killed={}, crashed=crashed, interrupts=0, remaining=remaining, stall_s=stalled_s, stalled_s=stalled_s, seconds=10.0
    )
    return Evidence(
        phase="test",
        buckets=(bucket,),
        calls=calls,
        aftermath=aftermath,
        leftovers=leftovers or Leftovers(),
        failures=failures,
        unclean=unclean,
        clean=1,
        forks=0,
    )
