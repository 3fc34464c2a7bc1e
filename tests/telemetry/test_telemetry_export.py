"""`llm-sched export`: the one process that reports the ledger, whatever becomes of the file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from telemetry_commands import MAIN
from telemetry_stage import BUCKET, until

from llm_sched import Policy, Scheduler
from llm_sched.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from telemetry_sink import Sink

OPENAI = {"provider": "openai", "model": "gpt-4o"}


class Exporter:
    """A running `llm-sched export`; `lines` are what it said until it was ready."""

    def __init__(self, path: Path, *options: str) -> None:
        self._process = subprocess.Popen(
            [*MAIN, "export", "--state", str(path), *options],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stderr
        self.line = self._process.stderr.readline()

    @property
    def pid(self) -> int:
        """Its pid."""
        return self._process.pid

    def ask(self) -> dict[str, float]:
        """What Prometheus would get: `name{labels}` -> value."""
        url = self.line.split(" at ")[1].strip()
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own address
            text = answer.read().decode()
        return {
            name: float(value)
            for name, _, value in (line.rpartition(" ") for line in text.splitlines())
            if name.startswith("llm_scheduler")
        }

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """End it: its exit code and all that it said after its first line."""
        self._process.send_signal(number)
        _, errors = self._process.communicate(timeout=60)
        return self._process.returncode, errors

    def clear_away(self) -> None:
        """Whatever is left of it."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def export(ledger: Path) -> Iterator[Callable[..., Exporter]]:
    """Start an exporter of the test's ledger."""
    started: list[Exporter] = []

    def start(*options: str) -> Exporter:
        started.append(Exporter(ledger, *options))
        return started[-1]

    yield start
    for each in started:
        each.clear_away()


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger's path, in a folder that is not there yet."""
    return tmp_path / "folder" / "ledger.json"


@pytest.fixture
def scheduler(ledger: Path) -> Iterator[Scheduler]:
    """Uses the ledger."""
    scheduler = Scheduler(Policy(max_in_flight=3, requests_per_minute=600, burst=5, state_path=ledger))
    yield scheduler
    scheduler.close()


def labelled(name: str) -> str:
    """A metric of the bucket, as Prometheus writes it."""
    return f'{name}{{llm_scheduler_bucket="{BUCKET}"}}'


def test_prometheus_gets_the_ledger(export: Callable[..., Exporter], scheduler: Scheduler) -> None:
    """Every fact about it, and nothing else."""
    exporter = export("--prometheus", "0")
    slots = [scheduler.acquire(**OPENAI) for _ in range(2)]
    found = exporter.ask()
    available = found.pop(labelled("llm_scheduler_ledger_rate_available"))
    assert 3 <= available <= 5
    assert found == {
        labelled("llm_scheduler_ledger_in_flight"): 2,
        labelled("llm_scheduler_ledger_waiting"): 0,
        labelled("llm_scheduler_ledger_limit"): 3,
        labelled("llm_scheduler_ledger_oldest_wait_seconds"): 0,
        labelled("llm_scheduler_ledger_rate_limit"): 600,
        "llm_scheduler_ledger_owners": 1,
    }
    for slot in slots:
        slot.release()
    assert exporter.end() == (0, "")


def test_otlp_gets_the_ledger(export: Callable[..., Exporter], scheduler: Scheduler, sink: Sink) -> None:
    """Also a last time at the end, and always as the same instance."""
    slot = scheduler.acquire(**OPENAI)
    first = export("--otlp", sink.endpoint, "--interval", "0.1")
    until(lambda: sink.total(names.LEDGER_IN_FLIGHT) == 1)
    assert first.end(signal.SIGINT)[0] == 0
    slot.release()
    second = export("--otlp", sink.endpoint, "--interval", "3600")
    second.end()
    assert sink.total(names.LEDGER_IN_FLIGHT) == 0
    assert sink.total(names.LEDGER_OWNERS) == 1
    (instance,) = sink.instances()
    assert instance.startswith("ledger-")


def test_a_second_exporter_is_refused_and_told_who_is_the_first(export: Callable[..., Exporter], ledger: Path) -> None:
    """Two would report everything twice; when the first is gone, however it went, another may begin."""
    first = export("--prometheus", "0")
    again = subprocess.run(
        [*MAIN, "export", "--state", str(ledger), "--prometheus", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert again.returncode == 1
    assert f"{ledger} is already exported by process {first.pid} (" in again.stderr
    assert "Traceback" not in again.stderr
    first.end(signal.SIGKILL)
    assert export("--prometheus", "0").ask() == {"llm_scheduler_ledger_owners": 0}


def test_it_survives_absence_corruption_and_replacement(
    export: Callable[..., Exporter], scheduler: Scheduler, ledger: Path
) -> None:
    """It reports what can be read, and says once what cannot."""
    exporter = export("--prometheus", "0")
    assert exporter.ask() == {"llm_scheduler_ledger_owners": 0}
    scheduler.acquire(**OPENAI).release()
    until(lambda: exporter.ask().get("llm_scheduler_ledger_owners") == 1)
    content = ledger.read_bytes()
    ledger.write_text('{"something": "else"}')
    until(lambda: exporter.ask() == {})
    ledger.unlink()
    ledger.write_bytes(content)
    until(lambda: exporter.ask().get("llm_scheduler_ledger_owners") == 1)
    ledger.unlink()
    ledger.with_name(f"{ledger.name}.copy").unlink()
    until(lambda: exporter.ask() == {"llm_scheduler_ledger_owners": 0})
    code, said = exporter.end()
    assert code == 0
    assert [line.split(": ", 1)[1] for line in said.splitlines()] == [
        f"{ledger} is foreign; nothing is reported until that changes",
        f"{ledger} can be read again",
    ]


def test_it_takes_no_lock(export: Callable[..., Exporter], scheduler: Scheduler, ledger: Path) -> None:
    """It reports while somebody else has the ledger's."""
    import fcntl  # noqa: PLC0415 - not on every system

    scheduler.acquire(**OPENAI).release()
    with ledger.with_name(f"{ledger.name}.lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert export("--prometheus", "0").ask()["llm_scheduler_ledger_owners"] == 1


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ([], 2, "Where to? Give --otlp [ENDPOINT] or --prometheus [HOST:]PORT"),
        (["--prometheus", "nonsense"], 2, "is no HOST:PORT, for example 127.0.0.1:9464"),
        (["--prometheus", "192.0.2.1:9"], 1, "--prometheus 192.0.2.1:9: cannot listen there"),
        (["--otlp", "nonsense"], 1, "endpoint='nonsense': must be a URL such as http://localhost:4318"),
        (["--otlp", "http://user:secret@"], 1, "endpoint='http://': must be a URL"),
    ],
)
def test_bad_input_is_one_clear_line(ledger: Path, options: list[str], code: int, words: str) -> None:
    """No traceback, no secret."""
    done = subprocess.run(
        [*MAIN, "export", "--state", str(ledger), *options], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.soak
def test_the_environment_says_where_to(ledger: Path, sink: Sink) -> None:
    """Without options, the standard variables count; a dead endpoint is one line and no end."""
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    process = subprocess.Popen(
        [*MAIN, "export", "--state", str(ledger), "--interval", "0.1"], env=environment, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr
    assert "to http://127.0.0.1:1/v1/metrics every 0.1 s" in process.stderr.readline()
    assert "llm-sched: telemetry:" in process.stderr.readline()
    assert process.poll() is None
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def test_ten_thousand_users_are_a_bounded_number_of_series(ledger: Path, export: Callable[..., Exporter]) -> None:
    """The first hundred buckets by name, and the rest as `other`."""
    scheduler = Scheduler(Policy(state_path=ledger))
    slots = [scheduler.acquire(provider="p", model=f"m{number}") for number in range(500)]
    found = export("--prometheus", "0").ask()
    held = {name: value for name, value in found.items() if name.startswith("llm_scheduler_ledger_in_flight")}
    assert len(held) == names.MOST_BUCKETS + 1
    assert sum(held.values()) == 500
    assert held['llm_scheduler_ledger_in_flight{llm_scheduler_bucket="other"}'] == 400
    for slot in slots:
        slot.release()
    scheduler.close()


def test_a_lock_file_of_another_kind_is_no_trouble(ledger: Path, export: Callable[..., Exporter]) -> None:
    """What stands in it is only told, never trusted."""
    ledger.parent.mkdir()
    ledger.with_name(f"{ledger.name}.export").write_text(json.dumps({"some": "thing"}))
    exporter: Any = export("--prometheus", "0")
    assert exporter.ask() == {"llm_scheduler_ledger_owners": 0}
