"""`llm-sched doctor`: can this machine keep the promises, and what is the policy here?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from llm_sched.checks import check_all, check_telemetry
from llm_sched.cli.options import state_option
from llm_sched.cli.output import console as new_console
from llm_sched.cli.output import text
from llm_sched.config import Policy

if TYPE_CHECKING:
    from rich.console import Console

_MARKS = {"ok": ("ok   ", "green"), "note": ("note ", "yellow"), "bad": ("BAD  ", "red")}
_OFF = {
    "max_in_flight": "0 (no cap)",
    "requests_per_minute": "0 (off)",
    "timeout_s": "0 (try once)",
    "max_hold_s": "0 (never taken back)",
}
"""What a knob's 0 means."""
_WIDEST = 40


@click.command()
@state_option
def doctor(state: Path | None) -> None:
    """Check that this machine can keep the promises, and show the policy as it is resolved.

    Exits with 1, and says what to do, when something is wrong.
    """
    console = new_console()
    policy = Policy.from_params()
    if state:
        policy = replace(policy, state_path=state.absolute(), sources={**policy.sources, "state_path": "--state"})
    _print_policy(console, policy)
    findings = [*check_all(policy.path), check_telemetry()]
    for finding in findings:
        console.print(text(_MARKS[finding.verdict], finding.text), soft_wrap=True)
        if finding.advice:
            console.print(f"     -> {finding.advice}", soft_wrap=True)
    bad = sum(finding.verdict == "bad" for finding in findings)
    console.print()
    console.print("all is well" if not bad else text((f"{bad} of {len(findings)} checks failed", "red")))
    sys.exit(1 if bad else 0)


def _shown(policy: Policy, knob: str) -> str:
    value = getattr(policy, knob)
    if knob == "keys":
        return ", ".join(value)
    if knob == "burst" and not policy.requests_per_minute:
        return "off (no requests_per_minute)"
    if value is None:
        return {"state_path": str(policy.path), "burst": "= requests_per_minute", "provider": "default"}.get(knob, "off")
    if value == 0:
        return _OFF.get(knob, str(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _print_policy(console: Console, policy: Policy) -> None:
    rows = [("knob", "value", "from")]
    rows += [
        (knob, _shown(policy, knob), policy.sources.get(knob, "default"))
        for knob in policy.__struct_fields__
        if knob != "sources"
    ]
    # No table: it would break the ledger's path in the middle of a word. A long value moves only its own line's rest.
    knobs = max(len(knob) for knob, _, _ in rows)
    values = min(max(len(value) for knob, value, _ in rows if knob != "state_path"), _WIDEST)
    for number, (knob, value, source) in enumerate(rows):
        line = f"{knob:<{knobs}}  {value:<{values}}  {source}"
        console.print(text((line, "bold")) if not number else line, soft_wrap=True)
    console.print()
