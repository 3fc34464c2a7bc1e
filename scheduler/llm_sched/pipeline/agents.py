"""Agent files of the host (`mas/v1`): the model, its settings and the system message."""

# Law: reads one agent and the texts that it refers to. What it does not know it keeps in peace: real agent files carry
# tools, skills, plugins and more.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from llm_sched.pipeline.documents import read_document
from llm_sched.pipeline.environment import resolved
from llm_sched.pipeline.kinds import Agent, AgentContext, TextFile
from llm_sched.pipeline.problems import ManifestError, raise_if_any
from llm_sched.pipeline.shapes import checked

if TYPE_CHECKING:
    from llm_sched.pipeline.documents import Document, Keys


@dataclass(frozen=True, slots=True)
class AgentFile:
    """An agent.

    Attributes:
        name: from its metadata, else the file's stem.
        model: before mappings; None = the infra's default.
        temperature: None = the provider's default.
        max_tokens: most tokens of an answer; None = the provider's default.
        system: the system message; empty = none.
        folder: where the file is.
    """

    name: str
    model: str | None
    temperature: float | None
    max_tokens: int | None
    system: str
    folder: Path


def load_agent(path: Path, environ: Mapping[str, str]) -> AgentFile:
    """Read an agent file.

    Args:
        path: the file.
        environ: for `env:` values.

    Raises:
        ManifestError: it cannot be used; all problems together.
    """
    document = read_document(path)
    data = resolved(document.data, environ)
    if not isinstance(data, dict):
        raise ManifestError(document.problem((), "is no manifest: it must be a mapping with apiVersion, kind and spec"))
    kind = document.value(("kind",))
    if isinstance(kind, str) and kind != "Agent":
        raise ManifestError(document.problem(("kind",), f"is {kind!r}, not 'Agent': chat takes an agent file"))
    content, problems = checked(Agent, data, document)
    if content is None:
        raise_if_any(problems, str(path))
        raise AssertionError(path)
    context = content.spec.context or AgentContext()
    parts: list[str] = []
    for name, text in (("intent", context.intent), ("role", context.role)):
        found, missing = _text(text, document, ("spec", "context", name), path.parent)
        problems += missing
        if found:
            parts.append(f"[{name}] {found}")
    raise_if_any(problems, str(path))
    first = content.spec.models[0] if content.spec.models else None
    return AgentFile(
        name=(content.metadata.name if content.metadata else None) or path.stem,
        model=first.model if first else None,
        temperature=first.temperature if first else None,
        max_tokens=first.max_tokens if first else None,
        system="\n\n".join(parts),
        folder=path.parent,
    )


def _text(text: str | TextFile | None, document: Document, keys: Keys, folder: Path) -> tuple[str, list[str]]:
    """A text, given in place or as a file beside the agent or one folder up, where apps keep their prompts."""
    if not isinstance(text, TextFile):
        return (text or "").strip(), []
    for base in (folder, folder.parent):
        path = base / Path(text.ref).expanduser()
        if path.is_file():
            try:
                return path.read_text(encoding="utf-8").strip(), []
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "no UTF-8 text"
                return "", [document.problem((*keys, "ref"), f"{path} cannot be read: {reason}")]
    return "", [document.problem((*keys, "ref"), f"no such file: {text.ref} (in {folder} or {folder.parent})")]
