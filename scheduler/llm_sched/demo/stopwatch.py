"""The times of one call, from asking for a slot to the end of the answer."""

# Law: notes times and makes the record. It may know neither openai nor how a slot is obtained.

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from llm_sched.demo.messages import CallRecord, Failure

if TYPE_CHECKING:
    from collections.abc import Callable


class Paced(Protocol):
    """What a call wants to know of its slot."""

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        ...

    @property
    def waited_s(self) -> float:
        """Seconds waited for the slot."""
        ...


@dataclass(frozen=True, slots=True)
class Unpaced:
    """The slot of a call that was made without a scheduler."""

    bucket: str = ""
    waited_s: float = 0.0


class Stopwatch:
    """Runs from its construction, just before the slot is asked for."""

    def __init__(self, worker: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Start. `worker` is who makes the call, `clock` seconds of CLOCK_MONOTONIC."""
        self._worker = worker
        self._clock = clock
        self._slot: Paced = Unpaced()
        self._asked_s = clock()
        self._granted_s: float | None = None
        self._ended_s: float | None = None

    def granted(self, slot: Paced) -> None:
        """Note that the slot is there."""
        self._granted_s = self._clock()
        self._slot = slot

    def ended(self) -> None:
        """Note that the answer is complete, or that there will be none; the slot is still held."""
        self._ended_s = self._clock()

    def record(self, failure: Failure | None) -> CallRecord:
        """The call as it is reported; a call that never got its slot has waited until now."""
        now = self._clock()
        return CallRecord(
            worker=self._worker,
            asked_s=self._asked_s,
            granted_s=self._granted_s,
            ended_s=now if self._ended_s is None else self._ended_s,
            waited_s=now - self._asked_s if self._granted_s is None else self._slot.waited_s,
            bucket=self._slot.bucket,
            failure=failure,
        )
