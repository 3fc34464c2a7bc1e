"""What every test of the pipeline has: an environment of its own, a ledger and a cache of its own, a clean process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from pipeline_crew import Crew
from pipeline_provider import Provider

from llm_sched import default
from llm_sched.pipeline import endpoint, judge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith(("MAS_", "LLM_SCHED_", "OPENAI_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    installed = default._installed[:]  # noqa: SLF001 - a process has one
    yield
    for scheduler in default._installed:  # noqa: SLF001 - likewise
        if scheduler not in installed:
            scheduler.close()
    default._installed[:] = installed  # noqa: SLF001 - likewise
    endpoint._resolved.clear()  # noqa: SLF001 - likewise
    judge._installed.clear()  # noqa: SLF001 - likewise


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider that answers "four"."""
    with Provider() as stub:
        yield stub


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    """Child processes; whatever is left of them after the test is killed and reaped."""
    crew = Crew(tmp_path)
    try:
        yield crew
    finally:
        crew.clear_away()
