"""Importing llm_sched costs next to nothing, and neither import nor `Scheduler` touches the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from process_crew import Crew

HEAVY = {"openai", "textual", "pydantic", "opentelemetry.sdk", "asyncio", "filelock"}


def test_an_import_loads_nothing_heavy_and_touches_nothing(crew: Crew, ledger: Path) -> None:
    """`import llm_sched` and a new `Scheduler` open no file, start no thread and load no heavy module."""
    child = crew.start("process_imports", "look", state=ledger)
    facts = child.hear("imported")
    assert HEAVY.isdisjoint(facts["modules"])
    assert facts["threads"] == 1
    assert facts["opened"] == []
    assert facts["forks"] == 0
    assert not list(ledger.parent.iterdir())
    child.end()
