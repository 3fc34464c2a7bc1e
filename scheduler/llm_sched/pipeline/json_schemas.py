"""JSON Schema files for editors, made from the models; the made ones lie in `json_schema/`.

`python -m llm_sched.lab.json_schemas` writes them anew, and the experiments' one beside them.
"""

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


def schema_files(**documents: type[BaseModel]) -> dict[str, str]:
    """The files' names and contents, as they should be; `documents` are more of them, by name."""
    models: dict[str, type[BaseModel]] = {"agent": Agent, **documents}
    return {
        "infra.schema.json": _text(_infra()),
        **{f"{name}.schema.json": _text(_document(model)) for name, model in models.items()},
    }


def write(files: dict[str, str]) -> None:
    """Write the files into `json_schema/`."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in files.items():
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
    return json.dumps(_with_variables(schema), indent=2) + "\n"


def _with_variables(schema: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """Wherever a number or a truth value may stand, `env:NAME` may stand as well."""
    if isinstance(schema, list):
        items: list[Any] = schema  # pyright: ignore[reportUnknownVariableType] # JSON
        return [_with_variables(item) for item in items]
    if not isinstance(schema, dict):
        return schema
    parts: dict[str, Any] = schema  # pyright: ignore[reportUnknownVariableType] # JSON
    parts = {name: _with_variables(part) for name, part in parts.items()}
    kind = parts.get("type")
    if not isinstance(kind, str) or kind not in {"integer", "number", "boolean"}:  # a property may be named `type`
        return parts
    about = {name: parts.pop(name) for name in ("title", "description", "default") if name in parts}
    return {**about, "anyOf": [parts, {"type": "string", "pattern": "^env:"}]}
