"""One phase: workers at work, killed and interrupted at random instants."""

# Law: decides when what happens to whom; how it is done is in `crew`.

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from llm_sched.errors import SchedulerError
from llm_sched.verify.crew import Crew, renamed
from llm_sched.verify.plan import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from llm_sched.verify.plan import Phase

_START_WITHIN_S = 60.0
_END_WITHIN_S = 15.0
_TURN_S = 0.02
_STALL_S = 0.01
"""Less is what every sleep takes longer."""

_LAST_KILL_S = 0.2
"""Who is killed later than this before the end is not replaced."""

_REPLACE_AFTER_S = 0.2
_INTERRUPT_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What the parent knows when a phase is over.

    Attributes:
        killed: when each killed worker was killed, by name.
        crashed: workers that ended badly by themselves.
        interrupts: SIGINTs sent.
        remaining: workers of which a process was still there.
        stall_s: by how much the machine, or its disk, made this process late, at most.
        stalled_s: the same in all: how long nothing could be expected of the workers either.
        seconds: how long the workers worked.
    """

    killed: Mapping[str, float]
    crashed: tuple[str, ...]
    interrupts: int
    remaining: tuple[str, ...]
    stall_s: float
    stalled_s: float
    seconds: float


class Storm:
    """Runs one phase.

    Args:
        phase: what to do.
        state: the ledger.
        journals: folder for the workers' journals.
        seed: of everything that is random.
        progress: told now and then how much of the phase is over, from 0 to 1.
    """

    def __init__(self, phase: Phase, state: Path, journals: Path, seed: int, progress: Callable[[float], None]) -> None:
        self._phase = phase
        self._state = state
        self._journals = journals
        self._seed = seed
        self._progress = progress
        self._random = Random(f"{seed}/{phase.name}")  # noqa: S311 - no secrets
        self._stall_s = self._stalled_s = 0.0
        self._probe = -1

    def run(self) -> Aftermath:
        """Let it happen, and return when all processes are gone or had their time to go.

        Raises:
            SchedulerError: the workers did not start.
        """
        with Crew() as crew, self._probing():
            for task in self._tasks():
                crew.start(task)
            self._wait_until_ready(crew)
            began = time.monotonic()
            until = began + self._phase.seconds
            crew.work_until(until)
            self._disturb(crew, began, until)
            remaining = crew.still_there(_END_WITHIN_S)
            if not remaining:
                crew.look_at_ends()
            return Aftermath(
                dict(crew.killed),
                tuple(crew.crashed),
                crew.interrupts,
                tuple(remaining),
                self._stall_s,
                self._stalled_s,
                self._phase.seconds,
            )

    @contextlib.contextmanager
    def _probing(self) -> Generator[None]:
        self._probe = os.open(self._journals / "probe", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            yield
        finally:
            os.close(self._probe)

    def _tasks(self) -> list[Task]:
        return [
            Task(
                name=f"{self._phase.name}-{number}-{kind}",
                kind=kind,
                lanes=lanes,
                buckets=self._phase.buckets,
                state=self._state,
                journals=self._journals,
                seed=self._seed + number,
                forks=kind == "threads" and hasattr(os, "fork"),
            )
            for number, (kind, lanes) in enumerate(self._phase.workers)
        ]

    def _wait_until_ready(self, crew: Crew) -> None:
        deadline = time.monotonic() + _START_WITHIN_S
        while not crew.all_ready(0.2):
            self._progress(0.0)
            if time.monotonic() > deadline:
                raise SchedulerError(f"the workers did not start within {_START_WITHIN_S:.0f} s; is this machine overloaded?")
        if crew.crashed:
            raise SchedulerError("; ".join(crew.crashed))

    def _disturb(self, crew: Crew, began: float, until: float) -> None:
        killing, interrupting = self._soon(self._phase.kill_every_s), self._soon(_INTERRUPT_EVERY_S)
        replacing: list[tuple[float, Task]] = []
        number = 0
        while (now := self._turn()) < until:
            self._progress((now - began) / (until - began))
            if now >= killing and crew.names:
                killing = self._soon(self._phase.kill_every_s)
                number += 1
                task = renamed(crew.kill(self._random.choice(crew.names)), number)
                replacing.append((now + self._random.uniform(0, _REPLACE_AFTER_S), task))
            if now >= interrupting and crew.interruptible:
                interrupting = self._soon(_INTERRUPT_EVERY_S)
                crew.interrupt(self._random.choice(crew.interruptible))
            while replacing and replacing[0][0] <= now < until - _LAST_KILL_S:
                _, task = replacing.pop(0)
                crew.start(task)
                crew.work_until(until, task.name)

    def _soon(self, mean_s: float) -> float:
        return time.monotonic() + self._random.uniform(0.2, 1.8) * mean_s

    def _turn(self) -> float:
        before = time.monotonic()
        time.sleep(_TURN_S)
        os.write(self._probe, b".")  # a disk that is busy with something else stalls the ledger as well
        now = time.monotonic()
        late = now - before - _TURN_S
        if late > _STALL_S:
            self._stall_s, self._stalled_s = max(self._stall_s, late), self._stalled_s + late
        return now
