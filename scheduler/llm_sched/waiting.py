"""How a call waits, written once as steps; a driver for threads and one for asyncio obey them.

The law: ask once; then sleep to the moment the cell names (a token's due time), the deadline, or a ring. Whatever
interrupts, the call is taken out before the interruption goes on. May not know files, locks or rules.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from llm_sched.errors import LedgerError, SlotTimeout
from llm_sched.store import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from llm_sched.calls import Call
    from llm_sched.host import Clock
    from llm_sched.mailbox import Word
    from llm_sched.participant import Participant

_LOCK_PATIENCE_S = 1.0
"""How long a call that does not want to wait for a slot tries for the ledger's lock."""

_LAST_LOOK_S = 0.25
_MAIN_THREAD_NAP_S = 0.5
"""A signal that arrives just before the main thread falls asleep is served after at most this long."""

LONGEST_NAP_S = 3600.0
"""Nobody sleeps longer in one go: C libraries take no infinite time-outs."""


class Run(NamedTuple):
    """Step: run a transaction; give up at `deadline` (the clock's time) if the lock cannot be had."""

    transaction: Callable[[float | None], None]
    deadline: float


class Park(NamedTuple):
    """Step: sleep until the call is rung, or `until`."""

    call: Call
    until: float


Steps: TypeAlias = "Generator[Run | Park, None, None]"


def steps(part: Participant, call: Call, *, once: bool, on_wait: Callable[[], None], discard: Callable[[Call], None]) -> Steps:
    """The steps of acquiring a slot for `call`; returns when it is granted.

    Args:
        part: whose call it is.
        call: a new call with its deadline.
        once: do not queue.
        on_wait: called when the call has to wait.
        discard: takes the call out in whatever state it is; must not block an event loop nor raise.

    Raises:
        SlotTimeout: no slot within the call's time, or the lock was stuck.
        LedgerError: the ledger cannot be used.
    """
    try:
        patience = max(call.deadline, call.at + _LOCK_PATIENCE_S)
        yield Run(partial(part.ask, call, once=once), patience)
        if not call.granted and not once:
            on_wait()
            yield from _wait(part, call)
        if not call.granted:
            raise timeout_error(call, part.clock.now())  # noqa: TRY301 - goes the way of every failure: discarded
        if part.roll.runs_low(call.bucket):
            with suppress(BusyError, LedgerError):  # the next release does it as well
                yield Run(partial(part.top_up, call.bucket), part.clock.now() + _LAST_LOOK_S)
    except LedgerError:
        if call.cell < 0:
            call.over = True  # it never came to stand anywhere
        discard(call)
        raise
    except BusyError as error:
        discard(call)
        raise _stuck_error(call, part.clock.now(), error.holder) from None
    except BaseException:
        discard(call)
        raise


def _wait(part: Participant, call: Call) -> Steps:
    while not call.granted:
        part.check_open()
        now = part.clock.now()
        if now >= call.deadline:
            yield Run(partial(part.time_out, call), now + _LAST_LOOK_S)
            return
        due = part.mailroom.look(call.cell).due
        if due and now >= due:
            yield Run(partial(part.retry, call), call.deadline + _LAST_LOOK_S)
        else:
            yield Park(call, min(due or call.deadline, call.deadline))


def timeout_error(call: Call, now: float) -> SlotTimeout:
    """Say which bucket was full, how full, who was ahead and who has held longest."""
    waited = max(0.0, now - call.at)
    seen = call.seen
    if seen is None:
        return SlotTimeout(f"no slot in bucket {call.bucket} after {waited:.1f} s", bucket=call.bucket, waited_s=waited)
    reason = {
        "rate": "its requests per minute are used up",
        "policy": "another process's stricter policy is full",
    }.get(seen.waits_for, f"{seen.in_flight} of {seen.limit} slots were in use")
    oldest = f"; the oldest holder is {seen.oldest}" if seen.oldest else ""
    message = (
        f"no slot in bucket {call.bucket} after {waited:.1f} s: {reason}, {seen.ahead} ahead in the queue{oldest}. "
        "Raise timeout_s or max_in_flight, or look with `llm-sched status`"
    )
    return SlotTimeout(
        message, bucket=call.bucket, waited_s=waited, in_flight=seen.in_flight, limit=seen.limit, ahead=seen.ahead
    )


def _stuck_error(call: Call, now: float, holder: int) -> SlotTimeout:
    waited = max(0.0, now - call.at)
    who = f"process {holder} holds it (stopped?)" if holder else "another process holds it (stopped?)"
    message = f"no slot in bucket {call.bucket} after {waited:.1f} s: the ledger's lock could not be had; {who}"
    return SlotTimeout(message, bucket=call.bucket, waited_s=waited)


def drive(plan: Steps, part: Participant) -> None:
    """Obey the steps in a thread."""
    try:
        step = next(plan)
        while True:
            try:
                if isinstance(step, Run):
                    step.transaction(_monotonic(step.deadline, part.clock))
                else:
                    _sleep(step, part)
            except BaseException as error:  # noqa: BLE001 - the steps decide, and raise it again
                step = plan.throw(error)
            else:
                step = next(plan)
    except StopIteration:
        return


def _monotonic(deadline: float, clock: Clock) -> float:
    """A deadline of the ledger's clock as one of `time.monotonic()`: the same, except under a test's clock."""
    return time.monotonic() + deadline - clock.now()


def _sleep(step: Park, part: Participant) -> None:
    is_main = threading.current_thread() is threading.main_thread()
    longest = _MAIN_THREAD_NAP_S if is_main else LONGEST_NAP_S
    call = step.call
    while not call.granted and not part.closed:
        word = part.mailroom.look(call.cell)
        if word.state == b"held":
            part.arrived(call)
            return
        left = wake_time(word, step.until) - part.clock.now()
        if left <= 0:
            return
        part.mailroom.sleep(call.cell, word, min(left, longest))


def wake_time(word: Word, until: float) -> float:
    """When to wake up unrung: at `until`, or when the token is due that the cell names."""
    return min(word.due, until) if word.due else until
