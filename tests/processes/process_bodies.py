"""Bodies of children that need more than a puppet."""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
from contextlib import suppress
from typing import Any

from process_child import hear, say
from process_puppet import serve

from llm_sched import Policy, Scheduler, SlotTimeout


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


def import_what_is_needed_later() -> None:
    """Use everything once: Python's own files may lie where another user cannot read them."""
    with tempfile.TemporaryDirectory() as folder:
        scheduler = Scheduler(Policy(state_path=f"{folder}/state.json", max_in_flight=1))
        with scheduler.slot(), suppress(SlotTimeout):
            scheduler.acquire(timeout_s=0.01)
        with suppress(SlotTimeout):
            asyncio.run(_wait_in_vain(scheduler))
        scheduler.close()


async def _wait_in_vain(scheduler: Scheduler) -> None:
    async with scheduler.slot():
        await scheduler.acquire_async(timeout_s=0.01)


def serve_as(uid: int, gid: int, state: str, **policy: Any) -> None:
    """Serve as a puppet of another user."""
    import_what_is_needed_later()
    os.setgroups([gid])
    os.setgid(gid)
    os.setuid(uid)
    serve(state, **policy)
