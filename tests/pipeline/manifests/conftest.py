"""What the tests of manifests share: a folder of their own, and nothing of the machine's configuration."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from chat_support import AGENT, Shell
from manifest_support import Folder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A working directory with its own home; no variable of ours, of OpenAI or of a proxy is set."""
    prefixes = ("MAS_", "LLM_", "OPENAI_", "OLLAMA_")
    monkeypatch.setenv("MAS_LLM_SCHEDULER_USER", "")  # an experiment sets it: so it is put back as it was
    for name in [name for name in os.environ if name.startswith(prefixes) or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for variable, part in (("XDG_CONFIG_HOME", "config"), ("XDG_CACHE_HOME", "cache"), ("HOME", "home")):
        monkeypatch.setenv(variable, str(tmp_path / part))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return Folder(work)


@pytest.fixture
def shell(folder: Folder) -> Shell:
    """A shell in the folder, in which there is `agent.yaml`."""
    folder.write("agent.yaml", AGENT)
    return Shell(folder.path)
