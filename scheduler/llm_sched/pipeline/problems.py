"""What is wrong with a file that the user wrote, and the error that carries it."""

# Law: one problem is one line that names the file, the place in it and what to do. A value from a file is never
# quoted: it may be a secret that was put in the wrong place.

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from llm_sched.errors import SchedulerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class ManifestError(SchedulerError, ValueError):
    """Files or refs that cannot be used; all their problems together.

    Attributes:
        problems: one line each.
    """

    def __init__(self, message: str, *, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems) or (message,)


class NoRefsError(ManifestError):
    """Nobody says which infra to use: not the command, not the environment, not a file."""


class UnknownRefError(ManifestError):
    """Refs on the command line that name nothing there is."""


def raise_if_any(problems: Sequence[str], title: str, kind: type[ManifestError] = ManifestError) -> None:
    """Raise all problems as one error.

    Args:
        problems: one line each; none = nothing is raised.
        title: what they have in common; stands above them when there is more than one.
        kind: the error to raise.

    Raises:
        ManifestError: there is at least one.
    """
    if not problems:
        return
    unique = list(dict.fromkeys(problems))
    message = unique[0] if len(unique) == 1 else "\n  ".join((f"{title}: {len(unique)} problems", *unique))
    raise kind(message, problems=unique)


def suggestion(word: str, known: Iterable[str]) -> str:
    """`did you mean ...?`, or what there is to choose from."""
    names = sorted(known)
    close = get_close_matches(word, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(names)}"
