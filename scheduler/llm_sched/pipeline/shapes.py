"""Documents against shapes: every wrong type becomes one line with its place."""

# Law: translates pydantic's findings into ours. It never quotes a value (see `problems`).

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from llm_sched.pipeline.problems import suggestion

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from llm_sched.pipeline.documents import Document

Shape = TypeVar("Shape", bound=BaseModel)

_TEXTS = {
    "string_type": "must be a text",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of names to values",
    "model_type": "must be a mapping of names to values",
    "model_attributes_type": "must be a mapping of names to values",
    "missing": "is missing",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
}
_NAMES: dict[type[object], str] = {
    str: "text",
    int: "number",
    float: "number",
    bool: "true or false",
    list: "list",
    dict: "mapping",
    type(None): "nothing",
}


def _name(value: object) -> str:
    return _NAMES.get(type(value), "that")


def checked(
    shape: type[Shape], data: object, document: Document, keys: Sequence[str | int] = ()
) -> tuple[Shape | None, list[str]]:
    """Check a part of a document.

    Args:
        shape: what it must look like.
        data: the part, `env:` values replaced.
        document: where it stands, for the places in messages.
        keys: the part's path in the document.

    Returns:
        The part in its shape and no problems, or None and one line for each problem.
    """
    try:
        return shape.model_validate(data), []
    except ValidationError as error:
        return None, [_line(shape, finding, data, document, keys) for finding in error.errors(include_url=False)]


def _line(
    shape: type[BaseModel],
    finding: ErrorDetails,
    data: object,
    document: Document,
    keys: Sequence[str | int],
) -> str:
    kind, location = finding["type"], finding["loc"]
    path = _path(location, data, keep_last=kind == "missing")
    if kind == "extra_forbidden":
        return document.problem((*keys, *path), f"unknown; {suggestion(str(path[-1]), _names_at(shape, location))}")
    text = _TEXTS.get(kind) or finding["msg"].replace("Input should be", "must be").replace("Value error, ", "")
    got = "" if kind == "missing" else f", not {_name(finding['input'])}" if kind in _TEXTS else ""
    return document.problem((*keys, *path), text + got)


def _names_at(shape: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    """The keys that there may be where pydantic has found an unknown one."""
    for key in location:
        field = shape.model_fields.get(str(key))
        shape = (_model_in(field.annotation) if field else None) or shape
    return [field.alias or name for name, field in shape.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - a type, in any wrapping
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for part in get_args(annotation) if (model := _model_in(part))), None)


def _path(location: Sequence[str | int], data: Any, *, keep_last: bool) -> list[str | int]:  # noqa: ANN401 - any document
    """The part of pydantic's location that is in the document: it also names the members of unions."""
    path: list[str | int] = []
    for number, key in enumerate(location):
        try:
            data = data[key]
        except (LookupError, TypeError):
            if not keep_last or number < len(location) - 1:
                continue
        path.append(key)
    return path
