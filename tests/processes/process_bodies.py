"""Bodies of children that need more than a puppet."""

from __future__ import annotations

import itertools
from typing import Any

from llm_sched import Policy, Scheduler
from process_child import say


def ask_for_other_buckets(state: str, **policy: Any) -> None:
    """Run one transaction after the other, in a bucket in which nobody else is."""
    scheduler = Scheduler(Policy(state_path=state, **policy))
    for number in itertools.count():
        with scheduler.slot(provider="other", model="other"):
            if not number:
                say(name="working")
