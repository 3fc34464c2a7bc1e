"""An experiment file, read and checked as a whole before anything is asked."""

# Law: reads files and nothing else. What is wrong is reported together.

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_sched.lab.dataset import Row, checked_rows, read_rows
from llm_sched.lab.kinds import ExperimentDocument, ExperimentSpec, InlineRow, JudgeShape, ScenarioShape
from llm_sched.pipeline.agents import AgentFile, context_texts, load_agent
from llm_sched.pipeline.documents import Document, read_document
from llm_sched.pipeline.environment import resolved
from llm_sched.pipeline.problems import ManifestError, raise_if_any, suggestion
from llm_sched.pipeline.shapes import checked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_sched.pipeline.documents import Keys

PLACEHOLDER = re.compile(r"\{(\w+)\}")
DEFAULT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "required": ["score"],
    "properties": {"score": {"type": "number", "minimum": 0, "maximum": 1}, "reason": {"type": "string"}},
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One way to ask."""

    name: str
    agent: AgentFile


@dataclass(frozen=True, slots=True)
class Judge:
    """How answers are scored: `model` None = the pipeline's; `score` is the field of the answer that counts."""

    model: str | None
    prompt: str
    schema: Mapping[str, Any]
    score: str


@dataclass(frozen=True, slots=True)
class Experiment:
    """All that an execution needs; see `kinds.ExperimentSpec`."""

    name: str
    folder: Path
    refs: tuple[str, ...]
    rows: tuple[Row, ...]
    scenarios: tuple[Scenario, ...]
    n_runs: int
    distinct_runs: bool
    workers: int
    calls_per_worker: int
    judge: Judge | None
    results: Path


def load_experiment(path: Path, environ: Mapping[str, str]) -> Experiment:
    """Read an experiment, its agents and its data set.

    Args:
        path: the file.
        environ: for `env:` values.

    Raises:
        ManifestError: something cannot be used; all problems of the file together.
    """
    document = read_document(path)
    data = resolved(document.data, environ)
    content, problems = checked(ExperimentDocument, data, document)
    if content is None:
        raise_if_any(problems, str(path))
        raise AssertionError(path)
    spec, reader = content.spec, _Reader(document, path.parent, environ)
    name = (content.metadata.name if content.metadata else None) or path.stem
    if not name.isprintable() or "/" in name:
        reader.problem(("metadata", "name"), "must be a printable name without `/`")
    scenarios, rows = reader.scenarios(spec), reader.rows(spec)
    judge = reader.judge(spec.judge, rows) if spec.judge else None
    raise_if_any(reader.problems, str(path))
    return Experiment(
        name=name,
        folder=path.parent,
        refs=tuple(spec.infra_refs or ()),
        rows=rows,
        scenarios=scenarios,
        n_runs=spec.n_runs,
        distinct_runs=spec.distinct_runs,
        workers=spec.workers,
        calls_per_worker=spec.calls_per_worker,
        judge=judge,
        results=path.parent / (spec.results or f"results/{name}.jsonl"),
    )


class _Reader:
    """Reads the parts; `problems` collects what is wrong with any."""

    def __init__(self, document: Document, folder: Path, environ: Mapping[str, str]) -> None:
        self._document = document
        self._folder = folder
        self._environ = environ
        self.problems: list[str] = []

    def problem(self, keys: Keys, text: str) -> None:
        """Note a problem."""
        self.problems.append(self._document.problem(keys, text))

    def scenarios(self, spec: ExperimentSpec) -> tuple[Scenario, ...]:
        """Every scenario with its agent; without any, the one of the experiment's agent."""
        shapes = spec.scenarios or [ScenarioShape(name="default")]
        found: dict[str, Scenario] = {}
        for number, shape in enumerate(shapes):
            keys = ("spec", "scenarios", number) if spec.scenarios else ("spec",)
            if shape.name in found or not shape.name.strip():
                self.problem((*keys, "name"), "must be a name that no other scenario has")
            agent = self._agent(shape.agent or spec.agent, (*keys, "agent") if shape.agent else ("spec", "agent"))
            if agent:
                found[shape.name] = Scenario(shape.name, self._changed(agent, shape, (*keys, "context")))
        return tuple(found.values())

    def rows(self, spec: ExperimentSpec) -> tuple[Row, ...]:
        """The data set."""
        shape, keys = spec.dataset, ("spec", "dataset")
        if (shape.prompts is None) == (shape.path is None):
            self.problem(keys, "needs either `prompts` or `path`")
            return ()
        try:
            if shape.path is not None:
                return read_rows(self._folder / Path(shape.path).expanduser(), shape.prompt_field, shape.id_field)
            rows = (_fields(row) for row in shape.prompts or ())
            return checked_rows(enumerate(rows, 1), f"{self._document.where((*keys, 'prompts'))}: prompts", "prompt", "id")
        except ManifestError as error:
            self.problems += error.problems
            return ()

    def judge(self, shape: JudgeShape, rows: tuple[Row, ...]) -> Judge:
        """The judge; every placeholder in its prompt must be a field of every row."""
        shared = [set(row.fields) for row in rows]
        known: set[str] = {"answer", "prompt"}.union(shared[0].intersection(*shared) if shared else ())
        for name in dict.fromkeys(PLACEHOLDER.findall(shape.prompt)):
            if rows and name not in known:
                self.problem(("spec", "judge", "prompt"), f"{{{name}}} is no field of every row; {suggestion(name, known)}")
        return Judge(shape.model, shape.prompt, shape.answer_schema or DEFAULT_SCHEMA, shape.score)

    def _agent(self, ref: str | None, keys: Keys) -> AgentFile | None:
        if not ref:
            self.problem(keys, "is missing: name an agent file here, or in every scenario")
            return None
        path = self._folder / Path(ref).expanduser()
        if not path.is_file():
            self.problem(keys, f"no such file: {path}")
            return None
        try:
            return load_agent(path, self._environ)
        except ManifestError as error:
            self.problems += error.problems
            return None

    def _changed(self, agent: AgentFile, shape: ScenarioShape, keys: Keys) -> AgentFile:
        agent = replace(
            agent,
            model=shape.model or agent.model,
            temperature=agent.temperature if shape.temperature is None else shape.temperature,
            max_tokens=shape.max_tokens or agent.max_tokens,
        )
        if shape.context is None:
            return agent
        texts, problems = context_texts(shape.context, self._document, keys, self._folder)
        self.problems += problems
        return replace(agent, context={**agent.context, **texts})


def _fields(row: str | InlineRow) -> Mapping[str, Any]:
    return {"prompt": row} if isinstance(row, str) else row.model_dump()
