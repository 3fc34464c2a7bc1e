"""What the lab's processes tell each other: frozen values, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from llm_sched.lab.experiment import Judge, Scenario

Key = tuple[str, str, int]
"""Names a task within its experiment: scenario, row, number of the run (from 1)."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a worker is told once. `refs` are looked up from `folder`; `lanes` is how many calls it makes at once."""

    worker: int
    refs: tuple[str, ...]
    folder: Path
    scenarios: tuple[Scenario, ...]
    judge: Judge | None
    lanes: int


@dataclass(frozen=True, slots=True)
class Task:
    """One question. `cacheable` False: its answer must be a new one. `fields` are for the judge's prompt."""

    key: Key
    prompt: str
    fields: Mapping[str, Any]
    cacheable: bool
    digest: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The parent's word that there is nothing more to do."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker has put its pipelines together."""

    worker: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one task. Seconds throughout; `error` empty = it went well.

    `waited_s` is what its calls, the judge's too, waited for slots; `live` how many calls were made for it; `cached` whether
    the answer came from the cache; `score` and `verdict` are the judge's.
    """

    key: Key
    digest: str
    answer: str = ""
    finish_reason: str = ""
    cached: bool = False
    live: int = 0
    waited_s: float = 0.0
    took_s: float = 0.0
    usage: Mapping[str, int] | None = None
    score: float | None = None
    verdict: Any = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """A worker has an outcome, and room for another task."""

    worker: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Unusable:
    """A worker cannot work at all, and no other could: the key is missing, a knob makes no sense."""

    worker: int
    error: str
