"""One task: ask, score, and tell what it cost."""

# Law: runs in a worker's thread. What belongs to one call fails that call; what no call could do without ends the work.

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from llm_sched import default
from llm_sched.errors import ConfigError, SchedulerError
from llm_sched.lab.experiment import PLACEHOLDER
from llm_sched.lab.messages import Outcome
from llm_sched.pipeline.conversation import Conversation
from llm_sched.pipeline.judge import complete_json, install_openai_llm_service
from llm_sched.pipeline.loading import load_infra
from llm_sched.pipeline.registry import build
from llm_sched.scheduler import Scheduler

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping, Sequence

    from llm_sched.lab.experiment import Judge, Scenario
    from llm_sched.lab.messages import Setup, Task
    from llm_sched.pipeline.infra import Infra
    from llm_sched.scheduler import Slot

_here = threading.local()


class TallyScheduler(Scheduler):
    """Adds up what the calls of each thread waited for their slots."""

    def acquire(self, *, provider: str | None = None, model: str | None = None, timeout_s: float | None = None) -> Slot:
        """See `Scheduler.acquire`."""
        began = time.monotonic()
        try:
            return super().acquire(provider=provider, model=model, timeout_s=timeout_s)
        finally:
            live, waited_s = getattr(_here, "tally", (0, 0.0))
            _here.tally = (live + 1, waited_s + time.monotonic() - began)


def judge_for(judge: Judge | None, infra: Infra, scenarios: Sequence[Scenario]) -> Judge | None:
    """The judge with the model that the provider knows; where it names none, that of the first scenario.

    Raises:
        ManifestError: the model is not allowed.
    """
    name = judge and (judge.model or scenarios[0].agent.model or infra.models.default)
    return replace(judge, model=infra.models.resolve(name)) if judge and name else judge


class Asker:
    """Asks and scores; for one thread.

    Args:
        setup: the worker's.

    Attributes:
        judge: who scores, with the model that the provider knows.

    Raises:
        ManifestError: the infra cannot be used.
        ConfigError: a knob makes no sense.
    """

    def __init__(self, setup: Setup) -> None:
        infra = load_infra(setup.refs, folder=setup.folder)
        self.judge = judge_for(setup.judge, infra, setup.scenarios)
        self._conversations = {
            scenario.name: Conversation(scenario.agent, build(infra, scenario.agent.model)) for scenario in setup.scenarios
        }

    def ask(self, task: Task) -> Outcome:
        """Do one task.

        Raises:
            ConfigError: no task can be done.
        """
        _here.tally = (0, 0.0)
        began = time.monotonic()
        outcome = Outcome(task.key, task.digest)
        try:
            outcome = self._answered(task, outcome)
            outcome = self._scored(task, outcome)
        except ConfigError:
            raise
        except (SchedulerError, OSError) as error:
            outcome = replace(outcome, error=str(error))
        live, waited_s = _here.tally
        if not live and not outcome.cached and not outcome.error:  # a pipeline without a scheduler
            live = 1
        return replace(outcome, live=live, waited_s=waited_s, took_s=time.monotonic() - began)

    def _answered(self, task: Task, outcome: Outcome) -> Outcome:
        conversation = self._conversations[task.key[0]]
        conversation.reset()
        result = conversation.ask(task.prompt, cacheable=task.cacheable)
        return replace(
            outcome,
            answer=result.text,
            finish_reason=getattr(result, "finish_reason", ""),
            cached=getattr(result, "source", "live") == "cache",
            usage=dict(getattr(result, "usage", {})),
        )

    def _scored(self, task: Task, outcome: Outcome) -> Outcome:
        judge = self.judge
        if judge is None:
            return outcome
        fields = {**task.fields, "prompt": task.prompt, "answer": outcome.answer}
        try:
            verdict = complete_json(filled(judge.prompt, fields), dict(judge.schema), judge.model)
        except ConfigError:
            raise
        except SchedulerError as error:
            return replace(outcome, error=f"judge: {error}")
        fields = cast("dict[str, object]", verdict) if isinstance(verdict, dict) else {}
        score = fields.get(judge.score)
        number = float(score) if isinstance(score, (int, float)) and not isinstance(score, bool) else None
        return replace(outcome, score=number, verdict=verdict)


def prepare(judge: Judge | None) -> None:
    """After the pipelines are built: count waits from here on, and make the judge theirs."""
    default.install_scheduler(TallyScheduler(default.current().policy))
    if judge is not None:
        install_openai_llm_service(judge.model)


def filled(template: str, fields: Mapping[str, Any]) -> str:
    """A prompt with its placeholders filled in; what stands in the fields is not looked at again."""

    def value(match: re.Match[str]) -> str:
        found = fields.get(match[1], match[0])
        return found if isinstance(found, str) else str(found)

    return PLACEHOLDER.sub(value, template)
