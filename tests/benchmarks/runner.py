"""Goes through rounds, measurements and peers, and keeps going when one of them fails."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.benchmarks.fleet import WorkerError
from tests.benchmarks.peers import backend
from tests.benchmarks.results import Results

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.benchmarks.bench import Bench, Measure
    from tests.benchmarks.peers.base import Backend


@dataclass(frozen=True, slots=True)
class Plan:
    """How many rounds are wanted, and after how many seconds no other one is begun that would pass them."""

    rounds: int
    limit_s: float


@contextmanager
def started(names: Sequence[str], folder: Path, bench: Bench) -> Iterator[list[Backend]]:
    """Yield the backends that can run here, with their servers up; what is left out is remarked, with the reason."""
    with ExitStack() as stack:
        ready = []
        for name in names:
            try:
                found = backend(name)
            except ImportError as error:
                bench.remark(f"{name} is left out: {error}")
                continue
            if reason := found.missing():
                bench.remark(f"{name} is left out: {reason}")
                continue
            stack.enter_context(found.serving(folder))
            ready.append(found)
        yield ready


def run(bench: Bench, measures: Sequence[Measure], backends: Sequence[Backend], plan: Plan) -> Results:
    """Make all measurements with all peers in every round; each round begins with another peer."""
    results = Results({each.name: {} for each in backends})
    begin = time.monotonic()
    for turn in range(plan.rounds):
        passed_s = time.monotonic() - begin
        if turn and passed_s * (turn + 1) / turn > plan.limit_s:
            bench.remark(f"only {turn} of {plan.rounds} rounds: another one would pass {plan.limit_s / 60:g} minutes")
            break
        results.rounds_made += 1
        first = turn % max(1, len(backends))
        order = [*backends[first:], *backends[:first]]
        for measure in measures:
            for each in order:
                if measure.applies(each):
                    _measure(bench, measure, each, results, f"round {turn + 1}/{plan.rounds}")
    return results


def _measure(bench: Bench, measure: Measure, each: Backend, results: Results, where: str) -> None:
    begin = time.monotonic()
    _say(f"{where}  {measure.name:<11}{each.name:<12}")
    try:
        results.add(each.name, measure.run(bench, each))
    except WorkerError as error:
        reason = str(error).strip().splitlines()[-1]
        bench.remark(f"{measure.name} failed for {each.name}: {reason}")
        _say("FAILED ")
    _say(f"{time.monotonic() - begin:6.1f} s\n")


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
