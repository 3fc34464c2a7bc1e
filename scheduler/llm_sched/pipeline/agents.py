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
        context: `intent` and `role`, as far as it has them.
        folder: where the file is.
    """

    name: str
    model: str | None
    temperature: float | None
    max_tokens: int | None
    context: Mapping[str, str]
    folder: Path

    @property
    def system(self) -> str:
        """The system message; empty = none."""
        return "\n\n".join(f"[{name}] {self.context[name]}" for name in ("intent", "role") if self.context.get(name))


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
    if not isinstance(document.data, dict):
        raise ManifestError(document.problem((), "is no manifest: it must be a mapping with apiVersion, kind and spec"))
    kind = document.value(("kind",))
    if isinstance(kind, str) and kind != "Agent":
        raise ManifestError(document.problem(("kind",), f"is {kind!r}, not 'Agent': chat takes an agent file"))
    content, problems = checked(Agent, data, document)
    if content is None:
        raise_if_any(problems, str(path))
        raise AssertionError(path)
    context, missing = context_texts(content.spec.context, document, ("spec", "context"), path.parent)
    problems += missing
    raise_if_any(problems, str(path))
    first = content.spec.models[0] if content.spec.models else None
    return AgentFile(
        name=(content.metadata.name if content.metadata else None) or path.stem,
        model=first.model if first else None,
        temperature=first.temperature if first else None,
        max_tokens=first.max_tokens if first else None,
        context=context,
        folder=path.parent,
    )


def context_texts(
    context: AgentContext | None, document: Document, keys: Keys, folder: Path
) -> tuple[dict[str, str], list[str]]:
    """The texts of a `context`, those in files read.

    Args:
        context: as it stands in a document.
        document: that document.
        keys: where in it.
        folder: of the document.

    Returns:
        Those of `intent` and `role` that there are, and the problems, one line each.
    """
    texts: dict[str, str] = {}
    problems: list[str] = []
    for name in ("intent", "role"):
        text: str | TextFile | None = getattr(context, name, None)
        if text is not None:
            texts[name], missing = _text(text, document, (*keys, name), folder)
            problems += missing
    return texts, problems


def _text(text: str | TextFile, document: Document, keys: Keys, folder: Path) -> tuple[str, list[str]]:
    """A text, given in place or as a file beside the agent or one folder up, where apps keep their prompts."""
    if not isinstance(text, TextFile):
        return text.strip(), []
    for base in (folder, folder.parent):
        path = base / Path(text.ref).expanduser()
        if path.is_file():
            try:
                return path.read_text(encoding="utf-8").strip(), []
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "no UTF-8 text"
                return "", [document.problem((*keys, "ref"), f"{path} cannot be read: {reason}")]
    return "", [document.problem((*keys, "ref"), f"no such file: {text.ref} (in {folder} or {folder.parent})")]
