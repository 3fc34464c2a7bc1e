"""`llm-sched doctor`: can this machine keep the promises, and what is the policy here?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from llm_sched.checks import check_all, check_telemetry
from llm_sched.cli.options import state_option
from llm_sched.config import Policy

if TYPE_CHECKING:
    from rich.console import Console

_MARKS = {"ok": "[green]ok[/]  ", "note": "[yellow]note[/]", "bad": "[red]BAD[/] "}


@click.command()
@state_option
def doctor(state: Path | None) -> None:
    """Check that this machine can keep the promises, and show the policy as it is resolved.

    Exits with 1, and says what to do, when something is wrong.
    """
    from rich.console import Console  # noqa: PLC0415 - rich loads slowly

    console = Console()
    policy = Policy.from_params()
    if state:
        policy = replace(policy, state_path=state.absolute(), sources={**policy.sources, "state_path": "--state"})
    _print_policy(console, policy)
    findings = [*check_all(policy.path), check_telemetry()]
    for finding in findings:
        console.print(f"{_MARKS[finding.verdict]} {finding.text}", highlight=False, soft_wrap=True)
        if finding.advice:
            console.print(f"     -> {finding.advice}", highlight=False, soft_wrap=True)
    bad = sum(finding.verdict == "bad" for finding in findings)
    console.print()
    console.print("all is well" if not bad else f"[red]{bad} of {len(findings)} checks failed[/]", highlight=False)
    sys.exit(1 if bad else 0)


def _shown(policy: Policy, knob: str) -> str:
    value = getattr(policy, knob)
    if knob == "keys":
        return ", ".join(value)
    if value is not None:
        return str(value)
    return {"state_path": str(policy.path), "burst": "= requests_per_minute", "provider": "default"}.get(knob, "off")


def _print_policy(console: Console, policy: Policy) -> None:
    from rich import box  # noqa: PLC0415 - rich loads slowly
    from rich.table import Table  # noqa: PLC0415 - likewise

    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("knob", "value", "from"):
        table.add_column(name, overflow="fold")
    for knob in (field for field in policy.__struct_fields__ if field != "sources"):
        shown = _shown(policy, knob)
        table.add_row(knob, shown, policy.sources.get(knob, "default"))
    console.print(table)
