"""What every test with a provider of somebody else has: that provider, alone, and a ledger of its own."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any

import pytest
from real_providers import Llama, LLMock, llama_server, llmock_server
from tiny_model import write_tiny_model

from llm_sched import Policy, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LLAMA_SLOTS = 4
QUOTA_RPM = 60


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("MAS_", "LLM_SCHED_", "XDG_CACHE", "OPENAI_", "LLMOCK_"))]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of half a megabyte with random weights."""
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_tiny_model(path)
    return path


@pytest.fixture
def llama(tiny_model: Path, tmp_path: Path) -> Iterator[Llama]:
    """A real llama.cpp with four slots."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("needs the package xllamacpp, which has no wheel for this platform")
    with llama_server(tiny_model, LLAMA_SLOTS, tmp_path / "llama.log") as llama:
        yield llama


@pytest.fixture(scope="session")
def llmock_process() -> Iterator[LLMock]:
    """The llmock without a quota that all tests of a session use one after the other."""
    with llmock_server() as llmock:
        yield llmock


@pytest.fixture
def llmock(llmock_process: LLMock) -> LLMock:
    """An llmock without a quota, that remembers nothing."""
    llmock_process.reset()
    return llmock_process


@pytest.fixture(scope="session")
def quota_process() -> Iterator[LLMock]:
    """The llmock with a quota that all tests of a session use one after the other."""
    with llmock_server(QUOTA_RPM) as llmock:
        yield llmock


@pytest.fixture
def quota(quota_process: LLMock) -> LLMock:
    """An llmock that serves sixty requests a minute, none of which is used up."""
    quota_process.reset()
    return quota_process


@pytest.fixture
def schedulers(tmp_path: Path) -> Iterator[Callable[..., Scheduler]]:
    """Makes schedulers on the test's ledger; they are closed afterwards."""
    made: list[Scheduler] = []

    def make(**knobs: Any) -> Scheduler:
        made.append(Scheduler(Policy(state_path=tmp_path / "state.json", **knobs)))
        return made[-1]

    yield make
    for scheduler in made:
        scheduler.close()
