"""Which slot a request needs, how it is taken, and how long it is held.

The law: only a request that names a model is paced, unless the user names one for all; the provider is who the user says, else
the policy, else the host. A slot around the request in the same bucket is borrowed, by one request at a time. What is taken
ends with the body of the answer. May not know httpx, nor how a body is read.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from llm_sched import borrow, default
from llm_sched.cleanup import on_event_loop
from llm_sched.labels import provider_label

if TYPE_CHECKING:
    from collections.abc import Generator

    from llm_sched.scheduler import Scheduler, Slot


class Address(Protocol):
    """The part of httpx's `URL` that tells the provider."""

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        ...

    @property
    def netloc(self) -> bytes:
        """Host and port in ASCII, lower-case, without a password, without the port that is the scheme's own."""
        ...


class Request(Protocol):
    """The part of httpx's `Request` that tells the bucket."""

    @property
    def url(self) -> Address:
        """Where it goes."""
        ...

    @property
    def headers(self) -> Any:  # noqa: ANN401 - either library's own kind of mapping
        """What it says about itself."""
        ...

    @property
    def content(self) -> bytes:
        """Its body; raises a RuntimeError while that is not in memory."""
        ...

    def read(self) -> bytes:
        """Bring its body into memory."""
        ...

    async def aread(self) -> bytes:
        """Bring its body into memory."""
        ...


class _Body(msgspec.Struct):
    model: str = ""


_decode = msgspec.json.Decoder(_Body).decode


def model_of(body: bytes) -> str:
    """The model that a JSON body names; empty if it is no JSON object or names none.

    Args:
        body: the whole body of a request.
    """
    try:
        return _decode(body).model
    except (msgspec.MsgspecError, RecursionError):  # not ours to judge: the provider will say what is wrong with it
        return ""


class Stay:
    """One request's slot, from before it is sent until the body of its answer is closed.

    Attributes:
        over: the slot has been given back.
    """

    def __init__(self, slot: Slot, scheduler: Scheduler, stays: set[Stay]) -> None:
        self._slot = slot
        self._scheduler = scheduler
        self._stays = stays
        self._pid = os.getpid()
        self.over = False

    @contextmanager
    def lent(self) -> Generator[None]:
        """While the request is sent: a paced layer further down borrows the slot instead of waiting for another."""
        token = borrow.lend(self._slot, self._scheduler)
        try:
            yield
        finally:
            borrow.withdraw(token)

    def go_on(self) -> None:
        """The answer has begun; the slot is held until `end`, or until the transport is closed."""
        self._stays.add(self)

    def end(self) -> None:
        """Give the slot back. Idempotent, never raises, never blocks an event loop."""
        self.over = True
        self._stays.discard(self)
        self._slot.release()

    @property
    def forgotten(self) -> bool:
        """Whether the slot is still held, and by this process: of a body that is dropped, somebody must end it."""
        return not self.over and self._pid == os.getpid()


class Pacer:
    """Takes slots for the requests of one transport.

    Args:
        provider: label of the provider; None = the policy's, else the host of each request.
        model: name of the model of every request; None = what each body says, and a body that names none is not paced.
        scheduler: whose slots; None = the process's at the time of each request (see `llm_sched.install`).
    """

    def __init__(self, provider: str | None, model: str | None, scheduler: Scheduler | None) -> None:
        self._provider = provider
        self._model = model
        self._scheduler = scheduler
        self._stays: set[Stay] = set()

    def take(self, request: Request) -> Stay | None:
        """Block until there is a slot for the request; None if it needs none. Errors as for `Scheduler.acquire`."""
        model = self._known_model(request)
        if model is None:
            model = model_of(request.read())
        if not model:
            return None
        scheduler = self._scheduler or default.current()
        provider = self._label(request.url, scheduler)
        slot = scheduler.borrowed(provider, model) or scheduler.acquire(provider=provider, model=model)
        return Stay(slot, scheduler, self._stays)

    async def take_async(self, request: Request) -> Stay | None:
        """Wait in a task until there is a slot for the request; else as `take`."""
        model = self._known_model(request)
        if model is None:
            model = model_of(await request.aread())
        if not model:
            return None
        scheduler = self._scheduler or default.current()
        provider = self._label(request.url, scheduler)
        loan = scheduler.borrowed(provider, model) if on_event_loop() else None  # else the next line says what is wrong
        slot = loan or await scheduler.acquire_async(provider=provider, model=model)
        return Stay(slot, scheduler, self._stays)

    def end_all(self) -> None:
        """The transport is closed and every connection with it: no answer can go on."""
        for stay in self._stays.copy():
            stay.end()

    def _known_model(self, request: Request) -> str | None:
        """The request's model, empty if it has none; None = its body must be read first."""
        if self._model:
            return self._model
        try:
            return model_of(request.content)
        except RuntimeError:  # not in memory; a file that is being uploaded should not come there
            return None if "json" in request.headers.get("content-type", "") else ""

    def _label(self, url: Address, scheduler: Scheduler) -> str:
        return self._provider or scheduler.policy.provider or provider_label(f"{url.scheme}://{url.netloc.decode('ascii')}")
