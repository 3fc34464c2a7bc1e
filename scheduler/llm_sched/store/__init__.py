"""Where the ledger lives. A store runs a change under its lock and keeps the result; it knows nothing of limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_sched.model import State


class Outcome(Protocol):
    """What a change returns."""

    @property
    def changed(self) -> bool:
        """Whether the state must be written."""
        ...


OutcomeT = TypeVar("OutcomeT", bound=Outcome)


class BusyError(Exception):
    """The store's lock could not be had in time; nothing happened. `holder` is the pid that has it, 0 if unknown."""

    def __init__(self, holder: int = 0) -> None:
        super().__init__(holder)
        self.holder = holder


class Store(Protocol):
    """A ledger that many processes, or at least threads, share."""

    def open(self) -> None:
        """Make ready what takes long the first time, so that no call's wait includes it.

        Raises:
            LedgerError: the ledger's folder cannot be used.
        """
        ...

    def transact(
        self,
        change: Callable[[State], OutcomeT],
        commit: Callable[[OutcomeT, int], None],
        deadline: float | None,
        *,
        yields: bool = False,
    ) -> OutcomeT:
        """Run `change` on the state under the lock, write what it changed, then run `commit` before the lock is freed.

        Args:
            change: may update the state in place; raises to leave the ledger as it was. Run again, on the state as it is
                then, if the lock was lost meanwhile.
            commit: gets the outcome and the sequence number of the ledger in which it stands.
            deadline: `time.monotonic()` until which to try for the lock; None = try once, never block.
            yields: let others who are in a hurry go first.

        Raises:
            BusyError: the lock could not be had in time.
            LedgerError: the ledger cannot be read or written; it is as it was.
        """
        ...

    def read(self) -> State:
        """Return the last state written, without the lock; an empty one if there is none.

        Raises:
            LedgerError: there is something that cannot be read.
        """
        ...

    def intact(self) -> bool:
        """Whether the ledger is still the one this process last wrote or read: not deleted, not replaced."""
        ...

    def close(self) -> None:
        """Let go of descriptors; usable again afterwards."""
        ...
