"""Bodies of children that need more than a puppet."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import tempfile
import threading
from contextlib import suppress
from typing import Any

from process_child import hear, say
from process_puppet import Puppet, serve

from llm_sched import Policy, Scheduler, SlotTimeout
from llm_sched.store import files


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


def wait_on_a_full_disk(state: str, **policy: Any) -> None:
    """Serve as a puppet on whose machine, between the orders `fill` and `drain`, nothing can be written."""
    full = threading.Event()
    write = files.TwinFile.write

    def write_if_there_is_room(self: files.TwinFile, document: bytes) -> bytes:
        if full.is_set():
            say(name="not written")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(self, document)

    files.TwinFile.write = write_if_there_is_room  # type: ignore[method-assign]
    puppet = Puppet(Scheduler(Policy(state_path=state, **policy)))
    say(name="ready")
    while order := hear():
        does = order.pop("do")
        if does in {"fill", "drain"}:
            (full.set if does == "fill" else full.clear)()
            say(name=order["name"])
        else:
            getattr(puppet, does)(**order)
