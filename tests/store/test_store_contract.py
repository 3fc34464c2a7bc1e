"""The contract of every store; a new one joins the list and adds nothing."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from store_support import PATIENCE_S, Done, file_store, grow, ignore, locked, look, put, run

from llm_sched.model import Owner
from llm_sched.store import BusyError
from llm_sched.testing import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llm_sched.model import State
    from llm_sched.store import Store


class Interrupted(BaseException):
    """Comes at an inconvenient moment, like Ctrl-C."""


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Each kind of store, empty."""
    store: Store = MemoryStore() if request.param == "memory" else file_store(tmp_path / "ledger.json")
    yield store
    store.close()


def test_a_new_store_reads_as_empty(store: Store) -> None:
    """Before the first change there are no owners, no buckets, and nothing was written."""
    state = store.read()
    assert (len(state.owners), len(state.buckets), state.seq) == (0, 0, 0)


def test_what_a_change_made_is_kept(store: Store) -> None:
    """The next transaction and a reader see it."""
    run(store, put("one"))
    assert (run(store, look).value, store.read().ident) == ("one", "one")


def test_a_transaction_returns_what_its_change_returned(store: Store) -> None:
    """The very object."""
    answer = Done(changed=True, value="answer")
    assert store.transact(lambda _: answer, ignore, None) is answer


def test_a_change_that_raises_leaves_the_ledger_as_it_was(store: Store) -> None:
    """Whatever it has done to the state by then, also in place, also deep inside."""

    def half(state: State) -> Done:
        state.ident = "half"
        state.owners["1-a"] = Owner(pid=2)
        raise Interrupted

    def owner(state: State) -> Done:
        state.ident = "whole"
        state.owners["1-a"] = Owner(pid=1)
        return Done(changed=True)

    run(store, owner)
    with pytest.raises(Interrupted):
        run(store, half)
    state = store.read()
    assert (state.ident, state.owners["1-a"].pid, run(store, look).value, state.seq) == ("whole", 1, "whole", 1)


def test_a_change_that_raises_frees_the_lock(store: Store) -> None:
    """The next transaction goes through."""

    def fail(_: State) -> Done:
        raise Interrupted

    with pytest.raises(Interrupted):
        run(store, fail)
    assert run(store, put("next")).changed


def test_an_outcome_without_change_writes_nothing(store: Store) -> None:
    """Neither the state nor another sequence number."""

    def pretend(state: State) -> Done:
        state.ident = "not kept"
        return Done(changed=False)

    run(store, put("kept"))
    run(store, pretend)
    assert (store.read().ident, store.read().seq, run(store, look).value) == ("kept", 1, "kept")


def test_commit_gets_the_outcome_and_the_number_of_the_ledger_in_which_it_stands(store: Store) -> None:
    """One higher with every write, the same without one."""
    seen: list[tuple[Done, int]] = []
    answers = [store.transact(change, lambda *told: seen.append(told), None) for change in (put("a"), put("b"), look)]
    assert seen == list(zip(answers, (1, 2, 2), strict=True))


def test_commit_runs_after_the_write(store: Store) -> None:
    """Whoever is told finds it in the ledger."""
    seen: list[str] = []
    store.transact(put("written"), lambda *_: seen.append(store.read().ident), None)
    assert seen == ["written"]


def test_commit_runs_under_the_lock(store: Store) -> None:
    """Nobody else's transaction comes between the write and the telling."""
    seen: list[bool] = []

    def try_elsewhere(*_: object) -> None:
        thread = threading.Thread(target=lambda: seen.append(is_busy(store)))
        thread.start()
        thread.join()

    store.transact(put("a"), try_elsewhere, None)
    assert seen == [True]


def is_busy(store: Store) -> bool:
    """Whether a try finds the lock taken."""
    try:
        run(store, look)
    except BusyError:
        return True
    return False


def test_a_commit_that_raises_keeps_the_write_and_frees_the_lock(store: Store) -> None:
    """What is written is written."""

    def fail(*_: object) -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        store.transact(put("written"), fail, None)
    assert (store.read().ident, is_busy(store)) == ("written", False)


def test_trying_once_finds_a_taken_lock_busy(store: Store) -> None:
    """And changes nothing."""
    run(store, put("before"))
    with locked(store), pytest.raises(BusyError):
        run(store, put("barged in"))
    assert store.read().ident == "before"


def test_a_transaction_inside_a_transaction_finds_the_lock_busy(store: Store) -> None:
    """A signal handler that calls in must not hang, nor write in between."""

    def call_in(state: State) -> Done:
        with pytest.raises(BusyError):
            run(store, put("called in"))
        state.ident = "outer"
        return Done(changed=True)

    run(store, call_in)
    assert (store.read().ident, is_busy(store)) == ("outer", False)


def test_a_deadline_in_the_past_finds_a_taken_lock_busy(store: Store) -> None:
    """It does not wait for ever."""
    with locked(store), pytest.raises(BusyError):
        store.transact(look, ignore, time.monotonic() - 1)


def test_a_deadline_ends_the_wait_for_a_taken_lock(store: Store) -> None:
    """Not before it."""
    with locked(store):
        deadline = time.monotonic() + 0.05
        with pytest.raises(BusyError):
            store.transact(look, ignore, deadline)
        assert time.monotonic() >= deadline


def test_a_free_lock_is_had_whatever_the_deadline(store: Store) -> None:
    """In the past, or never."""
    answers = [store.transact(put(str(deadline)), ignore, deadline) for deadline in (0.0, float("inf"))]
    assert all(answer.changed for answer in answers)


def test_whoever_waits_for_the_lock_gets_it_when_it_is_free(store: Store) -> None:
    """Before the deadline."""
    answers: list[object] = []
    waiter = threading.Thread(
        target=lambda: answers.append(store.transact(look, ignore, time.monotonic() + PATIENCE_S).changed),
    )
    with locked(store):
        waiter.start()
    waiter.join()
    assert answers == [False]


def test_a_reader_needs_no_lock(store: Store) -> None:
    """It sees the last state that was written."""
    run(store, put("last"))
    with locked(store):
        assert store.read().ident == "last"


def test_threads_exclude_each_other(store: Store) -> None:
    """Each of many increments counts."""

    def increment(state: State) -> Done:
        state.ident = str(int(state.ident) + 1)
        return Done(changed=True)

    def work() -> None:
        for _ in range(50):
            store.transact(increment, ignore, time.monotonic() + PATIENCE_S)

    run(store, put("0"))
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (store.read().ident, store.read().seq) == ("400", 401)


def test_a_ledger_may_grow_and_shrink(store: Store) -> None:
    """From a line to far beyond a page, and back."""
    sizes = (10, 100_000, 3000, 16_384, 0, 50_000, 10)
    read = [len(store.read().machine) for size in sizes if run(store, grow(size)).changed]
    assert read == list(sizes)


def test_opening_twice_and_closing_twice_is_fine(store: Store) -> None:
    """A closed store is usable again."""
    run(store, put("kept"))
    store.open()
    store.open()
    store.close()
    store.close()
    assert run(store, look).value == "kept"


def test_a_store_in_use_is_intact(store: Store) -> None:
    """Nobody has deleted or replaced it."""
    run(store, put("a"))
    assert store.intact()
