"""Races between two closes of one engine: goes wrong about once in 40; put it back into test_default_scheduler.py."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from test_default_scheduler import path  # noqa: F401 - a fixture

from llm_sched import Policy, default, install, read_snapshot


@pytest.mark.parametrize("_", range(60))
def test_a_slot_of_an_earlier_install_stays_valid(path: Path, _: int) -> None:
    """It is held until it is released."""
    install(Policy(max_in_flight=1))
    slot = default.current().acquire()
    install(Policy(max_in_flight=2))
    held = [read_snapshot(path).buckets[0].in_flight]
    slot.release()
    held.append(read_snapshot(path).buckets[0].in_flight)
    assert held == [1, 0]
    gc.collect()
