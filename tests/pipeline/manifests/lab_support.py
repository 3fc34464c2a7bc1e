"""Experiments of the tests, and what came of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from pipeline_provider import Reply

EXPERIMENT = """
apiVersion: lab/v1
kind: Experiment
metadata: {name: capitals}
spec:
  agent: agent.yaml
  infra_refs: [pace.yaml, 'env:PROVIDER']
  dataset: {path: questions.jsonl}
  scenarios: [{name: plain}, {name: warm, temperature: 1.5}]
  n_runs: 2
  workers: 2
  calls_per_worker: 3
"""
JUDGE = """  judge:
    model: gpt-4o
    prompt: "Judge this: {prompt} | {expected} | {answer}"
"""
PACE = "{middleware: llm_scheduler, params: {max_in_flight: 2, keys: [provider, model, user], max_retries: 0}}"
ROWS = 6
TASKS = ROWS * 2 * 2


def questions(count: int = ROWS) -> str:
    """A data set as JSON lines."""
    return "".join(json.dumps({"id": f"q{n}", "prompt": f"Question {n}?", "expected": str(n)}) + "\n" for n in range(count))


def results(folder: Path) -> list[dict[str, Any]]:
    """The complete lines of the results' file."""
    path = folder / "results" / "capitals.jsonl"
    data = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in data.rpartition(b"\n")[0].split(b"\n") if line]


def keys(lines: list[dict[str, Any]]) -> Counter[tuple[str, str, int]]:
    """How often each task stands in the results."""
    return Counter((line["scenario"], line["row"], line["run"]) for line in lines)


def every_key_once(rows: int = ROWS) -> Counter[tuple[str, str, int]]:
    """What a complete results' file has."""
    return Counter((scenario, f"q{n}", run) for scenario in ("plain", "warm") for n in range(rows) for run in (1, 2))


def is_judge(body: dict[str, Any]) -> bool:
    """Whether a request is the judge's."""
    return "Judge this" in str(body["messages"][-1]["content"])


def agent_and_judge(body: dict[str, Any]) -> Reply:
    """An agent that is right about even numbers, and a judge who sees that."""
    asked = str(body["messages"][-1]["content"])
    if not is_judge(body):
        number = int(asked.split()[1].rstrip("?"))
        return Reply(text=str(number - number % 2))
    _, expected, answer = asked.split(": ", 1)[1].split(" | ")
    return Reply(text=json.dumps({"score": float(expected == answer.strip()), "reason": "because"}))
