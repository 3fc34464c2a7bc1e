"""JSON Schema files for editors, made from the models; the made ones lie in `json_schema/`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_sched.pipeline.kinds import INFRA_KINDS, Agent, InfraMiddleware
from llm_sched.pipeline.params import PARAMS

if TYPE_CHECKING:
    from pydantic import BaseModel

FOLDER = Path(__file__).parent / "json_schema"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_files() -> dict[str, str]:
    """The files' names and contents, as they should be."""
    return {"infra.schema.json": _text(_infra()), "agent.schema.json": _text(_document(Agent))}


def write() -> None:
    """Write the files anew: `python -m llm_sched.pipeline.json_schemas`."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in schema_files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def _document(model: type[BaseModel]) -> dict[str, Any]:
    return {"$schema": DIALECT, **model.model_json_schema(ref_template="#/$defs/{model}")}


def _infra() -> dict[str, Any]:
    """One schema for all kinds: `kind` says which of them a document must be."""
    definitions: dict[str, Any] = {}
    for model in (*INFRA_KINDS.values(), *PARAMS.values()):
        schema = model.model_json_schema(ref_template="#/$defs/{model}")
        definitions.update(schema.pop("$defs", {}))
        definitions[model.__name__] = schema
    conditions = [_when("kind", name, {"$ref": f"#/$defs/{name}"}) for name in INFRA_KINDS]
    spec: dict[str, Any] = definitions[InfraMiddleware.__name__]["properties"]
    spec["spec"] = {"allOf": [spec["spec"], *(_params(name, model) for name, model in PARAMS.items())]}
    return {
        "$schema": DIALECT,
        "title": "infra/v1",
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": {"kind": {"enum": list(INFRA_KINDS)}},
        "allOf": conditions,
        "$defs": definitions,
    }


def _params(middleware: str, model: type[BaseModel]) -> dict[str, Any]:
    names = {"enum": sorted({middleware, middleware.replace("_", "-")})}
    then = {"properties": {"params": {"anyOf": [{"$ref": f"#/$defs/{model.__name__}"}, {"type": "null"}]}}}
    return {"if": {"required": ["middleware"], "properties": {"middleware": names}}, "then": then}


def _when(key: str, value: str, then: dict[str, Any]) -> dict[str, Any]:
    return {"if": {"required": [key], "properties": {key: {"const": value}}}, "then": then}


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    write()
