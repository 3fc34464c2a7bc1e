"""From an experiment to its tasks."""

# Law: pure. The same experiment gives the same tasks in the same order. A task's digest covers all that its answer and
# its score depend on, so that results of an earlier version of the experiment are known as such.

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from llm_sched.lab.messages import Task

if TYPE_CHECKING:
    from llm_sched.lab.dataset import Row
    from llm_sched.lab.experiment import Experiment, Scenario


def tasks(experiment: Experiment) -> list[Task]:
    """Every row in every scenario, run by run, so that an early end has some of everything."""
    return [
        Task(
            key=(scenario.name, row.id, run),
            prompt=row.prompt,
            fields=row.fields,
            cacheable=run == 1 or not experiment.distinct_runs,
            digest=_digest(experiment, scenario, row),
        )
        for run in range(1, experiment.n_runs + 1)
        for row in experiment.rows
        for scenario in experiment.scenarios
    ]


def _digest(experiment: Experiment, scenario: Scenario, row: Row) -> str:
    agent, judge = scenario.agent, experiment.judge
    asked = [agent.model, agent.temperature, agent.max_tokens, agent.system, row.prompt]
    scored = None if judge is None else [judge.model, judge.prompt, judge.schema, judge.score, dict(row.fields)]
    text = json.dumps([asked, scored], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
