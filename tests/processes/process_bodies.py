"""Bodies of children that need more than a puppet."""

from __future__ import annotations

import itertools
import os
from typing import Any

from process_child import hear, say
from process_puppet import serve

from llm_sched import Policy, Scheduler


def ask_for_other_buckets(state: str, **policy: Any) -> None:
    """Run one transaction after the other, in a bucket in which nobody else is."""
    scheduler = Scheduler(Policy(state_path=state, **policy))
    for number in itertools.count():
        with scheduler.slot(provider="other", model="other"):
            if not number:
                say(name="working")


def stay(state: str) -> None:
    """Live, and have nothing to do with the ledger."""
    say(name="ready", state=state)
    hear()


def serve_as(uid: int, gid: int, state: str, **policy: Any) -> None:
    """Serve as a puppet of another user."""
    os.setgroups([gid])
    os.setgid(gid)
    os.setuid(uid)
    serve(state, **policy)
