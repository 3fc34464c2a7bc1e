"""Manifest libraries: packages that ship infra files, and where `library:name` lies in them."""

# Law: finds files, opens none. Our own two libraries come first, so that `standard:openai` means the same whatever
# else is installed; a name that ours do not have is looked for in the packages that other distributions announce.

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = "mas.runtime.manifest_libraries"
"""Entry points: name = library, value = package that holds `libs/<library>/<name>.yaml`."""

OURS = "llm_sched.pipeline"
OUR_LIBRARIES = ("standard", "llm-sched")


def is_library_ref(ref: str) -> bool:
    """Whether a ref has the form `library:name` (and is no URL and no Windows path)."""
    library, colon, name = ref.partition(":")
    return bool(colon and name) and len(library) > 1 and not name.startswith("//") and "/" not in library


def library_file(ref: str) -> Path | None:
    """The file of a ref `library:name`; None when no installed library has it."""
    library, _, name = ref.partition(":")
    relative = Path(*name.split(":"))
    if relative.is_absolute() or ".." in relative.parts:
        return None
    candidates = (folder / f"{relative}.yaml" for folder in _folders(library))
    return next((path for path in candidates if path.is_file()), None)


def library_names(library: str) -> list[str]:
    """What a library offers, as refs, sorted."""
    return sorted({f"{library}:{path.stem}" for folder in _folders(library) for path in folder.glob("*.yaml")})


def libraries() -> list[str]:
    """The names of all installed libraries, sorted."""
    return sorted({*OUR_LIBRARIES, *(point.name for point in entry_points(group=GROUP))})


def _folders(library: str) -> Iterator[Path]:
    if library in OUR_LIBRARIES:
        yield Path(__file__).parent / "libs" / library
    for point in entry_points(group=GROUP, name=library):
        if point.value == OURS:
            continue
        try:
            package = importlib.import_module(point.value)
        except ImportError:  # a broken distribution of somebody else must not hide what the others have
            continue
        yield from (Path(folder) / "libs" / library for folder in getattr(package, "__path__", ()))
