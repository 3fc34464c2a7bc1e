"""What every measurement gets: how long to measure, a place of its own, the witness, and somewhere for remarks."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tests.benchmarks.place import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.benchmarks.peers.base import Backend
    from tests.benchmarks.witness import Witness

CAP = 8
HOLD_S = 0.02
FEW_PROCESSES = 8
MANY_PROCESSES = 16
MANY_WAITERS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is measured in one round; times in seconds."""

    pair_batches: int = 7
    pair_batch_s: float = 0.1
    loop_s: float = 1.8
    crowded_loop_s: float = 4.5
    warm_up_s: float = 0.5
    throughput_s: float = 0.6
    idle_s: float = 2.0
    kills: int = 5
    drains: tuple[int, ...] = (10, 100, 1_000, 10_000)
    peers_drain: int = 1_000
    drain_limit_s: float = 4.0
    rate_s: float = 8.0
    imports: int = 11


FULL = Scale()
QUICK = Scale(
    pair_batches=3,
    pair_batch_s=0.05,
    loop_s=0.7,
    crowded_loop_s=2.0,
    warm_up_s=0.3,
    throughput_s=0.5,
    idle_s=1.0,
    kills=2,
    drains=(10, 100, 1_000),
    peers_drain=100,
    drain_limit_s=3.0,
    rate_s=3.0,
    imports=3,
)


@dataclass(slots=True)
class Bench:
    """Shared by all measurements of one run."""

    scale: Scale
    folder: Path
    witness: Witness
    remarks: list[str] = field(default_factory=list)
    places: int = 0

    @contextmanager
    def place(self, backend: Backend, *, cap: int = CAP, waiters: int = 0, rpm: float = 0, burst: int = 1) -> Iterator[Place]:
        """Yield a fresh place for `backend`, and remove every trace of it afterwards."""
        self.places += 1
        folder = tempfile.mkdtemp(dir=self.folder)
        name = f"llm-sched-bench-{os.getpid()}-{self.places}"
        place = Place(folder=folder, name=name, cap=cap, waiters=waiters, rpm=rpm, burst=burst)
        try:
            with backend.at(place) as ready:
                yield ready
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def remark(self, text: str) -> None:
        """Keep something the reader of the report has to know, once."""
        if text not in self.remarks:
            self.remarks.append(text)


class Measure(Protocol):
    """One kind of measurement."""

    name: str
    about: str

    def applies(self, backend: Backend) -> bool:
        """Whether this peer can be measured so."""

    def run(self, bench: Bench, backend: Backend) -> dict[str, float]:
        """Measure once and return figures by their name in `metrics.py`; infinite means never."""
