"""The JSON Schema files for editors: as the models are, and of one mind with the loader."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from chat_support import AGENT

from llm_sched.config import Policy
from llm_sched.lab.json_schemas import schema_files
from llm_sched.pipeline import cache, json_schemas
from llm_sched.pipeline.libraries import OUR_LIBRARIES
from llm_sched.pipeline.params import PARAMS, CacheParams, SchedulerParams
from llm_sched.pipeline.registry import MIDDLEWARES
from llm_sched.pipeline.retry import Backoff

LIBRARIES = Path(json_schemas.__file__).parent / "libs"
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.yaml"))
SHIPPED = [path for library in OUR_LIBRARIES for path in sorted((LIBRARIES / library).glob("*.yaml"))]


def accepts(name: str, document: Any) -> bool:
    schema = json.loads((json_schemas.FOLDER / name).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return bool(jsonschema.Draft202012Validator(schema).is_valid(document))


def test_the_committed_files_are_those_of_the_models() -> None:
    """When this fails: `python -m llm_sched.lab.json_schemas`, and commit what it wrote."""
    committed = {path.name: path.read_text() for path in json_schemas.FOLDER.iterdir()}
    assert committed == schema_files()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}:{path.stem}")
def test_shipped_manifests_conform(path: Path) -> None:
    """An editor finds nothing to complain about in ours."""
    assert accepts("infra.schema.json", yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    "text",
    [
        "{apiVersion: infra/v1, kind: Nothing}",
        "{apiVersion: infra/v2, kind: InfraMiddleware}",
        "{apiVersion: infra/v1, kind: LLMProxy, spec: {proxy: []}}",
        "{apiVersion: infra/v1, kind: InfraMiddleware, spec: {middleware: llm_scheduler, params: {max_inflight: 1}}}",
        "{apiVersion: infra/v1, kind: InfraMiddleware, spec: {middleware: llm-cache, params: {enabled: maybe}}}",
        "{apiVersion: infra/v1, kind: InfraBundle, spec: {entries: {a: b}}}",
    ],
)
def test_an_editor_marks_what_the_loader_refuses(text: str) -> None:
    """Kinds, types, and parameters of our middlewares."""
    assert not accepts("infra.schema.json", yaml.safe_load(text))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_conform(path: Path) -> None:
    """Each example is accepted by the schema that its first line names."""
    text = path.read_text()
    named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)
    if named:
        schema = path.parent / named[1]
        assert schema.read_text() == (json_schemas.FOLDER / schema.name).read_text()
    kind = {"infra/v1": "infra", "mas/v1": "agent", "lab/v1": "experiment"}[yaml.safe_load(text)["apiVersion"]]
    assert accepts(f"{kind}.schema.json", yaml.safe_load(text))


def test_agents_conform() -> None:
    """Unknown keys are fine, wrong types are not."""
    assert accepts("agent.schema.json", yaml.safe_load(AGENT))
    assert not accepts("agent.schema.json", yaml.safe_load(AGENT.replace("temperature: 0.5", "temperature: [1]")))


def test_parameters_are_those_of_the_middlewares() -> None:
    """A knob that a middleware gains is one that its manifest gains."""
    assert set(PARAMS) == set(MIDDLEWARES)
    policy = {name for name in Policy.__struct_fields__ if name != "sources"}
    assert set(SchedulerParams.model_fields) == policy | set(Backoff.__struct_fields__)
    assert set(CacheParams.model_fields) == set(cache.CacheParams.__struct_fields__)
    defaults = cache.CacheParams()
    assert {name: field.default for name, field in CacheParams.model_fields.items()} == {
        name: getattr(defaults, name) for name in cache.CacheParams.__struct_fields__
    }
