"""What telemetry costs a caller, and what the exporter costs the machine."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.bench import CAP
from tests.benchmarks.commands import Connect, Hold, Pairs, Queue
from tests.benchmarks.fleet import Fleet
from tests.benchmarks.peers import OURS
from tests.benchmarks.reporting import KINDS, ConnectReporting

if TYPE_CHECKING:
    from tests.benchmarks.bench import Bench
    from tests.benchmarks.peers.base import Backend

_WAITERS = 64
_LIMIT_S = 30.0


class Telemetry:
    """Uncontended pairs with telemetry kept out, not configured, recording, and sending to an endpoint that hangs.

    One worker for each, asked in turn for a batch, so that what the machine does meanwhile happens to all. And the CPU of
    `llm-sched export` while Prometheus asks every second: 8 hold, 64 wait.
    """

    name = "telemetry"
    about = "pairs with and without telemetry; CPU of the exporter"

    def applies(self, backend: Backend) -> bool:
        """Only ours."""
        return backend.name == OURS

    def run(self, bench: Bench, backend: Backend) -> dict[str, float]:
        """Measure both."""
        return {**self._pairs(bench, backend), "telemetry.export_cpu_pct": self._export(bench, backend)}

    @staticmethod
    def _pairs(bench: Bench, backend: Backend) -> dict[str, float]:
        with ExitStack() as stack:
            place = stack.enter_context(bench.place(backend, waiters=1))
            deaf = stack.enter_context(socket.socket())
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(64)
            endpoint = f"http://127.0.0.1:{deaf.getsockname()[1]}"
            fleets = {kind: stack.enter_context(Fleet(1)) for kind in KINDS}
            for kind, fleet in fleets.items():
                fleet.tell(ConnectReporting(place, kind, endpoint))
                fleet.tell(Pairs(1, bench.scale.pair_batch_s))
            found: dict[str, list[float]] = {kind: [] for kind in KINDS}
            for _ in range(bench.scale.pair_batches):
                for kind, fleet in fleets.items():
                    found[kind] += fleet.tell(Pairs(1, bench.scale.pair_batch_s))
            return {f"telemetry.{kind}_us": statistics.median(values) for kind, values in found.items()}

    @staticmethod
    def _export(bench: Bench, backend: Backend) -> float:
        with bench.place(backend, waiters=_WAITERS) as place, Fleet(2) as fleet:
            fleet.tell(Connect(backend.name, place))
            holder, waiter = fleet.workers
            holder.ask(Hold(CAP))
            waiter.ask(Queue(_WAITERS))
            code = "from llm_sched.cli import main; main()"
            command = [
                sys.executable,
                "-c",
                code,
                "export",
                "--prometheus",
                "0",
                "--state",
                str(Path(place.folder) / "state.json"),
            ]
            exporter = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            try:
                return _load(exporter, bench.scale.idle_s)
            finally:
                exporter.kill()
                exporter.communicate()


def _load(exporter: subprocess.Popen[str], seconds: float) -> float:
    """Ask every second, and return the share of a core in percent that answering took."""
    if exporter.stderr is None:
        raise AssertionError
    url = exporter.stderr.readline().split(" at ")[1].strip()
    _ask(url)
    before, begin = _cpu_s(exporter.pid), time.monotonic()
    asked = 0
    while time.monotonic() - begin < seconds:
        asked += 1
        time.sleep(max(0.0, begin + asked - time.monotonic()))
        _ask(url)
    return 100 * (_cpu_s(exporter.pid) - before) / (time.monotonic() - begin)


def _ask(url: str) -> None:
    with urllib.request.urlopen(url, timeout=_LIMIT_S) as answer:  # noqa: S310 - our own address
        answer.read()


def _cpu_s(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat").read_bytes()
    user, system = stat[stat.rindex(b")") + 2 :].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
