"""The one scheduler of the process: `install` and `llm_slot`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from llm_sched import ConfigError, Policy, Scheduler, SlotTimeout, default, install, llm_slot, read_snapshot
from llm_sched.testing import RecordingObserver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A ledger in the environment; nothing is installed, before and after."""
    path = tmp_path / "ledger.json"
    monkeypatch.setenv("MAS_LLM_SCHEDULER_STATE", str(path))
    installed: list[object] = []
    monkeypatch.setattr(default, "_installed", installed)
    yield path
    if installed:
        default.current().close()


def test_without_an_install_the_defaults_and_the_environment_hold(path: Path) -> None:
    """Two lines are enough."""
    with llm_slot(provider="openai", model="gpt-4o") as slot:
        (bucket,) = read_snapshot(path).buckets
    assert (slot.bucket, bucket.max_in_flight, bucket.in_flight) == ("openai/gpt-4o", 8, 1)


def test_llm_slot_works_in_tasks(path: Path) -> None:
    """The same object."""

    async def call() -> int:
        async with llm_slot(model="m"):
            return read_snapshot(path).buckets[0].in_flight

    assert asyncio.run(call()) == 1


def test_install_returns_the_policy_that_holds(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the environment's overrides."""
    monkeypatch.setenv("MAS_LLM_MAX_IN_FLIGHT", "1")
    policy = install(Policy(max_in_flight=5, user="ann"))
    assert (policy.max_in_flight, policy.user, policy.path) == (1, "ann", path)
    with llm_slot(), pytest.raises(SlotTimeout):
        default.current().acquire(timeout_s=0)


@pytest.mark.usefixtures("path")
def test_the_last_install_wins() -> None:
    """From the next call on."""
    install(Policy(provider="one"))
    install(Policy(provider="two"))
    with llm_slot() as slot:
        assert slot.bucket == "two/default"


@pytest.mark.usefixtures("path")
def test_installing_the_same_policy_again_changes_nothing() -> None:
    """So a library may install what its user has installed."""
    install(Policy(max_in_flight=3))
    before = default.current()
    install(Policy(max_in_flight=3))
    assert default.current() is before


@pytest.mark.usefixtures("path")
def test_an_installed_observer_hears() -> None:
    """Also when only it is new."""
    install()
    observer = RecordingObserver()
    install(observer=observer)
    with llm_slot():
        pass
    assert observer.kinds() == ["queued", "granted", "released"]


@pytest.mark.usefixtures("path")
def test_a_mistake_in_the_environment_is_found_by_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """And leaves what was installed."""
    install(Policy(max_in_flight=3))
    before = default.current()
    monkeypatch.setenv("MAS_LLM_RPM", "fast")
    with pytest.raises(ConfigError, match="MAS_LLM_RPM"):
        install()
    assert default.current() is before


@pytest.mark.usefixtures("path")
def test_a_mistake_in_the_environment_is_found_by_the_first_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody has installed anything."""
    monkeypatch.setenv("MAS_LLM_MAX_IN_FLIGHT", "-2")
    with pytest.raises(ConfigError, match="MAS_LLM_MAX_IN_FLIGHT"):
        llm_slot()


@pytest.mark.parametrize("_", range(20))
def test_a_slot_of_an_earlier_install_stays_valid(path: Path, _: int) -> None:
    """It is held until it is released, while the earlier scheduler is given up; the two closings may race."""
    install(Policy(max_in_flight=1))
    slot = default.current().acquire()
    install(Policy(max_in_flight=2))
    held = [read_snapshot(path).buckets[0].in_flight]
    slot.release()
    held.append(read_snapshot(path).buckets[0].in_flight)
    assert held == [1, 0]


def test_an_install_during_the_first_call_wins(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler of the defaults, which was just being made, does not replace it."""
    real = default.Scheduler

    def interrupted(*arguments: Any, **options: Any) -> Scheduler:
        monkeypatch.setattr(default, "Scheduler", real)
        install(Policy(max_in_flight=3))
        return real(*arguments, **options)

    monkeypatch.setattr(default, "Scheduler", interrupted)
    assert default.current().policy.max_in_flight == 3
    with llm_slot():
        assert read_snapshot(path).buckets[0].max_in_flight == 3


@pytest.mark.usefixtures("path")
def test_a_layer_after_another_install_shares_the_slot() -> None:
    """A library that installs a policy in the middle of a call does not make that call wait for itself."""
    install(Policy(max_in_flight=1))
    with llm_slot(model="m"):
        install(Policy(max_in_flight=1, timeout_s=0, user="library"))
        with llm_slot(model="m") as layer:
            assert "borrowed" in repr(layer)
