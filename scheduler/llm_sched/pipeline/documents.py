"""YAML files with the place of everything in them."""

# Law: text in, plain data and places out. It knows no kind of document.

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import yaml

from llm_sched.pipeline.problems import ManifestError

if TYPE_CHECKING:
    from pathlib import Path

Keys: TypeAlias = Sequence[str | int]
"""The way from a document's root to a value: `("spec", "entries", 0, "ref")`."""

LARGEST_BYTES = 4 * 1024 * 1024
"""No file that a person wrote is larger; a wrong path (a data set, a model) is said at once."""


DEEPEST = 100
"""Levels; no file that a person wrote has more, and each takes several of Python's own."""


class Document:
    """One parsed file.

    Attributes:
        name: how messages name it, usually its path.
        data: its content as plain dicts, lists and scalars.
    """

    def __init__(self, name: str, data: Any, root: yaml.Node | None) -> None:  # noqa: ANN401 - whatever the file holds
        self.name = name
        self.data = data
        self._root = root

    def value(self, keys: Keys) -> Any:  # noqa: ANN401 - whatever the file holds
        """What stands at a path; None where nothing does."""
        data = self.data
        for key in keys:
            try:
                data = data[key]
            except (LookupError, TypeError):
                return None
        return data

    def where(self, keys: Keys = ()) -> str:
        """`file:line:column` of a value, or of the nearest thing around it that is there."""
        node = self._root
        for key in keys:
            child = _child(node, key)
            if child is None:
                break
            node = child
        if node is None:
            return self.name
        return f"{self.name}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"

    def problem(self, keys: Keys, text: str) -> str:
        """One line about a value: its place, its path in the document, and what is wrong with it."""
        path = dotted(keys)
        return f"{self.where(keys)}: {path}: {text}" if path else f"{self.where()}: {text}"


def dotted(keys: Keys) -> str:
    """A path as people write it: `spec.entries[0].ref`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.removeprefix(".")


def read_document(path: Path) -> Document:
    """Read one YAML file.

    Raises:
        ManifestError: it cannot be read, or is no YAML; names line and column.
    """
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise ManifestError(f"{path}: larger than {LARGEST_BYTES // 1024**2} MB; this is no manifest")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path}: is no UTF-8 text (byte {error.start})") from None
    return parse_document(text, str(path))


def parse_document(text: str, name: str) -> Document:
    """Parse YAML.

    Args:
        text: one YAML document.
        name: how messages name it.

    Raises:
        ManifestError: it is no YAML, has a key twice, or nests without end; names line and column.
    """
    try:
        data, root = _parsed(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        reason = " ".join(part for part in (error.context, error.problem) if part)
        raise ManifestError(f"{name}{place}: no valid YAML: {reason}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        raise ManifestError(f"{name}:{line}:{column}: no valid YAML: a character that may not stand there") from None
    except (RecursionError, ValueError) as error:  # a million brackets; a date or number that is none
        reason = "nests too deeply" if isinstance(error, RecursionError) else str(error)
        raise ManifestError(f"{name}: no valid YAML: {reason}") from None
    return Document(name, data, root)


def _parsed(text: str) -> tuple[Any, yaml.Node | None]:
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None, None
        return loader.construct_document(root), root  # pyright: ignore[reportUnknownMemberType] # the stub leaves it open
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which also refuses a key that stands twice: it would silently drop the first one."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose what stands inside another node, unless that goes too deep for whoever reads it afterwards."""
        self._depth += 1
        if self._depth > DEEPEST:
            mark = cast("Any", self.peek_event().start_mark)  # type: ignore[no-untyped-call] # the stub leaves it open
            reason = f"nests too deeply (more than {DEEPEST} levels)"
            raise yaml.constructor.ConstructorError(None, None, reason, mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - the base class's signature
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key.value!r} stands twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _child(node: yaml.Node | None, key: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for name, value in node.value if getattr(name, "value", None) == str(key)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        found: yaml.Node = node.value[key]
        return found
    return None
