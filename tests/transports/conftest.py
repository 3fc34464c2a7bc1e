"""What every test of the transports has: a provider and a ledger of its own, and an environment without our variables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from strict_provider import StrictProvider
from transport_support import FLAVOURS, SDK_FLAVOURS, Flavour, Ledger

from llm_sched import Policy, Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("MAS_LLM_", "LLM_SCHED_", "XDG_CACHE", "OPENAI_"))]:
        monkeypatch.delenv(name)


@pytest.fixture(params=list(FLAVOURS))
def flavour(request: pytest.FixtureRequest) -> Flavour:
    """Each library."""
    return FLAVOURS[request.param]


@pytest.fixture(params=SDK_FLAVOURS)
def sdk_flavour(request: pytest.FixtureRequest) -> Flavour:
    """Each library that the installed SDK can use."""
    return FLAVOURS[request.param]


@pytest.fixture
def provider() -> Iterator[StrictProvider]:
    """A provider without a limit, that answers at once."""
    with StrictProvider() as provider:
        yield provider


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


@pytest.fixture
def scheduler(schedulers: Callable[..., Scheduler]) -> Scheduler:
    """A scheduler that allows two at once."""
    return schedulers(max_in_flight=2, timeout_s=30)


@pytest.fixture
def ledger(scheduler: Scheduler) -> Ledger:
    """What that scheduler's ledger says."""
    return Ledger(scheduler)
