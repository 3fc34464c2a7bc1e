"""What the monitor costs: `python -m tests.monitor.cost`. Prints a table; every figure is measured, none is judged."""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

from tests.monitor.crowd import Run, crowd
from tests.monitor.storm import build, change
from tests.monitor.watched import WatchedMonitor

from llm_sched.snapshot import read_snapshot
from llm_sched_tui.view_model.model import Model
from llm_sched_tui.view_model.values import Query, Reading, ScreenName

if TYPE_CHECKING:
    from collections.abc import Generator

_WARM_S, _QUIET_S = 3.0, 12.0
_REFRESH_S = 0.25
_QUICK = Run("bench", "p", "m", callers=4, hold_s=(0.004, 0.004), cap=4, rest_s=(0.0, 0.0))


@contextlib.contextmanager
def _storm(path: Path) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.monitor.storm", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            if process.stdin is not None:
                process.stdin.close()
            process.wait(10)


def loads(folder: Path, seconds: float) -> None:
    """Processor time and memory under a thousand writes a second, and when they stop."""
    path = folder / "storm.json"
    with _storm(path) as writer:
        _until(path.exists)
        for key, name in (("1", "overview"), ("2", "bucket"), ("3", "runs"), ("4", "events")):
            with WatchedMonitor(str(path), "--refresh", str(_REFRESH_S)) as monitor:
                monitor.wait_for("provider/model-7")
                monitor.press(key)
                time.sleep(_WARM_S)
                began = monitor.memory_mb()
                load = monitor.load(seconds)
                _tell(f"1,000 writes/s, {name}", f"{load:.1f} % of a core, {began:.0f} -> {monitor.memory_mb():.0f} MB")
        with WatchedMonitor(str(path), "--refresh", str(_REFRESH_S)) as monitor:
            monitor.wait_for("provider/model-7")
            _stop(writer)
            time.sleep(_QUIET_S)
            _tell("nothing changes, overview", f"{monitor.load(seconds):.1f} % of a core")


def _stop(writer: subprocess.Popen[str]) -> None:
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write("\n")
    writer.stdin.flush()
    writes, seconds = writer.stdout.readline().split()
    _tell("writes", f"{int(writes) / float(seconds):.0f}/s")


def first_paint(folder: Path, rounds: int) -> None:
    """From the start of the process to a row on the screen."""
    path = folder / "still.json"
    with _storm(path) as writer:
        _until(path.exists)
        _stop(writer)
        times: list[float] = []
        for _ in range(rounds):
            with WatchedMonitor(str(path)) as monitor:
                times.append(monitor.wait_for("provider/model-7"))
    _tell("start to first paint", f"median {statistics.median(times):.2f} s, slowest {max(times):.2f} s of {rounds}")


def history(folder: Path, minutes: int) -> None:
    """Memory of the view model over some time at four looks a second, fed as fast as it takes them."""
    from llm_sched import codec  # noqa: PLC0415 - only here
    from llm_sched.store.files import TwinFile  # noqa: PLC0415 - only here

    path = folder / "hour.json"
    state, rooms = build(path)
    file = TwinFile(path, 0o600)
    model, screens = Model(), ("overview", "bucket", "runs", "events")
    tracemalloc.start()
    began, told = time.monotonic(), []
    for tick in range(4 * 60 * minutes + 1):
        change(state, tick)
        file.write(codec.encode(state))
        at = tick * _REFRESH_S
        model.take(Reading(at, at, 1.7e9 + at, read_snapshot(path)))
        screen: ScreenName = screens[tick % 4]
        model.view(Query(screen=screen, bucket="provider/model-0"), at, 1.7e9 + at)
        if tick % (4 * 10 * minutes) == 0:
            told.append(f"{tracemalloc.get_traced_memory()[0] / 1e6:.1f}")
    tracemalloc.stop()
    for room in rooms:
        room.leave()
    file.close()
    _tell(f"{minutes} min of history", f"{', '.join(told)} MB, every {minutes / 6:g} min ({time.monotonic() - began:.0f} s)")


def writers(folder: Path, seconds: float, rounds: int) -> None:
    """Grants a second of two processes with four callers each, with and without a monitor, alternating."""
    grants: dict[bool, list[float]] = {True: [], False: []}
    for number in range(rounds):
        for watched in (True, False) if number % 2 else (False, True):
            path = folder / f"slots-{number}-{watched}.json"
            with crowd([_QUICK, _QUICK], path):
                _until(path.exists)
                with contextlib.ExitStack() as stack:
                    if watched:
                        stack.enter_context(WatchedMonitor(str(path))).wait_for("p/m")
                    time.sleep(1.0)
                    grants[watched].append(_grants(path, seconds))
    for watched, rates in grants.items():
        told = f"median {statistics.median(rates):.0f}, {min(rates):.0f} to {max(rates):.0f} grants/s in {rounds} rounds"
        _tell(f"slots {'with' if watched else 'without'} a monitor", told)


def _grants(path: Path, seconds: float) -> float:
    before, begun = read_snapshot(path).buckets[0].totals.granted, time.monotonic()
    time.sleep(seconds)
    return (read_snapshot(path).buckets[0].totals.granted - before) / (time.monotonic() - begun)


def _until(condition: object) -> None:
    deadline = time.monotonic() + 30
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)


def _tell(what: str, figure: str) -> None:
    sys.stdout.write(f"{what:<28} {figure}\n")
    sys.stdout.flush()


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short: everything runs, the figures are rough")
    parser.add_argument("--only", choices=("loads", "paint", "history", "writers"))
    options = parser.parse_args()
    seconds, rounds = (3.0, 1) if options.quick else (20.0, 5)
    with tempfile.TemporaryDirectory(prefix="llm-sched-cost-") as name:
        folder = Path(name)
        if options.only in {None, "paint"}:
            first_paint(folder, rounds)
        if options.only in {None, "loads"}:
            loads(folder, seconds)
        if options.only in {None, "writers"}:
            writers(folder, seconds / 2, rounds)
        if options.only in {None, "history"}:
            history(folder, 3 if options.quick else 60)


if __name__ == "__main__":
    main()
