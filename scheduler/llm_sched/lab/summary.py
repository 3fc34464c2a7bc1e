"""What came of an experiment, scenario by scenario."""

# Law: lines of the results' file in, figures out. No file, no clock.

from __future__ import annotations

import statistics
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MOST_ERRORS = 5


class ScenarioFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario. Seconds; None where there is nothing to tell.

    `answers` out of `tasks`; `score` and `score_sd` over those that were scored; `wait_p50_s` and `wait_max_s` are the waits
    for slots of one task's calls together; `cached` answers came from the cache, `live` calls were made; `errors` are failed
    tasks.
    """

    name: str
    tasks: int
    answers: int
    score: float | None
    score_sd: float | None
    wait_p50_s: float | None
    wait_max_s: float | None
    cached: int
    live: int
    errors: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment; `errors` are the most frequent ones and their counts."""

    name: str
    results: str
    scenarios: list[ScenarioFigures]
    errors: dict[str, int]

    @property
    def ok(self) -> bool:
        """Whether every task has its answer."""
        return all(row.answers == row.tasks for row in self.scenarios)

    def to_dict(self) -> dict[str, Any]:
        """As plain dicts and lists, ready for `json.dumps`."""
        plain: dict[str, Any] = {"ok": self.ok, **msgspec.to_builtins(self)}
        return plain


def summarize(name: str, results: str, tasks: Mapping[str, int], lines: Iterable[Mapping[str, Any]]) -> Summary:
    """Put the figures together.

    Args:
        name: of the experiment.
        results: path of the results.
        tasks: scenario -> how many tasks it has.
        lines: results and failures of this experiment.
    """
    found: dict[str, list[Mapping[str, Any]]] = {scenario: [] for scenario in tasks}
    for line in lines:
        if line["scenario"] in found:
            found[line["scenario"]].append(line)
    errors = Counter(str(line["error"]) for group in found.values() for line in group if line.get("error"))
    return Summary(
        name=name,
        results=results,
        scenarios=[_figures(scenario, count, found[scenario]) for scenario, count in tasks.items()],
        errors=dict(errors.most_common(MOST_ERRORS)),
    )


def _figures(name: str, tasks: int, lines: Sequence[Mapping[str, Any]]) -> ScenarioFigures:
    good = [line for line in lines if not line.get("error")]
    scores = [float(line["score"]) for line in good if line.get("score") is not None]
    waits = [float(line["waited_s"]) for line in lines]
    return ScenarioFigures(
        name=name,
        tasks=tasks,
        answers=len(good),
        score=statistics.fmean(scores) if scores else None,
        score_sd=statistics.stdev(scores) if len(scores) > 1 else None,
        wait_p50_s=statistics.median(waits) if waits else None,
        wait_max_s=max(waits, default=None),
        cached=sum(bool(line["cached"]) for line in good),
        live=sum(int(line["live"]) for line in lines),
        errors=len(lines) - len(good),
    )
