"""The dashboards by Grafana's own schema, which CI makes from its types."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

GRAFANA = Path(__file__).parents[2] / "dashboards" / "grafana"
VARIABLE = "GRAFANA_SCHEMA"
"""Path of the schema: see the step "Grafana's schema" in `.ci/run`."""


@pytest.fixture(scope="module")
def validator() -> Draft7Validator:
    """Knows what a dashboard is."""
    path = os.environ.get(VARIABLE)
    if not path:
        pytest.skip(f"needs the JSON schema made from npm's @grafana/schema, as .ci/run makes it, in {VARIABLE}")
    return Draft7Validator(json.loads(Path(path).read_text()))


def problems(validator: Draft7Validator, board: Any) -> list[str]:
    """What is wrong with a dashboard."""
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}" for error in validator.iter_errors(board)]


@pytest.mark.parametrize("path", sorted(GRAFANA.glob("*.json")), ids=lambda path: path.stem)
def test_a_dashboard_is_one_by_grafana_s_schema(validator: Draft7Validator, path: Path) -> None:
    """And with a panel spoilt, it is none."""
    board = json.loads(path.read_text())
    assert problems(validator, board) == []
    board["panels"][1]["title"] = 5
    assert len(problems(validator, board)) == 1


@pytest.mark.parametrize("path", sorted(GRAFANA.glob("*.json")), ids=lambda path: path.stem)
def test_a_dashboard_can_be_imported_anywhere(path: Path) -> None:
    """Its data source is a variable, its panels have numbers of their own, and none lies over another."""
    board = json.loads(path.read_text())
    panels = board["panels"]
    sources = {json.dumps(panel["datasource"]) for panel in panels if panel["type"] != "row"}
    assert sources == {json.dumps({"type": "prometheus", "uid": "${datasource}"})}
    assert {variable["name"] for variable in board["templating"]["list"]} >= {"datasource", "bucket"}
    numbers = [panel["id"] for panel in panels if panel["type"] != "row"]
    assert len(set(numbers)) == len(numbers)
    cells = [
        (column, row)
        for panel in panels
        for column in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for row in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(column for column, _ in cells) < 24
