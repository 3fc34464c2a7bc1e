"""All measurements, in the order in which a round makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks.measures.drain import Drain
from tests.benchmarks.measures.handoff import HandOff
from tests.benchmarks.measures.idle import Idle
from tests.benchmarks.measures.imports import Imports
from tests.benchmarks.measures.pair import Pair
from tests.benchmarks.measures.rate import Rate
from tests.benchmarks.measures.recovery import Recovery
from tests.benchmarks.measures.telemetry import Telemetry
from tests.benchmarks.measures.throughput import Throughput

if TYPE_CHECKING:
    from tests.benchmarks.bench import Measure

MEASURES: tuple[Measure, ...] = (
    Pair(),
    HandOff(),
    Throughput(),
    Idle(),
    Recovery(),
    Drain(),
    Rate(),
    Imports(),
    Telemetry(),
)
