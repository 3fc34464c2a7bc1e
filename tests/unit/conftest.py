"""What every unit test has: a stage of its own, and an environment without our variables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from unit_support import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("MAS_LLM_", "LLM_SCHED_", "XDG_CACHE"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A ledger in memory; its schedulers are closed afterwards."""
    stage = Stage()
    yield stage
    stage.close()
