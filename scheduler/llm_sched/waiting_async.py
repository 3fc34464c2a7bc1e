"""The driver of `waiting.steps` for asyncio. A module of its own, so that threads never pay for importing asyncio."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from llm_sched.store import BusyError
from llm_sched.waiting import LONGEST_NAP_S, Park, Run, wake_time

if TYPE_CHECKING:
    from llm_sched.calls import Call
    from llm_sched.participant import Participant
    from llm_sched.waiting import Steps

_BACKOFF_S = (0.0002, 0.004)


async def drive_async(plan: Steps, part: Participant, call: Call) -> None:
    """Obey the steps in a task."""
    try:
        step = next(plan)
        while True:
            try:
                if isinstance(step, Run):
                    await _run_async(step, part, call)
                else:
                    await _sleep_async(step, part)
            except BaseException as error:  # noqa: BLE001 - the steps decide, and raise it again
                step = plan.throw(error)
            else:
                step = next(plan)
    except StopIteration:
        return


async def _run_async(step: Run, part: Participant, call: Call) -> None:
    if call.door is None:
        raise AssertionError
    pause, longest = _BACKOFF_S
    while True:
        await call.door.turn()
        try:
            step.transaction(None)
        except BusyError:
            if call.granted:  # another thread's transaction took the call in
                return
            if part.clock.now() >= step.deadline:
                raise
        else:
            return
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
        pause = min(pause * 2, longest)


async def _sleep_async(step: Park, part: Participant) -> None:
    call = step.call
    if call.door is None:
        raise AssertionError
    until = wake_time(part.mailroom.look(call.cell), step.until)
    await call.door.park(call, min(max(0.0, until - part.clock.now()), LONGEST_NAP_S))
