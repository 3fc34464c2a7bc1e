"""Stores to test: the same questions to each."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from llm_sched import host
from llm_sched.store.file import FileStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from llm_sched.model import State
    from llm_sched.store import Store

PATIENCE_S = 20.0
"""How long tests wait for what must happen."""


class Done(NamedTuple):
    """What a change of these tests returns."""

    changed: bool
    value: object = None


def file_store(path: Path, recover: Callable[[State], bool] = lambda _: False) -> FileStore:
    """A store on a file; by default nobody lives who could tell what was lost."""
    return FileStore(path, host.Clock(), recover)


def put(ident: str) -> Callable[[State], Done]:
    """A change that writes its mark into the ledger."""

    def change(state: State) -> Done:
        state.ident = ident
        return Done(changed=True)

    return change


def grow(size: int, ident: str = "grown") -> Callable[[State], Done]:
    """A change that makes the document about `size` bytes long."""

    def change(state: State) -> Done:
        state.ident, state.machine = ident, "m" * size
        return Done(changed=True)

    return change


def look(state: State) -> Done:
    """A change that changes nothing and returns the ledger's mark."""
    return Done(changed=False, value=state.ident)


def ignore(_: Done, __: int) -> None:
    """A commit that does nothing."""


def run(store: Store, change: Callable[[State], Done]) -> Done:
    """One transaction, trying once."""
    return store.transact(change, ignore, None)


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """Another thread is inside a transaction of the store meanwhile."""
    inside, leave = threading.Event(), threading.Event()

    def stay(_: State) -> Done:
        inside.set()
        assert leave.wait(PATIENCE_S)
        return Done(changed=False)

    thread = threading.Thread(target=run, args=(store, stay))
    thread.start()
    try:
        assert inside.wait(PATIENCE_S)
        yield
    finally:
        leave.set()
        thread.join()
