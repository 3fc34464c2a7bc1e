"""Names stand in one table, dashboards use only these, and only the set-up knows the SDK."""

from __future__ import annotations

import ast
import configparser
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from llm_sched import model, observer
from llm_sched.telemetry import names

ROOT = Path(__file__).parents[2]
DASHBOARDS = ROOT / "dashboards"
PACKAGE = ROOT / "scheduler" / "llm_sched"

NO_PANEL: dict[str, str] = {}
"""Metric -> why no panel shows it."""

METRICS = {instrument.prometheus for instrument in names.INSTRUMENTS}
PARTS = {
    f"{each.prometheus}{part}"
    for each in names.INSTRUMENTS
    if each.kind == "histogram"
    for part in ("_bucket", "_count", "_sum")
}
LABELS = {names.label(key) for instrument in names.INSTRUMENTS for key in instrument.attributes}

MAY_KNOW_THE_SDK = {"telemetry/providers.py", "telemetry/exporter.py"}
MAY_KNOW_THE_API = {
    *MAY_KNOW_THE_SDK,
    *(f"telemetry/{name}.py" for name in ("otel", "recorder", "spans", "endings", "ledger", "carrier")),
}


def shipped(*endings: str) -> list[Path]:
    """The files of `dashboards/` with these endings."""
    return sorted(path for path in DASHBOARDS.rglob("*") if path.suffix in endings and "__pycache__" not in path.parts)


def imports(path: Path) -> set[str]:
    """The modules that a file imports, also within functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("path", shipped(".json", ".yaml", ".md", ".service"), ids=lambda path: path.name)
def test_dashboards_use_only_what_is_in_the_table(path: Path) -> None:
    """Metrics, their parts, and labels."""
    used = set(re.findall(r"\bllm_scheduler_[a-z_]+", path.read_text()))
    assert used <= METRICS | PARTS | LABELS


def test_each_metric_has_a_panel_or_a_reason() -> None:
    """A metric that nobody shows is one that nobody needs."""
    exprs = [
        target["expr"]
        for path in (DASHBOARDS / "grafana").glob("*.json")
        for panel in json.loads(path.read_text())["panels"]
        for target in panel.get("targets", [])
    ]
    shown = {metric for metric in METRICS if any(re.search(rf"\b{metric}(?:_bucket|_count|_sum)?\b", expr) for expr in exprs)}
    assert METRICS - shown == set(NO_PANEL)


def test_no_name_stands_outside_the_table() -> None:
    """Neither of a metric nor of a span nor of an attribute."""
    for path in PACKAGE.rglob("*.py"):
        if path != PACKAGE / "telemetry" / "names.py":
            literals = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
            found = [
                each for each in literals if isinstance(each, str) and re.match(r"(llm_scheduler|gen_ai)\.(?!json)[a-z]", each)
            ]
            assert found == [], path


def test_names_are_unique_and_described() -> None:
    """Of instruments and of attributes; and each instrument's boundaries are rising."""
    assert len({instrument.name for instrument in names.INSTRUMENTS}) == len(names.INSTRUMENTS)
    assert len(METRICS) == len(names.INSTRUMENTS)
    for instrument in names.INSTRUMENTS:
        assert instrument.name.startswith("llm_scheduler.")
        assert list(instrument.boundaries) == sorted(set(instrument.boundaries))
        assert bool(instrument.boundaries) is (instrument.kind == "histogram")
    assert names.WAIT_DURATION.boundaries == model.WAIT_BOUNDARIES


def test_the_words_for_a_sampled_histogram_are_true() -> None:
    """Their descriptions say how many transactions are measured."""
    assert observer.MEASURED_ONE_IN == 16
    for instrument in (names.LOCK_WAIT_DURATION, names.TRANSACTION_DURATION):
        assert "one " in instrument.description
        assert "in sixteen" in instrument.description


def test_only_the_set_up_knows_the_sdk_and_only_telemetry_the_api() -> None:
    """The application configures the SDK; everything else goes through the API."""
    sdk, api = set(), set()
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        used = imports(path)
        if any(each.startswith(("opentelemetry.sdk", "opentelemetry.exporter")) for each in used):
            sdk.add(name)
        if any(each.split(".")[0] == "opentelemetry" for each in used):
            api.add(name)
    assert sdk == MAY_KNOW_THE_SDK
    assert api == MAY_KNOW_THE_API


COMPONENT = {"type": ["object", "null"]}
ENDPOINT = {"type": "string", "pattern": r"^(127\.0\.0\.1:\d+|\$\{env:[A-Z_]+:-https?://127\.0\.0\.1:\d+\})$"}
PIPELINE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["receivers", "exporters"],
    "properties": {
        key: {"type": "array", "minItems": 1, "uniqueItems": True, "items": {"type": "string"}}
        for key in ("receivers", "processors", "exporters")
    },
}
COLLECTOR: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["receivers", "processors", "exporters", "service"],
    "properties": {
        "receivers": {
            "additionalProperties": False,
            "properties": {
                "otlp": {
                    "additionalProperties": False,
                    "properties": {
                        "protocols": {
                            "additionalProperties": False,
                            "required": ["grpc", "http"],
                            "properties": {
                                name: {"additionalProperties": False, "properties": {"endpoint": ENDPOINT}}
                                for name in ("grpc", "http")
                            },
                        }
                    },
                }
            },
        },
        "processors": {
            "additionalProperties": False,
            "properties": {
                "batch": {"type": "object", "maxProperties": 0},
                "memory_limiter": {
                    "additionalProperties": False,
                    "required": ["check_interval", "limit_mib"],
                    "properties": {"check_interval": {"pattern": r"^\d+m?s$"}, "limit_mib": {"type": "integer"}},
                },
            },
        },
        "exporters": {
            "additionalProperties": False,
            "required": ["prometheus", "otlphttp"],
            "properties": {
                "prometheus": {
                    "additionalProperties": False,
                    "required": ["endpoint"],
                    "properties": {
                        "endpoint": ENDPOINT,
                        "metric_expiration": {"pattern": r"^\d+(s|m|h)$"},
                        "enable_open_metrics": {"type": "boolean"},
                    },
                },
                "otlphttp": {"additionalProperties": False, "required": ["endpoint"], "properties": {"endpoint": ENDPOINT}},
            },
        },
        "service": {
            "additionalProperties": False,
            "properties": {
                "pipelines": {
                    "additionalProperties": False,
                    "required": ["metrics", "traces"],
                    "properties": {"metrics": PIPELINE, "traces": PIPELINE},
                }
            },
        },
    },
}
"""Of the options of the collector's components, as their documentation has them, those that we use."""


def test_the_collector_s_configuration_is_sound() -> None:
    """By schema; every component that a pipeline names is there, and every one that is there is used."""
    config = yaml.safe_load((DASHBOARDS / "collector" / "otelcol.yaml").read_text())
    Draft202012Validator.check_schema(COLLECTOR)
    assert [error.message for error in Draft202012Validator(COLLECTOR).iter_errors(config)] == []
    for kind in ("receivers", "processors", "exporters"):
        used = {name for pipeline in config["service"]["pipelines"].values() for name in pipeline[kind]}
        assert used == set(config[kind])


def test_the_configurations_meet_at_the_same_ports() -> None:
    """What the collector and the exporter offer is where Prometheus asks."""
    collector = yaml.safe_load((DASHBOARDS / "collector" / "otelcol.yaml").read_text())
    jobs = yaml.safe_load((DASHBOARDS / "prometheus" / "prometheus.yaml").read_text())["scrape_configs"]
    asked = {job["job_name"]: job["static_configs"][0]["targets"] for job in jobs}
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(DASHBOARDS / "systemd" / "llm-sched-export.service")
    assert asked["otelcol"] == [collector["exporters"]["prometheus"]["endpoint"]]
    assert asked["llm-sched-export"] == [unit["Service"]["ExecStart"].rpartition(" ")[2]]
    assert unit["Service"]["ExecStart"].split()[1:3] == ["export", "--prometheus"]
