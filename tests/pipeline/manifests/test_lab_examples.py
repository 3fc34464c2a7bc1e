"""The example folder, as the README walks through it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from chat_support import Shell
from manifest_support import Folder, names
from pipeline_provider import Provider, Reply

from llm_sched.pipeline.loading import load_infra

EXAMPLES = Path(__file__).parents[2] / "examples"
README = Path(__file__).parents[3] / "README.md"
CAPITALS = {"France": "Paris.", "Japan": "Tokyo.", "Peru": "Lima, on the Pacific."}


@pytest.fixture
def examples(shell: Shell, folder: Folder) -> Shell:
    """A shell in a folder with `tests/examples`, as in a checkout."""
    shutil.copytree(EXAMPLES, folder.path / "tests" / "examples", ignore=shutil.ignore_patterns("results"))
    return shell


def well_read(body: dict[str, Any]) -> Reply:
    """A model that knows capitals, and a judge that knows them too."""
    asked = str(body["messages"][-1]["content"])
    if "Expected: " not in asked:
        return Reply(text=next((text for country, text in CAPITALS.items() if country in asked), "four"))
    expected, answer = (re.search(f"{name}: (.*)", asked) for name in ("Expected", "Answer"))
    assert expected
    assert answer
    return Reply(text=json.dumps({"score": int(answer[1].startswith(expected[1])), "reason": "It names the city."}))


def test_every_command_of_the_readme_that_needs_no_key(examples: Shell) -> None:
    """They are run as they stand there, and what they print stands there too."""
    section = README.read_text().partition("## From a manifest: chat and experiments")[2].partition("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    commands = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if part]
    offline = [part.partition("\n") for part in commands if "mock" in part or "offline" in part or "wrong-order" in part]
    assert len(offline) == 3
    for line, _, shown in offline:
        result = examples.run(line)
        assert _facts(result.stderr + result.stdout) == _facts(shown), line


def _facts(text: str) -> list[str]:
    """The lines, without what differs from run to run: waits, and how often the progress is told."""
    lines = [re.sub(r"\d+\.\d+ s", "N s", " ".join(line.split())) for line in text.splitlines()]
    return [line for line in lines if line and "in flight" not in line]


def test_the_bundle_of_the_examples(folder: Folder, examples: Shell) -> None:
    """Cache, then the scheduler with its own knobs, then the gateway."""
    assert examples
    infra = load_infra(["tests/examples/infra/paced.yaml"])
    assert names(infra) == ["llm_cache", "llm_scheduler"]
    assert infra.layers[1].params == {"max_in_flight": 4, "requests_per_minute": 120, "burst": 8, "fair_by": "user"}


@pytest.mark.soak
def test_the_experiment_of_the_examples(examples: Shell, provider: Provider) -> None:
    """27 tasks, judged, with the key and the endpoint from the environment."""
    provider.reply = well_read
    line = "llm-sched lab execute tests/examples/experiment.yaml --json"
    result = examples.run(line, LLM_PROXY_API_BASE=provider.url)
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert [(row["name"], row["answers"], row["score"]) for row in summary["scenarios"]] == [
        ("plain", 9, 1.0), ("cool", 9, 1.0), ("small", 9, 1.0),
    ]  # fmt: skip
    assert provider.peak <= 8
