"""The shape of an experiment file."""

# Law: shapes only. The file is ours, so a key that we do not know is a mistake. Brings pydantic.

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from llm_sched.pipeline.kinds import AgentContext, Metadata  # noqa: TC001 - pydantic needs them when it runs


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True, protected_namespaces=())


class InlineRow(BaseModel):
    """A prompt with more fields; they can stand in the judge's prompt."""

    model_config = ConfigDict(extra="allow")
    id: str | int | None = None
    prompt: str


def _row_form(value: object) -> str:
    return "a text" if isinstance(value, str) else "a row"


AnyRow = Annotated[Annotated[str, Tag("a text")] | Annotated[InlineRow, Tag("a row")], Discriminator(_row_form)]


class Dataset(_Closed):
    """The prompts: `prompts` in place, or the `path` of a .jsonl or .csv file."""

    prompts: list[AnyRow] | None = None
    path: str | None = Field(default=None, description="JSON lines, or CSV with a header; relative to this file.")
    prompt_field: str = Field(default="prompt", description="Which field of a row is the prompt.")
    id_field: str = Field(default="id", description="Which field names the row; without one, its number does.")


class ScenarioShape(_Closed):
    """One way to ask: an agent of its own, or the experiment's with something changed."""

    name: str
    agent: str | None = Field(default=None, description="An agent file; default: the experiment's.")
    model: str | None = None
    temperature: float | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=1)
    context: AgentContext | None = Field(default=None, description="Replaces the agent's intent or role.")


class JudgeShape(_Closed):
    """Who scores the answers, and how."""

    model: str | None = Field(default=None, description="Default: that of the first scenario.")
    prompt: str = Field(
        default=(
            "Question:\n{prompt}\n\nAnswer:\n{answer}\n\n"
            "How good is the answer? Give a score from 0 (useless) to 1 (perfect), and the reason in one sentence."
        ),
        description="{prompt}, {answer} and every other field of the row are filled in.",
    )
    answer_schema: dict[str, Any] | None = Field(default=None, alias="schema", description="JSON Schema of its answer.")
    score: str = Field(default="score", description="Which field of the judge's answer is the score.")


class ExperimentSpec(_Closed):
    """What is asked, how, and how often."""

    agent: str | None = Field(default=None, description="The agent file of every scenario that names none.")
    infra_refs: list[str] | None = Field(default=None, description="As --infra-ref, which comes before them.")
    dataset: Dataset
    scenarios: list[ScenarioShape] | None = Field(default=None, min_length=1)
    n_runs: int = Field(default=1, ge=1, description="How often each prompt is asked in each scenario.")
    distinct_runs: bool = Field(default=True, description="From the second run on answers are new ones, not the cache's.")
    workers: int = Field(default=2, ge=1, le=64, description="Processes.")
    calls_per_worker: int = Field(default=4, ge=1, le=256, description="Threads of each process.")
    judge: JudgeShape | None = None
    results: str | None = Field(
        default=None, description="Where the results go; default: results/<name>.jsonl beside this file."
    )


class ExperimentDocument(_Closed):
    """An experiment."""

    apiVersion: Literal["lab/v1"]  # noqa: N815 - the documents' own spelling
    kind: Literal["Experiment"]
    metadata: Metadata | None = None
    spec: ExperimentSpec
