"""`Scheduler` and `Slot`: what a user holds in hand. No globals; `default.py` has the one process-wide scheduler."""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Never, Protocol, Self

from llm_sched import borrow, host
from llm_sched.config import Policy, Target, policy_of
from llm_sched.engine import Engine
from llm_sched.inheritance import VARIABLE, InheritedLoan, borrow_inherited, lease_file
from llm_sched.mailroom import FileMailroom
from llm_sched.observer import Audience
from llm_sched.recovery import recover
from llm_sched.store.file import FileStore, folder_of
from llm_sched.store.location import local_path
from llm_sched.telemetry.attach import configured

if TYPE_CHECKING:
    from contextvars import Token
    from pathlib import Path
    from types import TracebackType

    from llm_sched.calls import Call
    from llm_sched.mailroom import Mailroom
    from llm_sched.observer import Observer
    from llm_sched.store import Store


class Loan(Protocol):
    """A slot of an outer layer, borrowed."""

    def give_back(self) -> None:
        """End borrowing."""
        ...


class Slot:
    """One unit of a bucket's `max_in_flight`, held until `release()`; also a context manager.

    It survives being released from another thread, and belongs to the process that took it: in a forked child it is
    inert. A slot that is dropped unreleased is given back when Python collects it.

    Attributes:
        bucket: name of the bucket, e.g. `openai/gpt-4o`.
        released: whether it has been given back.
    """

    __slots__ = ("__weakref__", "_call", "_engine", "_loan", "_pid", "_to_return", "bucket", "released")

    bucket: str
    released: bool

    def __init__(self, engine: Engine, bucket: str, call: Call | None, loan: Loan | None = None) -> None:
        self._engine = engine
        self._call = call
        self._to_return = [loan] if loan else []  # `list.pop` is atomic: of two threads only one returns it
        self._pid = os.getpid()
        self._loan = loan
        self.bucket = bucket
        self.released = False

    @property
    def waited_s(self) -> float:
        """Seconds from the call to the grant; of a borrowed slot 0."""
        return self._call.waited_s if self._call else 0.0

    def release(self, error: type[BaseException] | None = None) -> None:
        """Give the slot back and hand it to the next in the queue. Idempotent, never raises, never blocks a loop.

        Args:
            error: type of what went wrong while it was held, for telemetry.
        """
        if self.released:
            return
        self.released = True
        if self._pid != os.getpid():
            return
        if self._loan:
            with suppress(IndexError):
                self._to_return.pop().give_back()
        elif self._call:
            try:
                self._engine.release(self._call, error.__qualname__ if error else "")
            except BaseException:  # Ctrl-C, on the way
                self._engine.release_later(self._call)
                raise

    @property
    def lender(self) -> tuple[str, str] | None:
        """Owner and number under which this process may lend on what it has borrowed from a parent process."""
        loan = self._loan
        return (loan.owner, f"{loan.number}-{self._pid}") if isinstance(loan, InheritedLoan) else None

    @property
    def number(self) -> int:
        """Number of the lease within this process; 0 for a borrowed slot."""
        return self._call.number if self._call else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release(kind)

    def __repr__(self) -> str:
        state = "released" if self.released else "borrowed" if self._loan else "held"
        return f"<Slot {self.bucket} {state}, waited {self.waited_s:.3f} s>"

    def __del__(self) -> None:
        # A slot is made before its call has been granted, so that there is no moment at which a grant has no owner.
        call = getattr(self, "_call", None)  # an interrupted `__init__` leaves a slot without one
        if call and call.granted and not call.over and not self.released and self._pid == os.getpid():
            self.released = True
            self._engine.release_later(call)
        elif getattr(self, "_loan", None) and self._pid == os.getpid():
            with suppress(IndexError):
                self._to_return.pop().give_back()


class SlotRequest:
    """What `Scheduler.slot` returns: enter it with `with` in a thread or `async with` in a task; both give a `Slot`."""

    __slots__ = ("_entered", "_model", "_provider", "_scheduler", "_timeout_s")

    def __init__(self, scheduler: Scheduler, provider: str | None, model: str | None, timeout_s: float | None) -> None:
        self._scheduler = scheduler
        self._provider = provider
        self._model = model
        self._timeout_s = timeout_s
        self._entered: list[tuple[Slot, Token[borrow.Loan | None]]] = []

    def __enter__(self) -> Slot:
        slot = self._borrowed() or self._scheduler.acquire(
            provider=self._provider, model=self._model, timeout_s=self._timeout_s
        )
        return self._enter(slot)

    async def __aenter__(self) -> Slot:
        slot = self._borrowed() or await self._scheduler.acquire_async(
            provider=self._provider, model=self._model, timeout_s=self._timeout_s
        )
        return self._enter(slot)

    def _borrowed(self) -> Slot | None:
        return self._scheduler.borrowed(self._provider, self._model)

    def _enter(self, slot: Slot) -> Slot:
        self._entered.append((slot, borrow.lend(slot, self._scheduler)))
        return slot

    def _exit(self, kind: type[BaseException] | None) -> None:
        slot, token = self._entered.pop()
        try:
            borrow.withdraw(token)
            slot.release(kind)
        finally:
            slot.release(kind)  # Ctrl-C may have come before the first one; else this does nothing

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._exit(kind)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit(kind)


class Scheduler:
    """Paces calls under one policy, together with every other process that uses the same ledger.

    Threads, tasks and loops of a process may share one. Nothing is opened before the first slot.

    Args:
        policy: the knobs; the environment does not override them here (see `install`).
        observer: hears what happens, besides OpenTelemetry where the program has configured that; a `NullObserver` keeps
            that out.
        store: where the ledger is; None = the policy's file. Tests pass `llm_sched.testing.MemoryStore()`.
        mailroom: goes with the store.
        clock: goes with the store.
        knobs: none; they belong into the policy.

    Raises:
        ConfigError: that is no policy.

    Attributes:
        policy: the knobs.
        ledger: where it is: schedulers with an equal one share slots.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        observer: Observer | None = None,
        store: Store | None = None,
        mailroom: Mailroom | None = None,
        clock: host.Clock | None = None,
        **knobs: Never,
    ) -> None:
        self.policy = policy_of("Scheduler", policy, knobs)
        self._targets: dict[tuple[str | None, str | None], Target] = {}
        clock = clock or host.Clock()
        path = local_path(self.policy.path)
        self._folder = folder_of(path)
        files = FileMailroom(self._folder)
        file = FileStore(path, clock, lambda state: recover(state, files, clock.now()))
        self.ledger: object = store or path
        self._engine = Engine(
            self.policy,
            store or file,
            mailroom or files,
            clock,
            Audience(observer, configured),
            (file.after_fork, files.after_fork),
        )
        weakref.finalize(self, self._engine.retire).atexit = False

    def slot(
        self, *labels: Never, provider: str | None = None, model: str | None = None, timeout_s: float | None = None
    ) -> SlotRequest:
        """Return a context manager, for `with` and `async with`, around one call.

        Inside a slot of the same bucket it borrows that one: layers of one call share one slot.

        Args:
            labels: none; provider and model are given by name.
            provider: label of the provider; None = the policy's, else `default`.
            model: name of the model; None = `default`.
            timeout_s: longest wait in seconds, 0 = try once, `inf` = for ever; None = the policy's.

        Raises:
            TypeError: labels without names.
            ConfigError: on entering, when the bucket's name is in use for other keys.
            SlotTimeout: on entering, when no slot came in time.
            LedgerError: on entering, when the ledger cannot be used.
        """
        by_name("slot", labels)
        return SlotRequest(self, provider, model, timeout_s)

    def acquire(self, *, provider: str | None = None, model: str | None = None, timeout_s: float | None = None) -> Slot:
        """Block this thread until there is a slot, and return it; never borrows. Arguments and errors as for `slot`."""
        call = self._engine.new_call(self._target(provider, model), self._timeout(timeout_s))
        slot = Slot(self._engine, call.bucket, call)
        self._engine.acquire(call)
        return slot

    async def acquire_async(
        self, *, provider: str | None = None, model: str | None = None, timeout_s: float | None = None
    ) -> Slot:
        """Wait in an asyncio task until there is a slot, and return it. Arguments and errors as for `slot`.

        Raises:
            SchedulerError: there is no running asyncio loop, e.g. under trio.
        """
        call = self._engine.new_call(self._target(provider, model), self._timeout(timeout_s))
        slot = Slot(self._engine, call.bucket, call)
        await self._engine.acquire_async(call)
        return slot

    def borrowed(self, provider: str | None, model: str | None) -> Slot | None:
        """A slot borrowed from the layer around this one, if that holds one in the same bucket."""
        bucket = self._target(provider, model).bucket
        loan = borrow.borrow(self, bucket) or (borrow_inherited(self._folder, bucket) if VARIABLE in os.environ else None)
        return Slot(self._engine, bucket, None, loan) if loan else None

    def lease(self, slot: Slot) -> tuple[Path, str]:
        """Make a held slot borrowable by the processes of a command; also see `llm-sched run`.

        Returns:
            The file to delete afterwards, and the value of `LLM_SCHED_LEASE` for the command's environment.
        """
        owner, number = slot.lender or (self._engine.part.owner_id, str(slot.number))
        path = lease_file(self._folder, owner, number)
        path.touch(mode=0o600)
        return path, f"{owner}:{number}:{slot.bucket}"

    def close(self) -> None:
        """Give back all that this scheduler holds and leave the ledger; also done when the process ends."""
        self._engine.close()

    def _target(self, provider: str | None, model: str | None) -> Target:
        target = self._targets.get((provider, model))
        if target is None:
            target = self._targets[provider, model] = self.policy.target(provider, model)
        return target

    def _timeout(self, timeout_s: float | None) -> float:
        if timeout_s is None:
            return self.policy.timeout_s
        if type(timeout_s) in {int, float} and timeout_s >= 0:
            return timeout_s
        return Policy(timeout_s=timeout_s).timeout_s  # says what is wrong with it


def by_name(what: str, labels: tuple[object, ...]) -> None:
    """Refuse labels that come without their names, since nobody sees which is which.

    Raises:
        TypeError: there are some.
    """
    if labels:
        shown = ", ".join(f"{name}={label!r}" for name, label in zip(("provider", "model"), labels, strict=False))
        raise TypeError(f"{what} takes provider and model by name: {what}({shown})")
