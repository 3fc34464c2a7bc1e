"""The results as text, Markdown and JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.benchmarks.metrics import HEADLINES, METRICS
from tests.benchmarks.peers import OURS
from tests.benchmarks.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.results import Results
    from tests.benchmarks.witness import Witness

_MISSING = "-"
_WHOLE_FROM = 100
_TENTHS_FROM = 10


@dataclass(frozen=True, slots=True)
class Report:
    """Everything there is to say about one run."""

    machine: str
    rounds: int
    seconds: float
    results: Results
    witness: Witness
    remarks: list[str] = field(default_factory=list)

    def as_text(self) -> str:
        """Return everything, in tables that are aligned to be read as they are."""
        return self._joined(
            _section("Figures:", self._figures([metric.name for metric in METRICS])),
            _section("Ours divided by the peer's, in the same run:", self._ratios()),
            _section("Targets:", self._targets()),
        )

    def as_markdown(self) -> str:
        """Return what a README has room for."""
        return self._joined(_section("", self._figures(HEADLINES)), _section("", self._targets()))

    def as_json(self) -> str:
        """Return the same for programs, with the values of every round; infinite (never) and missing are null."""
        document = {
            "machine": self.machine,
            "rounds": self.rounds,
            "seconds": round(self.seconds, 1),
            "units": {metric.name: metric.unit for metric in METRICS},
            "figures": self.results.figures(),
            "by_round": self.results.rounds,
            "ratios": {metric.name: self._ratios_of(metric.name) for metric in METRICS if metric.has_ratio},
            "targets": self._target_documents(),
            "cap": {"runs": self.witness.runs, "grants": self.witness.grants, "violations": self.witness.violations},
            "remarks": self.remarks,
        }
        return json.dumps(_finite(document), indent=2, allow_nan=False) + "\n"

    def _joined(self, *sections: str) -> str:
        head = f"{self.machine}. Medians of {self.rounds} round(s) in one run of {self.seconds / 60:.1f} min."
        remarks = "\n".join(f"- {line}" for line in [self._cap(), *self.remarks])
        return "\n\n".join(part for part in (head, *sections, remarks) if part) + "\n"

    def _cap(self) -> str:
        if self.witness.violations:
            return "CAP BROKEN: " + "; ".join(self.witness.violations)
        if not self.witness.runs:
            return "Nothing in this run put the cap to the test."
        return f"The cap held in all {self.witness.runs} runs ({self.witness.grants:,} grants witnessed)."

    def _figures(self, wanted: Sequence[str]) -> list[list[str]]:
        peers, figures = self.results.peers(), self.results.figures()
        rows = [["", *peers]]
        for metric in METRICS:
            if metric.name in figures and metric.name in wanted:
                row = figures[metric.name]
                rows.append([_label(metric.label, metric.unit), *(_number(row.get(peer)) for peer in peers)])
        return rows

    def _ratios(self) -> list[list[str]]:
        others = [peer for peer in self.results.peers() if peer != OURS]
        rows = [["ours /", *others]]
        for metric in METRICS:
            ratios = self._ratios_of(metric.name) if metric.has_ratio else {}
            if any(not math.isnan(ratio) for ratio in ratios.values()):
                rows.append([metric.label, *(_number(ratios.get(peer)) for peer in others)])
        return rows

    def _ratios_of(self, metric: str) -> dict[str, float]:
        return {peer: self.results.ratio(metric, peer) for peer in self.results.peers() if peer != OURS}

    def _targets(self) -> list[list[str]]:
        rows = [["", "target", "reached", ""]]
        for target in TARGETS:
            if math.isnan(self.results.figure(target.metric)):
                continue
            value = target.value(self.results)
            wanted = f"{target.relation} {target.limit:g}"
            rows.append([target.label, wanted, _number(value), target.verdict(value)])
        return rows

    def _target_documents(self) -> list[dict[str, object]]:
        return [
            {
                "label": target.label,
                "relation": target.relation,
                "limit": target.limit,
                "reached": (value := target.value(self.results)),
                "verdict": target.verdict(value),
            }
            for target in TARGETS
        ]


def _label(label: str, unit: str) -> str:
    return f"{label} ({unit})" if unit else label


def _number(value: float | None) -> str:
    """Three significant digits are all that such a measurement carries."""
    if value is None or math.isnan(value):
        return _MISSING
    if math.isinf(value):
        return "never"
    if value % 1 == 0 or abs(value) >= _WHOLE_FROM:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= _TENTHS_FROM else f"{value:.3g}"


def _section(heading: str, rows: list[list[str]]) -> str:
    """Return `heading` and its table, or nothing when no row has anything to show."""
    return f"{heading}\n\n{_table(rows)}".lstrip() if len(rows) > 1 else ""


def _table(rows: list[list[str]]) -> str:
    """Return a Markdown table with aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["| " + " | ".join(_padded(row, widths)) + " |" for row in rows]
    rule = ["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])]
    return "\n".join([lines[0], "|" + "|".join(rule) + "|", *lines[1:]])


def _padded(row: list[str], widths: list[int]) -> list[str]:
    return [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]


def _finite(value: object) -> object:
    """Return `value` with everything that JSON has no number for as null."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
