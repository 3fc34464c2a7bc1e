"""The crew of an experiment: tasks handed out once, workers that die replaced, and none left at the end."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import lab_bodies
import pytest

from llm_sched.lab import crew as crew_module
from llm_sched.lab.crew import MOST_DEATHS, Crew, WorkError
from llm_sched.lab.messages import Outcome, Setup, Task

LONGEST_S = 60.0
SETUP = Setup(0, (), Path(), (), None, lanes=2)


def tasks(*prompts: str) -> list[Task]:
    """Tasks, named by their numbers."""
    return [Task(("s", str(n), 1), prompt, {}, cacheable=True, digest="d") for n, prompt in enumerate(prompts)]


def run(todo: Sequence[Task], workers: int = 2) -> tuple[list[Outcome], set[int]]:
    """Let a crew do tasks; return what came of them, and all its processes."""
    outcomes: list[Outcome] = []
    pids: set[int] = set()
    end = time.monotonic() + LONGEST_S
    with Crew(SETUP, workers, todo) as crew:
        while not crew.is_done:
            assert time.monotonic() < end, outcomes
            pids |= crew.pids
            outcomes += crew.collect(0.1)
        crew.finish()
    assert not crew.pids
    return outcomes, pids


def is_gone(pid: int) -> bool:
    """Whether a child has ended and been reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.fixture
def mortal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that answer without any model."""
    monkeypatch.setattr(crew_module, "main", lab_bodies.mortal)


def test_every_task_has_one_outcome_and_no_worker_is_left(mortal: None) -> None:
    """More tasks than lanes, over two processes."""
    todo = tasks(*(f"p{n}" for n in range(20)))
    outcomes, pids = run(todo)
    assert Counter(outcome.key for outcome in outcomes) == Counter(task.key for task in todo)
    assert {outcome.answer for outcome in outcomes} == {task.prompt for task in todo}
    assert len(pids) == 2
    assert all(is_gone(pid) for pid in pids)


def test_no_more_workers_than_there_is_work_for(mortal: None) -> None:
    """Two tasks, two lanes: one process."""
    assert len(run(tasks("a", "b"), workers=8)[1]) == 1


def test_a_task_that_kills_is_given_up_and_the_others_are_done(mortal: None) -> None:
    """Its worker is replaced each time; after the third death it is a failure."""
    outcomes, pids = run(tasks("a", "die", "b", "c"), workers=1)
    errors = {outcome.key[1]: outcome.error for outcome in outcomes}
    assert errors == {"0": "", "1": f"its worker process died {MOST_DEATHS} times (exit code 9)", "2": "", "3": ""}
    assert len(pids) >= MOST_DEATHS
    assert all(is_gone(pid) for pid in pids)


def test_a_worker_that_says_nobody_could_work_ends_it(mortal: None) -> None:
    """One line, and no process is left."""
    with pytest.raises(WorkError, match="the key is missing"):
        run(tasks("a", "give up", "b"))


def test_workers_that_end_before_they_begin_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not started for ever."""
    monkeypatch.setattr(crew_module, "main", lab_bodies.stillborn)
    with pytest.raises(WorkError, match=r"end before they can begin \(exit code 3\)"):
        run(tasks("a"))


def test_leaving_early_leaves_nobody(mortal: None) -> None:
    """Ctrl-C in the middle: the processes end with the `with`."""
    pids: set[int] = set()

    def interrupted() -> None:
        with Crew(SETUP, 2, tasks("a", "b", "c", "d")) as crew:
            pids.update(crew.pids)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(pids) == 2
    assert all(is_gone(pid) for pid in pids)
