"""One execution of an experiment: results, workers and display together, and nothing left of them afterwards."""

# Law: composes. An outcome is on disk before it is counted, so that any end loses at most what was under way.

from __future__ import annotations

import contextlib
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from llm_sched import default
from llm_sched.errors import SchedulerError
from llm_sched.lab import plan
from llm_sched.lab.asker import judge_for
from llm_sched.lab.crew import Crew, WorkError
from llm_sched.lab.messages import Setup, Task
from llm_sched.lab.progress import Progress, view
from llm_sched.lab.results import Results, as_line
from llm_sched.lab.summary import Summary, summarize
from llm_sched.pipeline.loading import load_infra
from llm_sched.pipeline.registry import build
from llm_sched.snapshot import read_snapshot

if TYPE_CHECKING:
    from collections.abc import MutableMapping, Sequence
    from pathlib import Path

    from llm_sched.lab.experiment import Experiment
    from llm_sched.lab.screen import Screen

USER = "MAS_LLM_SCHEDULER_USER"
REFRESH_S = 0.25


def set_user(experiment: Experiment, environ: MutableMapping[str, str]) -> None:
    """Name the experiment as the user of its slots, unless a user is named already; workers inherit it."""
    if not environ.get(USER):
        environ[USER] = experiment.name


def check_infra(experiment: Experiment) -> tuple[str, ...]:
    """Put the pipelines together once, here, so that what is wrong with them is said before anything is started.

    Returns:
        Notes for the user, one line each.

    Raises:
        ManifestError: the infra cannot be used.
        ConfigError: a knob makes no sense.
    """
    infra = load_infra(experiment.refs, folder=experiment.folder)
    for scenario in experiment.scenarios:
        build(infra, scenario.agent.model)
    judge_for(experiment.judge, infra, experiment.scenarios)
    return infra.notes


def execute(experiment: Experiment, screen: Screen, results: Results) -> Summary:
    """Do what is not done yet.

    Args:
        experiment: what to do; its infra has been checked.
        screen: where progress is shown.
        results: open.

    Raises:
        ResultsError: they belong to another version, or cannot be written.
        WorkError: the workers cannot work, or everything fails.
    """
    tasks = plan.tasks(experiment)
    results.check({task.key: task.digest for task in tasks})
    todo = [task for task in tasks if task.key not in results.lines]
    progress = Progress(total=len(tasks), before=len(tasks) - len(todo))
    failures: list[dict[str, Any]] = []
    if todo:
        with contextlib.ExitStack() as stack:
            stack.enter_context(screen)
            _work(stack.enter_context(_crew(experiment, todo)), experiment, todo, (results, progress, failures, screen))
    counts = Counter(task.key[0] for task in tasks)
    known = {task.key for task in tasks}
    lines = [line for key, line in results.lines.items() if key in known]
    return summarize(experiment.name, str(results.path), counts, [*lines, *failures])


def _crew(experiment: Experiment, todo: Sequence[Task]) -> Crew:
    setup = Setup(
        worker=0,
        refs=experiment.refs,
        folder=experiment.folder,
        scenarios=experiment.scenarios,
        judge=experiment.judge,
        lanes=experiment.calls_per_worker,
    )
    return Crew(setup, experiment.workers, todo)


def _work(
    crew: Crew,
    experiment: Experiment,
    todo: Sequence[Task],
    books: tuple[Results, Progress, list[dict[str, Any]], Screen],
) -> None:
    results, progress, failures, screen = books
    prompts = {task.key: task.prompt for task in todo}
    ledger = default.current().policy.path
    began = due = time.monotonic()
    while not crew.is_done:
        for outcome in crew.collect(max(0.0, due - time.monotonic())):
            results.add(outcome, prompts[outcome.key])
            progress.note(outcome)
            if outcome.error:
                failures.append(as_line(outcome, prompts[outcome.key]))
        if progress.is_hopeless:
            error, _ = progress.errors.most_common(1)[0]
            raise WorkError(f"all of the first {progress.failed} answers failed; most often: {error}")
        if time.monotonic() >= due:
            screen.show(view(experiment.name, progress, time.monotonic() - began, _calls(ledger, crew.pids)))
            due = time.monotonic() + REFRESH_S
    screen.show(view(experiment.name, progress, time.monotonic() - began, (0, 0)))
    crew.finish()


def _calls(ledger: Path, pids: set[int]) -> tuple[int, int]:
    """How many calls of these processes are in flight, and how many wait."""
    try:
        buckets = read_snapshot(ledger).buckets
    except SchedulerError:  # what is shown is no reason to end the work
        return 0, 0
    in_flight = sum(holder.pid in pids for bucket in buckets for holder in bucket.holders)
    waiting = sum(waiter.count for bucket in buckets for waiter in bucket.waiters if waiter.pid in pids)
    return in_flight, waiting
