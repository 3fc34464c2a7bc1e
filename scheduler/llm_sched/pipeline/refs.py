"""Which refs hold, and which file a ref means."""

# Law: finds, merges nothing. The first source that says anything wins: command line, MAS_INFRA_REFS, the workspace's
# `config.yaml`, the user's `default.yaml`.

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from llm_sched.pipeline.documents import Document, read_document
from llm_sched.pipeline.kinds import Workspace
from llm_sched.pipeline.libraries import is_library_ref, libraries, library_file, library_names
from llm_sched.pipeline.problems import ManifestError, NoRefsError, UnknownRefError, suggestion
from llm_sched.pipeline.shapes import checked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VARIABLE = "MAS_INFRA_REFS"
SUFFIXES = ("", ".yaml", ".yml")


class Places(NamedTuple):
    """Where to look.

    Attributes:
        cwd: the working directory.
        workspace: folder of the nearest `config.yaml`, if there is one.
        user: `$XDG_CONFIG_HOME/mas/infra`.
    """

    cwd: Path
    workspace: Path | None
    user: Path


class ChosenRefs(NamedTuple):
    """The refs that hold, the folder that relative ones may refer to, and who said so."""

    refs: tuple[str, ...]
    folder: Path
    source: str


def places(environ: Mapping[str, str], cwd: Path, start: Path) -> Places:
    """Where refs are looked for.

    Args:
        environ: the environment.
        cwd: the working directory.
        start: folder of the manifest that is run; the workspace is looked for from there upwards, else from `cwd`.
    """
    config = environ.get("XDG_CONFIG_HOME")
    user = (Path(config) if config else Path.home() / ".config") / "mas" / "infra"
    return Places(cwd, _workspace(start) or _workspace(cwd), user)


def chosen_refs(given: Sequence[str], environ: Mapping[str, str], where: Places, start: Path) -> ChosenRefs:
    """The refs of the first source that has any.

    Args:
        given: `--infra-ref`, in order.
        environ: the environment.
        where: see `places`.
        start: folder of the manifest that is run.

    Raises:
        NoRefsError: nobody names any.
        ManifestError: the workspace's `config.yaml` is broken.
    """
    if given:
        return ChosenRefs(tuple(given), start, "--infra-ref")
    listed = tuple(ref.strip() for ref in environ.get(VARIABLE, "").split(",") if ref.strip())
    if listed:
        return ChosenRefs(listed, start, f"environment variable {VARIABLE}")
    if where.workspace:
        refs = _workspace_refs(where.workspace / "config.yaml")
        if refs:
            return ChosenRefs(refs, where.workspace, str(where.workspace / "config.yaml"))
    default = where.user / "default.yaml"
    if default.is_file():
        return ChosenRefs((str(default),), where.user, str(default))
    raise NoRefsError(
        f"no infra: pass --infra-ref (e.g. --infra-ref standard:llm-proxy-paced), set {VARIABLE}, "
        f"or list infra_refs in the workspace's config.yaml; there is no {default} either"
    )


def is_url(ref: str) -> bool:
    """Whether a ref is a bare endpoint."""
    return ref.startswith(("http://", "https://"))


def find(ref: str, folder: Path, where: Places) -> Path:
    """The file that a ref means.

    Args:
        ref: `library:name` or a path.
        folder: of the file that refers to it.
        where: see `places`.

    Raises:
        UnknownRefError: there is none; says where was looked and what there is.
    """
    if is_library_ref(ref) and (found := library_file(ref)):
        return found
    workspace = [where.workspace / "infra", where.workspace] if where.workspace else []
    folders = [where.cwd, folder, *workspace, where.user]
    path = Path(ref).expanduser()
    for base in folders:
        for suffix in SUFFIXES:
            candidate = base / f"{path}{suffix}"
            if candidate.is_file():
                return candidate.resolve()
    raise UnknownRefError(f"{ref}: {_missing(ref, folders)}")


def _missing(ref: str, folders: Sequence[Path]) -> str:
    if not is_library_ref(ref):
        return f"no such file in {', '.join(dict.fromkeys(map(str, folders)))}"
    library = ref.partition(":")[0]
    names = library_names(library)
    if not names:
        return f"no library {library!r} is installed; {suggestion(library, libraries())}"
    return f"library {library!r} has no such manifest; {suggestion(ref, names)}"


def _workspace(folder: Path) -> Path | None:
    folder = folder.absolute()
    return next((each for each in (folder, *folder.parents) if (each / "config.yaml").is_file()), None)


def _workspace_refs(path: Path) -> tuple[str, ...]:
    document: Document = read_document(path)
    if document.data is None:
        return ()
    config, problems = checked(Workspace, document.data, document)
    if config is None:
        raise ManifestError("; ".join(problems))
    return tuple(config.infra_refs or ())
