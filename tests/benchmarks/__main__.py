"""The command: ``python -m tests.benchmarks``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.bench import FULL, QUICK, Bench
from tests.benchmarks.machine import describe
from tests.benchmarks.measures import MEASURES
from tests.benchmarks.peers import NAMES
from tests.benchmarks.report import Report
from tests.benchmarks.runner import Plan, run, started
from tests.benchmarks.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROUNDS = 3
_MINUTES = 12


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    lines = "\n".join(f"  {measure.name:<12}{measure.about}" for measure in MEASURES)
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Measure llm-sched and its peers side by side, in one run.",
        epilog=f"measurements:\n{lines}\n\nExit status: 1 if the cap was broken in any run, else 0.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [measure.name for measure in MEASURES]
    parser.add_argument("--quick", action="store_true", help="one short round: one to two minutes")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"how many rounds (default: {_ROUNDS}; quick: 1)")
    parser.add_argument(
        "--minutes",
        type=float,
        default=_MINUTES,
        metavar="N",
        help=f"fewer rounds if it took longer (default: {_MINUTES})",
    )
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="only these measurements")
    parser.add_argument("--peers", nargs="+", choices=NAMES, metavar="PEER", help=f"only these, of {', '.join(NAMES)}")
    parser.add_argument("--folder", type=Path, help="where shared files go (default: the temporary folder)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables as Markdown")
    options = parser.parse_args(words)
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def _report(options: argparse.Namespace) -> Report:
    begin = time.monotonic()
    rounds = options.rounds or (1 if options.quick else _ROUNDS)
    measures = [measure for measure in MEASURES if measure.name in (options.only or measure.name)]
    names = [name for name in NAMES if name in (options.peers or NAMES)]
    with tempfile.TemporaryDirectory(prefix="llm-sched-bench-", dir=options.folder) as made:
        folder = Path(made).resolve()
        _keep_bytecode(folder)
        bench = Bench(QUICK if options.quick else FULL, folder, Witness())
        if options.quick:
            bench.remark("a quick run is a look: its windows are too short to judge fairness and rate by")
        with started(names, folder, bench) as backends:
            results = run(bench, measures, backends, Plan(rounds, 60 * options.minutes))
            machine = describe(folder, backends)
    return Report(machine, results.rounds_made, time.monotonic() - begin, results, bench.witness, bench.remarks)


def _keep_bytecode(folder: Path) -> None:
    """Let the processes to come share their bytecode below `folder`: compiling is no part of what is measured."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")


def main(words: Sequence[str] | None = None) -> int:
    """Measure, report, and return the exit status."""
    options = _arguments(words)
    # So that a terminated run cleans up like an interrupted one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    report = _report(options)
    sys.stdout.write(report.as_text())
    if options.json:
        options.json.write_text(report.as_json(), encoding="utf-8")
    if options.markdown:
        options.markdown.write_text(report.as_markdown(), encoding="utf-8")
    for violation in report.witness.violations:
        sys.stderr.write(f"the cap was broken: {violation}\n")
    return 1 if report.witness.violations else 0


if __name__ == "__main__":
    sys.exit(main())
