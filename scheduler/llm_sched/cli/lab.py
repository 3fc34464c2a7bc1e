"""`llm-sched lab`: experiments."""

# Law: options in, exit code out. What is run is in `llm_sched.lab`, which is imported when the command runs.

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import click

from llm_sched.cli.failures import debug_option, one_line
from llm_sched.cli.signals import ended_by_signals


@click.group()
def lab() -> None:
    """Run experiments: a data set of prompts x scenarios x runs, in parallel, at one pace."""


@lab.command()
@click.argument("experiment", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--infra-ref", "refs", metavar="REF", multiple=True, help="Instead of the experiment's infra_refs; repeatable.")
@click.option("--results", type=click.Path(dir_okay=False, path_type=Path), help="Where the results go.")
@click.option("--workers", metavar="N", type=click.IntRange(1, 64), help="Processes; instead of the experiment's.")
@click.option("--fresh", is_flag=True, help="Put results that are there aside and begin anew.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on stdout, and nothing else there.")
@debug_option
@click.pass_context
def execute(  # noqa: PLR0913 - click hands over one argument an option
    context: click.Context,
    *,
    experiment: Path,
    refs: tuple[str, ...],
    results: Path | None,
    workers: int | None,
    fresh: bool,
    as_json: bool,
    debug: bool,
) -> None:
    """Do what EXPERIMENT describes and is not done yet.

    Every answer is one line of JSON in the results' file. However an execution ends, the same command goes on where it
    was: what is done is not asked again, what failed is.

    MAS_LLM_SCHEDULER_USER is the experiment's name unless it is set, so with `user` in the keys of the scheduler's policy every
    experiment has a bucket of its own.

    Exit code 0: every prompt has its answers; 1: something failed.
    """
    from rich.console import Console  # noqa: PLC0415 - see the law above

    from llm_sched.lab.experiment import load_experiment  # noqa: PLC0415 - likewise
    from llm_sched.lab.results import Results  # noqa: PLC0415 - likewise
    from llm_sched.lab.run import check_infra, execute, set_user  # noqa: PLC0415 - likewise
    from llm_sched.lab.screen import screen_for, table  # noqa: PLC0415 - likewise
    from llm_sched.pipeline.problems import NoRefsError  # noqa: PLC0415 - likewise

    with one_line(debug=debug, usage=(NoRefsError,)):
        loaded = load_experiment(experiment, os.environ)
        loaded = replace(loaded, refs=refs or loaded.refs, workers=workers or loaded.workers, results=results or loaded.results)
        set_user(loaded, os.environ)
        for note in check_infra(loaded):
            click.echo(f"llm-sched: warning: {note}", err=True)
        with Results(loaded.results, fresh=fresh) as book:
            try:
                with ended_by_signals():
                    summary = execute(loaded, screen_for(Console(stderr=True)), book)
            except KeyboardInterrupt:
                total = len(loaded.rows) * len(loaded.scenarios) * loaded.n_runs
                click.echo(
                    f"Interrupted; {len(book.lines)} of {total} are done. The same command goes on from there.", err=True
                )
                sys.exit(128 + signal.SIGINT)
    if as_json:
        click.echo(json.dumps(summary.to_dict(), indent=2))
    else:
        console = Console()
        console.print(table(summary))
        console.print(f"Results: {summary.results}", highlight=False, soft_wrap=True)
        for error, count in summary.errors.items():
            console.print(f"{count} x {error}", highlight=False, markup=False, soft_wrap=True)
        if not summary.ok:
            console.print("Not all is done; the same command tries the rest again.", highlight=False)
    context.exit(0 if summary.ok else 1)
