"""Agent files: the system message, prompts in files of their own, and all that we do not know."""

from __future__ import annotations

from pathlib import Path

import pytest
from manifest_support import Folder

from llm_sched.pipeline.agents import AgentFile, load_agent
from llm_sched.pipeline.conversation import Conversation, TurnError
from llm_sched.pipeline.engine_mock import MockEngine
from llm_sched.pipeline.exchange import LlmRequest, LlmResult

WHOLE = """
apiVersion: mas/v1
kind: Agent
metadata: {name: telemetry, x-node-id: telemetry}
spec:
  description: "Call me first: I know the numbers."
  context:
    intent: Find the cause.
    role: {ref: prompts/telemetry/1.0.0.md}
    extra: {a: 1}
  models:
    - {id: main, model: env:MODEL|gpt-4o, temperature: 0.1, max_tokens: 1000, context_window: 128000}
    - {id: summarizer, model: gpt-4o-mini}
  design_pattern: {type: react, params: {max_steps: 10}}
  tools: [{ref: ../tools/get_metrics.tool.yaml}]
  skills: [latency-analysis]
  plugins: {memory: {type: vector}}
x-canvas-node-ids: {model: node_1}
"""


@pytest.mark.parametrize("place", ["agents/prompts/telemetry/1.0.0.md", "prompts/telemetry/1.0.0.md"])
def test_a_real_agent_file(folder: Folder, place: str) -> None:
    """The first model counts; a prompt lies beside the agent or one folder up; the rest is left in peace."""
    folder.write(place, "You read metrics.\n\n")
    path = folder.write("agents/telemetry.yaml", WHOLE)
    assert load_agent(path, {}) == AgentFile(
        name="telemetry",
        model="gpt-4o",
        temperature=0.1,
        max_tokens=1000,
        context={"intent": "Find the cause.", "role": "You read metrics."},
        folder=path.parent,
    )
    assert load_agent(path, {"MODEL": "other"}).model == "other"


@pytest.mark.parametrize(
    ("context", "system"),
    [
        ("{intent: A., role: B.}", "[intent] A.\n\n[role] B."),
        ("{intent: A.}", "[intent] A."),
        ("{role: '  B. '}", "[role] B."),
        ("{role: ''}", ""),
        ("{}", ""),
        ("null", ""),
    ],
)
def test_the_system_message(folder: Folder, context: str, system: str) -> None:
    """Intent, blank line, role; what is not there is not mentioned."""
    path = folder.write("a.yaml", f"apiVersion: mas/v1\nkind: Agent\nspec: {{context: {context}}}\n")
    agent = load_agent(path, {})
    assert (agent.system, agent.name, agent.model) == (system, "a", None)


class _Foreign:
    """An engine of somebody else: no streaming, no settings, and failures as results."""

    def __init__(self, *kinds: str) -> None:
        self.kinds = list(kinds)
        self.messages: list[dict[str, str]] = []
        self.forgotten = 0

    def invoke(self, io: LlmRequest) -> LlmResult:
        return LlmResult(correlation_id=io.correlation_id, response_kind=self.kinds.pop(0), text="text")

    def reset_turn_state(self) -> None:
        self.forgotten += 1


AGENT = AgentFile("a", None, None, None, {"role": "S"}, Path())


def test_an_engine_that_reports_an_error_fails_the_turn() -> None:
    """`response_kind` ERROR is a failure as an exception is; the question is taken back."""
    engine = _Foreign("MODEL_TEXT", "ERROR", "MODEL_TEXT")
    talk = Conversation(AGENT, engine)
    talk.ask("one")
    with pytest.raises(TurnError, match="text"):
        talk.ask("two")
    talk.ask("three")
    said = [(message["role"], message["content"]) for message in engine.messages]
    assert said == [("system", "[role] S"), ("user", "one"), ("assistant", "text"), ("user", "three"), ("assistant", "text")]


def test_reset_reaches_the_engine() -> None:
    """The engine's own turn state is forgotten, too."""
    engine = _Foreign("MODEL_TEXT")
    talk = Conversation(AGENT, engine)
    before = engine.forgotten
    talk.ask("one")
    talk.reset()
    assert engine.forgotten == before + 1
    assert engine.messages == [{"role": "system", "content": "[role] S"}]


def test_every_request_has_a_number_of_its_own() -> None:
    """Correlation ids count up from 1, over resets as well."""
    seen: list[int] = []

    class Counting(MockEngine):
        def invoke(self, io: LlmRequest) -> LlmResult:
            seen.append(io.correlation_id)
            return super().invoke(io)

    talk = Conversation(AGENT, Counting())
    talk.ask("one")
    talk.reset()
    talk.ask("two")
    assert seen == [1, 2]
