"""The dashboards on a real Prometheus: every expression of every panel shows data of a real run; the rules are tested."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from telemetry_commands import MAIN
from telemetry_crew import Crew
from telemetry_prometheus import Prometheus, program

from llm_sched.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(240)

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
RULES = DASHBOARDS / "prometheus" / "rules.yaml"
PATIENCE_S = 90.0
LABELS = {names.label(key) for key in (names.BUCKET, names.RESULT, names.LIMIT_KIND)}
SUFFIXES = r"(?:_bucket|_count|_sum)?"


class Query(NamedTuple):
    """One expression of one panel."""

    board: str
    panel: str
    expr: str


def queries() -> list[Query]:
    """All that the committed dashboards ask."""
    found: list[Query] = []
    for path in sorted((DASHBOARDS / "grafana").glob("*.json")):
        board = json.loads(path.read_text())
        for panel in board["panels"]:
            found += [Query(path.stem, panel["title"], target["expr"]) for target in panel.get("targets", [])]
    return found


def metrics_in(expr: str) -> set[str]:
    """The metrics that an expression names."""
    return set(re.findall(r"llm_scheduler_[a-z_]+", expr)) - LABELS


def filled(expr: str) -> str:
    """An expression as Grafana sends it: with its variables' values."""
    values = {"$__rate_interval": "10s", "$bucket": ".*", "$instance": ".*"}
    for name, value in values.items():
        expr = expr.replace(name, value)
    assert "$" not in expr
    return expr


def empty(prometheus: Prometheus, asked: list[Query]) -> list[Query]:
    """Those that show nothing now, or that name a metric that is not there."""
    return [each for each in asked if not _shows(prometheus, each.expr)]


def _shows(prometheus: Prometheus, expr: str) -> bool:
    values = prometheus.query(filled(expr)).values()
    return any(map(math.isfinite, values)) and all(prometheus.query(metric) for metric in metrics_in(expr))


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """Children on one ledger."""
    crew = Crew(tmp_path_factory.mktemp("contention"), {})
    yield crew
    crew.clear_away()


@pytest.fixture(scope="module")
def prometheus(crew: Crew) -> Iterator[Prometheus]:
    """It watches two programs that contend, and the exporter; a third program dies while it holds a slot."""
    program("prometheus")
    workers = [crew.start("scraped"), crew.start("scraped")]
    ports = [worker.line() for worker in workers]
    ledger = crew.folder / "ledger.json"
    exporter = subprocess.Popen(
        [*MAIN, "export", "--state", str(ledger), "--prometheus", "0"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert exporter.stderr
        address = exporter.stderr.readline().split(" at http://")[1].partition("/")[0]
        targets = {"programs": [f"127.0.0.1:{port}" for port in ports], "export": [address]}
        prometheus = Prometheus(targets, RULES)
        try:
            yield prometheus
        finally:
            prometheus.close()
    finally:
        for worker in workers:
            worker.tell()
            worker.end()
        exporter.terminate()
        exporter.communicate(timeout=60)


def kill_a_holder(crew: Crew) -> None:
    """So that a slot is taken back."""
    victim = crew.start("hold_quietly")
    victim.hear("holds")
    victim.send(signal.SIGKILL)
    victim.end(-signal.SIGKILL)


@pytest.mark.soak
def test_every_panel_shows_data_of_a_real_run(prometheus: Prometheus, crew: Crew) -> None:
    """None is empty; a holder dies now and then until that is seen, too."""
    asked = queries()
    assert len(asked) > 30
    recorded = [Query("rules", name, name) for name in re.findall(r"record: (\S+)", RULES.read_text())]
    end = time.monotonic() + PATIENCE_S
    while missing := [*empty(prometheus, [*asked, *recorded]), *nothing_reclaimed(prometheus)]:
        assert time.monotonic() < end, missing
        kill_a_holder(crew)


def nothing_reclaimed(prometheus: Prometheus) -> list[str]:
    """Whether no slot has been taken back yet."""
    taken_back = sum(prometheus.query(f"sum({names.RECLAIMED.prometheus})").values())
    return [] if taken_back else ["no slot was taken back"]


@pytest.mark.soak
def test_a_planted_wrong_name_is_found(prometheus: Prometheus) -> None:
    """In every expression, for every metric of it: also behind an `or`, where it would show nothing amiss."""
    for each in queries():
        for metric in metrics_in(each.expr):
            planted = each._replace(expr=each.expr.replace(metric, metric.replace("llm_scheduler_", "llm_scheduler_x")))
            assert empty(prometheus, [planted]) == [planted]


@pytest.mark.soak
def test_the_rules_are_healthy(prometheus: Prometheus) -> None:
    """Loaded and evaluated by a real Prometheus, without an error."""
    groups: list[dict[str, Any]] = prometheus.get("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == len(re.findall(r"- (?:record|alert): ", RULES.read_text()))
    assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []


@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", "rules.yaml"), ("check", "config", "prometheus.yaml"), ("test", "rules", "rules_test.yaml")],
)
def test_promtool_is_content(arguments: tuple[str, ...]) -> None:
    """Syntax, references, and the rules' own cases."""
    done = subprocess.run(
        [program("promtool"), *arguments], cwd=RULES.parent, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_rule_has_a_case() -> None:
    """Each alert fires in one and is silent in one; each recorded name is looked at."""
    cases = (RULES.parent / "rules_test.yaml").read_text()
    rules = RULES.read_text()
    for alert in re.findall(r"- alert: (\S+)", rules):
        assert cases.count(f"alertname: {alert}\n") >= 1
        assert re.search(rf"alertname: {alert}\n\s+exp_alerts:\n", cases), f"{alert} never fires"
    for name in re.findall(r"record: (\S+)", rules):
        assert f"expr: {name}\n" in cases


def test_the_files_are_what_the_generator_makes() -> None:
    """Made again, they are the same."""
    done = subprocess.run(
        [sys.executable, str(DASHBOARDS / "generate.py"), "--check"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
