"""What the command-line tests share: a ledger of their own and the command as a user types it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import Command


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger's path, also in the environment; no other variable of ours is set."""
    for name in [name for name in os.environ if name.startswith(("MAS_LLM_", "LLM_SCHED_"))]:
        monkeypatch.delenv(name)
    path = tmp_path / "ledger.json"
    monkeypatch.setenv("MAS_LLM_SCHEDULER_STATE", str(path))
    monkeypatch.setenv("COLUMNS", "200")
    return path


@pytest.fixture
def llm_sched(ledger: Path) -> Command:
    """Run `llm-sched ARGUMENTS` in a process of its own, with optional extra environment."""
    assert ledger

    def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from llm_sched.cli import main; main()", *arguments]
        env = {**os.environ, **environment}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)

    return call
