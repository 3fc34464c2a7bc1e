"""The parts of an execution without processes: figures, progress, what is shown, what is asked."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from llm_sched import ConfigError, Policy, Scheduler, SlotTimeout, default
from llm_sched.lab import asker
from llm_sched.lab.asker import Asker, TallyScheduler, filled
from llm_sched.lab.experiment import Judge, Scenario
from llm_sched.lab.messages import Outcome, Setup, Task
from llm_sched.lab.progress import HOPELESS, Progress, View, view
from llm_sched.lab.screen import BarScreen, LineScreen, screen_for, table
from llm_sched.lab.summary import Summary, summarize
from llm_sched.pipeline.agents import AgentFile
from llm_sched.pipeline.judge import JudgeError

TASK = Task(("s", "r", 1), "Hello?", {"expected": "x"}, cacheable=True, digest="d")


def line(scenario: str, **facts: Any) -> dict[str, Any]:
    """A line of the results' file."""
    return {"scenario": scenario, "cached": False, "live": 1, "waited_s": 0.0, **facts}


def text_of(renderable: object) -> str:
    """What a person sees."""
    console = Console(file=io.StringIO(), width=120)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_figures_of_a_scenario() -> None:
    """Mean and spread of the scores, median and longest wait, hits, calls and failures."""
    lines = [
        line("a", score=0.0, waited_s=1.0),
        line("a", score=1.0, waited_s=3.0, cached=True, live=0),
        line("a", error="no", waited_s=8.0, live=2),
        line("elsewhere", score=5.0),
    ]
    summary = summarize("n", "r.jsonl", {"a": 4, "b": 1}, lines)
    a, b = summary.scenarios
    assert (a.answers, a.tasks, a.score, a.wait_p50_s, a.wait_max_s, a.cached, a.live, a.errors) == (
        2,
        4,
        0.5,
        3.0,
        8.0,
        1,
        3,
        1,
    )
    assert a.score_sd == pytest.approx(0.7071, abs=1e-4)
    assert (b.answers, b.score, b.wait_p50_s) == (0, None, None)
    assert (summary.ok, summary.errors) == (False, {"no": 1})
    shown = text_of(table(summary))
    assert "2/4" in shown
    assert "0.50 ± 0.71" in shown
    assert Summary.to_dict(summary)["scenarios"][0]["live"] == 3


def test_a_complete_experiment_is_ok() -> None:
    """Every task has its answer."""
    assert summarize("n", "r", {"a": 1}, [line("a")]).ok


def test_when_to_give_up() -> None:
    """Only when nothing at all has worked."""
    progress = Progress(total=100)
    for _ in range(HOPELESS):
        assert not progress.is_hopeless
        progress.note(Outcome(("s", "r", 1), "d", error="no"))
    assert progress.is_hopeless
    progress.note(Outcome(("s", "r", 1), "d"))
    assert not progress.is_hopeless


def test_what_is_shown_while_it_runs() -> None:
    """Rate, calls in flight and waiting, what was done before, what failed."""
    progress = Progress(total=10, before=4, done=3, failed=1)
    shown = text_of_line(view("n", progress, 2.0, (3, 5)))
    assert shown == "n: 8/10  2.0/s  3 in flight  5 waiting  4 done before  1 failed\n"


def text_of_line(picture: View) -> str:
    """One line of a log."""
    console = Console(file=io.StringIO(), width=20)
    with screen_for(console) as screen:
        screen.show(picture)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_log_gets_a_line_now_and_then_and_the_last() -> None:
    """Every few seconds, and when it is finished."""
    now = [0.0]
    console = Console(file=io.StringIO(), width=200)
    screen = LineScreen(console, clock=lambda: now[0])
    for at, finished in ((0.0, 0), (1.0, 1), (5.1, 2), (6.0, 3), (6.1, 10)):
        now[0] = at
        screen.show(View("n", 10, 0, finished, 0, 1.0, 0, 0))
    assert isinstance(console.file, io.StringIO)
    assert [text.split()[1] for text in console.file.getvalue().splitlines()] == ["0/10", "2/10", "10/10"]


def test_a_terminal_gets_a_bar() -> None:
    """One bar with the same figures."""
    console = Console(file=io.StringIO(), width=160, force_terminal=True, color_system=None)
    with screen_for(console) as screen:
        assert isinstance(screen, BarScreen)
        screen.show(View("capitals", 10, 0, 10, 0, 1.5, 2, 3))
    assert isinstance(console.file, io.StringIO)
    assert "capitals" in console.file.getvalue()
    assert "1.5/s  2 in flight  3 waiting" in console.file.getvalue()


def test_filling_a_prompt_in() -> None:
    """Placeholders once; braces of JSON stay; what is filled in is not looked at again."""
    fields = {"prompt": "{answer}", "answer": "A", "n": 5}
    assert filled('{prompt} {answer} {n} {unknown} {"score": 1}', fields) == '{answer} A 5 {unknown} {"score": 1}'


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    """A worker's setup with a mock, paced in a ledger of its own."""
    pace = tmp_path / "pace.yaml"
    pace.write_text(
        "apiVersion: infra/v1\nkind: InfraMiddleware\n"
        "spec: {middleware: llm_scheduler, params: {state_path: ledger.json, max_in_flight: 1, timeout_s: 0}}\n"
    )
    agent = AgentFile("a", None, None, None, {}, tmp_path)
    return Setup(0, (str(pace), "standard:mock-llm"), tmp_path, (Scenario("s", agent),), None, 1)


def prepared(setup: Setup, judge: Judge | None = None) -> Asker:
    """An asker whose waits are counted."""
    asker_ = Asker(replace(setup, judge=judge))
    asker.prepare(None)
    return asker_


def test_one_answer_and_what_it_cost(setup: Setup) -> None:
    """One live call through one slot."""
    outcome = prepared(setup).ask(TASK)
    assert (outcome.answer, outcome.live, outcome.cached, outcome.error) == ("mock: Hello?", 1, False, "")
    assert outcome.took_s >= outcome.waited_s >= 0
    assert isinstance(default.current(), TallyScheduler)


def test_a_slot_that_does_not_come_is_an_outcome(setup: Setup) -> None:
    """A timeout fails the task, not the worker."""
    subject = prepared(setup)
    holder = Scheduler(Policy(max_in_flight=1, state_path=setup.folder / "ledger.json"))
    with holder.acquire(provider="mock", model="mock"):  # which lends nothing to layers inside
        outcome = subject.ask(TASK)
    assert "mock/mock" in outcome.error
    assert issubclass(SlotTimeout, TimeoutError)
    holder.close()


@pytest.mark.parametrize(
    ("verdict", "score"), [({"score": 1}, 1.0), ({"score": 0.5, "x": 1}, 0.5), ({"score": True}, None), ({}, None), ([1], None)]
)
def test_scores(setup: Setup, monkeypatch: pytest.MonkeyPatch, verdict: Any, score: float | None) -> None:
    """The field that counts, if it is a number; the whole verdict is kept."""
    asked: list[str] = []

    def judge(prompt: str, schema: Mapping[str, Any], model: str | None) -> Any:
        asked.append(f"{prompt} {sorted(schema)} {model}")
        return verdict

    monkeypatch.setattr(asker, "complete_json", judge)
    outcome = prepared(setup, Judge("j", "{answer} {expected}", {"type": "object"}, "score")).ask(TASK)
    assert (outcome.score, outcome.verdict, outcome.error) == (score, verdict, "")
    assert asked == ["mock: Hello? x ['type'] j"]


@pytest.mark.parametrize(("model", "name"), [("small", "tiny"), ("default", "mock"), (None, "mock")])
def test_the_judges_model_is_mapped_too(setup: Setup, model: str | None, name: str) -> None:
    """As an agent's; without one of its own it has the first scenario's, or the infra's default."""
    mapped = setup.folder / "map.yaml"
    mapped.write_text("apiVersion: infra/v1\nkind: LLMLocal\nspec: {models: {mappings: {small: tiny}}}\n")
    subject = prepared(replace(setup, refs=(*setup.refs, str(mapped))), Judge(model, "{answer}", {}, "score"))
    assert subject.judge
    assert subject.judge.model == name


@pytest.mark.parametrize(("error", "fatal"), [(JudgeError("odd"), False), (ConfigError("no key"), True)])
def test_a_judge_that_fails(setup: Setup, monkeypatch: pytest.MonkeyPatch, error: Exception, fatal: bool) -> None:  # noqa: FBT001 - a case
    """The answer is kept with the failure; what no task could do without ends the work."""

    def judge(*_: object) -> None:
        raise error

    monkeypatch.setattr(asker, "complete_json", judge)
    subject = prepared(setup, Judge(None, "{answer}", {}, "score"))
    if fatal:
        with pytest.raises(ConfigError):
            subject.ask(TASK)
        return
    outcome = subject.ask(TASK)
    assert (outcome.answer, outcome.error) == ("mock: Hello?", "judge: odd")
