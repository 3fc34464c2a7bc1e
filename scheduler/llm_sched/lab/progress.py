"""How far an execution is."""

# Law: takes outcomes in, keeps the sum. No process, no pipe, no file.

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_sched.lab.messages import Outcome


@dataclass(slots=True)
class Progress:
    """What has been done: `before` by earlier executions, `done` and `failed` by this one, out of `total`."""

    total: int
    before: int = 0
    done: int = 0
    failed: int = 0
    errors: Counter[str] = field(default_factory=Counter[str])

    def note(self, outcome: Outcome) -> None:
        """Count an outcome."""
        if outcome.error:
            self.failed += 1
            self.errors[outcome.error] += 1
        else:
            self.done += 1

    @property
    def is_hopeless(self) -> bool:
        """Whether so much has failed, and nothing succeeded, that going on would only cost more."""
        return not self.done and self.failed >= HOPELESS


HOPELESS = 20
"""Failures at the beginning, without one success, after which an execution stops."""


@dataclass(frozen=True, slots=True)
class View:
    """What is shown: the sums, answers a second, and this execution's calls in the ledger."""

    name: str
    total: int
    before: int
    done: int
    failed: int
    per_s: float
    in_flight: int
    waiting: int

    @property
    def finished(self) -> int:
        """Tasks that need no more attention."""
        return self.before + self.done + self.failed


def view(name: str, progress: Progress, elapsed_s: float, calls: Sequence[int]) -> View:
    """The picture now; `calls` are in flight and waiting."""
    in_flight, waiting = calls
    ended = progress.done + progress.failed
    per_s = ended / elapsed_s if elapsed_s > 0 else 0.0
    return View(name, progress.total, progress.before, progress.done, progress.failed, per_s, in_flight, waiting)
