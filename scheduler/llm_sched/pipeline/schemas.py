"""JSON in a model's answer: finding it, and checking it against a schema.

The law: pure. Neither pydantic nor jsonschema is imported unless a caller brings a schema of theirs; a pydantic model is known
by its methods.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from llm_sched.errors import ConfigError

_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_MOST_PROBLEMS = 5


@runtime_checkable
class PydanticModel(Protocol):
    """What we use of a pydantic model class."""

    def model_validate(self, obj: Any, /) -> Any:  # noqa: ANN401 - pydantic's own
        """Validate a value; raises a `ValueError`."""
        ...

    def model_json_schema(self) -> dict[str, Any]:
        """Its JSON Schema."""
        ...


Schema: TypeAlias = Mapping[str, Any] | PydanticModel
"""A JSON Schema as a mapping, or a pydantic model class."""


def schema_document(schema: Schema | None) -> Mapping[str, Any] | None:
    """The JSON Schema to show to a model.

    Raises:
        ConfigError: it is neither a JSON Schema nor a pydantic model class.
    """
    if schema is None:
        return None
    if isinstance(schema, Mapping):
        _check_schema(schema)
        return schema
    if isinstance(schema, PydanticModel):  # pyright: ignore[reportUnnecessaryIsInstance] # callers are not all typed
        return schema.model_json_schema()
    message = f"schema={schema!r}: must be a pydantic model class or a JSON Schema (a dict)"
    raise ConfigError(message, knob="schema", value=repr(schema), source="argument")


def _check_schema(schema: Mapping[str, Any]) -> None:
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415 - loaded with the first schema
    from jsonschema.validators import validator_for  # noqa: PLC0415 - likewise

    try:
        validator_for(schema).check_schema(dict(schema))
    except SchemaError as error:
        message = f"schema: is no valid JSON Schema: {error.message} at {error.json_path}"
        raise ConfigError(message, knob="schema", value=error.json_path, source="argument") from None


def checked(value: Any, schema: Schema | None) -> Any:  # noqa: ANN401 - any JSON, or the model's instance
    """Return the value, or the pydantic model's instance.

    Raises:
        ValueError: it does not conform; the message lists how.
    """
    if schema is None:
        return value
    if not isinstance(schema, Mapping):
        return schema.model_validate(value)
    from jsonschema.validators import validator_for  # noqa: PLC0415 - loaded with the first schema

    errors = sorted(validator_for(schema)(schema).iter_errors(value), key=lambda error: error.json_path)
    if errors:
        raise ValueError("; ".join(f"{error.json_path}: {error.message}" for error in errors[:_MOST_PROBLEMS]))
    return value


def json_in(text: str) -> Any:  # noqa: ANN401 - any JSON
    """The JSON document in an answer: the whole of it, or what stands in a code fence or after some words.

    Raises:
        ValueError: there is none.
    """
    fenced = _FENCE.search(text)
    body = (fenced.group(1) if fenced else text).strip()
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    try:
        return decoder.decode(body)
    except ValueError as whole:
        start = min((found for found in (body.find("{"), body.find("[")) if found >= 0), default=-1)
        if start < 0:
            raise ValueError(f"the answer is no JSON: {whole}") from None
    try:
        return decoder.raw_decode(body, start)[0]
    except ValueError as error:
        raise ValueError(f"the answer is no JSON: {error}") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")
