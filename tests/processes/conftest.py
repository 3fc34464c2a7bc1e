"""What every test with real processes has: its own ledger, a crew that leaves nothing behind, and a witness."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from process_crew import Crew
from process_witness import Witness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Path of a ledger that nobody else uses."""
    folder = tmp_path / "ledger"
    folder.mkdir(mode=0o700)
    return folder / "state.json"


@pytest.fixture
def witness_path(tmp_path: Path) -> Path:
    """Path of the test's witness."""
    return tmp_path / "witness"


@pytest.fixture
def witness(witness_path: Path) -> Witness:
    """A witness of the cap."""
    return Witness.make(witness_path)


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    """Children; whatever is left of them after the test is killed and reaped."""
    crew = Crew(tmp_path)
    try:
        yield crew
    finally:
        crew.clear_away()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests signal, fork and lock as POSIX systems do."""
    if sys.platform == "win32":
        for item in items:
            item.add_marker(pytest.mark.skip(reason="needs POSIX signals and locks"))
