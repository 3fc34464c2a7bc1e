"""`env:NAME` and `env:NAME|default` in a manifest's values."""

# Law: pure; the variables are an argument. A key that ends in `_env` holds the name of a variable with a secret. What it
# says is looked up only in variables that end in `_ENV`, which hold names too: any other has the secret itself in it, and
# that would be shown as a name.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "env:"
NAME_SUFFIX = "_env"
"""How keys end, and in capitals variables, that hold the name of another variable."""


def resolved(data: Any, environ: Mapping[str, str]) -> Any:  # noqa: ANN401 - any part of a document
    """A copy of `data` in which every `env:` text is replaced, but for secrets where their names belong.

    An unset variable without a default becomes empty.
    """
    return _resolved(data, environ, {})


def resolved_text(text: str, environ: Mapping[str, str]) -> str:
    """The text, or what the variable holds that it names; an empty variable counts as unset. Defaults may be `env:` too."""
    if not text.startswith(PREFIX):
        return text
    name, _, default = text.removeprefix(PREFIX).partition("|")
    return environ.get(name.strip()) or resolved_text(default.strip(), environ)


def variables(text: object) -> tuple[str, ...]:
    """The variables that an `env:` text names, in order."""
    if not isinstance(text, str) or not text.startswith(PREFIX):
        return ()
    name, _, default = text.removeprefix(PREFIX).partition("|")
    return (name.strip(), *variables(default.strip()))


def _resolved(data: Any, environ: Mapping[str, str], done: dict[int, Any]) -> Any:  # noqa: ANN401 - as above
    # YAML anchors share values: each is resolved once, or a few lines of text could fill the memory.
    if isinstance(data, str):
        return resolved_text(data, environ)
    if isinstance(data, dict):
        return _mapping(data, environ, done)  # pyright: ignore[reportUnknownArgumentType] # any document
    if isinstance(data, list):
        return _items(data, environ, done)  # pyright: ignore[reportUnknownArgumentType] # likewise
    return data


def _mapping(data: dict[Any, Any], environ: Mapping[str, str], done: dict[int, Any]) -> Any:  # noqa: ANN401 - as above
    if id(data) not in done:
        copy = done[id(data)] = dict[Any, Any]()
        copy.update({key: value if _is_secret(key, value) else _resolved(value, environ, done) for key, value in data.items()})
    return done[id(data)]


def _is_secret(key: object, value: object) -> bool:
    is_name = isinstance(key, str) and key.endswith(NAME_SUFFIX)
    return is_name and not all(name.endswith(NAME_SUFFIX.upper()) for name in variables(value))


def _items(data: list[Any], environ: Mapping[str, str], done: dict[int, Any]) -> Any:  # noqa: ANN401 - as above
    if id(data) not in done:
        copy = done[id(data)] = list[Any]()
        copy.extend(_resolved(value, environ, done) for value in data)
    return done[id(data)]
