"""How a call meets the cache: look, lead or follow, ask, store.

The law: written once, as steps that a thread or a task carries out. A leader that brings nothing to store sets its followers
free; a leader that dies hands on the lead. Who holds a slot follows nobody: the leader may be waiting for that very slot.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from llm_sched import borrow
from llm_sched.pipeline.cache_store import CacheError, CacheStore, Entry
from llm_sched.pipeline.exchange import MODEL_TEXT, STOP

if TYPE_CHECKING:
    from llm_sched.pipeline.cache_flights import Flight, Flights

Result = TypeVar("Result")

_LOOK_FIRST_S = 0.01
_LOOK_LAST_S = 0.1
"""How often a follower looks whether its leader is done: a live call takes seconds."""


class Pause(NamedTuple):
    """Let time pass."""

    seconds: float


class Work(NamedTuple):
    """Use the disk, which may block."""

    task: Callable[[], Any]


Steps = Generator[Pause | Work, Any, Result]


def run(steps: Steps[Result]) -> Result:
    """Carry steps out in this thread."""
    try:
        step = next(steps)
        while True:
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                step = next(steps)
            else:
                step = steps.send(step.task())
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        steps.close()


async def run_async(steps: Steps[Result]) -> Result:
    """Carry steps out in this task."""
    try:
        step = next(steps)
        while True:
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                step = next(steps)
            else:
                step = steps.send(await asyncio.to_thread(step.task))
    except StopIteration as end:
        result: Result = end.value
        return result
    finally:
        steps.close()


class Found(NamedTuple):
    """What came of looking: an entry, or the lead of the call, or neither: then the call is on its own."""

    entry: Entry | None = None
    flight: Flight | None = None


class CacheProtocol:
    """The protocol over one store.

    Args:
        store: where answers are.
        flights: the calls in flight; None = identical calls in flight are all made.
        flight_timeout_s: longest wait for a leader, in seconds.
    """

    def __init__(self, store: CacheStore, flights: Flights | None, flight_timeout_s: float) -> None:
        self._store = store
        self._flights = flights
        self._timeout_s = flight_timeout_s

    def find(self, *keys: str) -> Steps[Found]:
        """Look for an entry under any of these keys; the first one names the call.

        Raises:
            CacheError: the store cannot be used.
        """
        since = time.monotonic()
        entry = yield Work(partial(self._store.get, *keys))
        if entry is not None or self._flights is None or borrow.is_inside_slot():
            return Found(entry)
        flight = yield from self._lead(self._flights, keys[0], since + self._timeout_s)
        if flight is None:
            return Found()
        try:
            entry = yield Work(partial(self._store.get, *keys))
            is_free = entry is not None or (yield Work(partial(self._store.is_unstored, keys[0], since)))
        except BaseException:
            flight.end()
            raise
        if is_free:
            flight.end()
            return Found(entry)
        return Found(flight=flight)

    def _lead(self, flights: Flights, key: str, deadline: float) -> Steps[Flight | None]:
        pause = _LOOK_FIRST_S
        while True:
            flight: Flight | None = yield Work(partial(flights.try_to_lead, key))
            if flight is not None or time.monotonic() >= deadline:
                return flight
            yield Pause(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            pause = min(2 * pause, _LOOK_LAST_S)

    def settle(self, key: str, flight: Flight | None, result: object) -> Steps[None]:
        """Store a live result if it is a final answer, and end the flight."""
        try:
            if is_final(result):
                entry = Entry(text_of(result), usage_of(result))
                yield Work(partial(_quietly, partial(self._store.put, key, entry)))
            elif flight is not None:
                yield Work(partial(_quietly, partial(self._store.mark_unstored, key)))
        finally:
            if flight is not None:
                flight.end()

    def abandon(self, key: str, flight: Flight | None, error: BaseException) -> Steps[None]:
        """End the flight of a call that broke off; after a cancellation or Ctrl-C the next one leads."""
        if flight is None:
            return
        try:
            if isinstance(error, Exception):
                yield Work(partial(_quietly, partial(self._store.mark_unstored, key)))
        finally:
            flight.end()


def _quietly(task: Callable[[], None]) -> None:
    try:
        task()
    except CacheError as error:
        logging.getLogger("llm_sched").warning("an answer was not cached: %s", error)


def is_final(result: object) -> bool:
    """Whether a result is a final text answer, complete and not empty."""
    return (
        getattr(result, "response_kind", None) == MODEL_TEXT
        and getattr(result, "next_step", None) == STOP
        and bool(text_of(result))
        and not any(getattr(result, name, None) for name in ("tool_calls", "tool_name", "parallel_tools"))
        and getattr(result, "finish_reason", None) in {None, "", "stop"}
    )


def text_of(result: object) -> str:
    """A result's text."""
    text: object = getattr(result, "text", "")
    return text if isinstance(text, str) else ""


def usage_of(result: object) -> dict[str, int]:
    """A result's token counts, as far as there are any."""
    usage: Any = getattr(result, "usage", None)
    items: Any = usage.items() if hasattr(usage, "items") else ()
    return {str(name): count for name, count in items if isinstance(count, int)}
