"""One HTTP attempt inside a slot, for either library: the transports' common part, for threads and for asyncio.

The law: the slot is there before the inner transport hears of the request, so the wait is in none of the client's timeouts;
it goes with the answer's body, or back at once where there is none. May not import a library of clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from llm_sched.transports.pacing import Pacer, Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from llm_sched.scheduler import Scheduler
    from llm_sched.transports.pacing import Stay

KEPT_CONNECTIONS = 100
"""Idle connections that a transport of ours keeps open, as openai's default client does. There is no limit on busy ones: a call
that waited for a connection would do so with its slot in hand."""


class Response(Protocol):
    """The part of httpx's `Response` that is wrapped."""

    stream: Any
    is_closed: bool


RequestT = TypeVar("RequestT", bound=Request)
ResponseT = TypeVar("ResponseT", bound=Response)
SentT_contra = TypeVar("SentT_contra", bound=Request, contravariant=True)
GotT_co = TypeVar("GotT_co", bound=Response, covariant=True)


class Inner(Protocol[SentT_contra, GotT_co]):
    """What sends a request from a thread: httpx's `BaseTransport`."""

    def handle_request(self, request: SentT_contra, /) -> GotT_co:
        """Send it, and return when the head of the answer is there."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class AsyncInner(Protocol[SentT_contra, GotT_co]):
    """What sends a request from a task: httpx's `AsyncBaseTransport`."""

    async def handle_async_request(self, request: SentT_contra, /) -> GotT_co:
        """Send it, and return when the head of the answer is there."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...

    async def __aenter__(self) -> object: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class PacedSending(Generic[RequestT, ResponseT]):
    """A transport that takes a slot around each HTTP attempt; redirects and the client's retries are attempts of their own.

    Args:
        inner: what sends the requests; None = a transport of the library's own, with its defaults. Proxies, certificates and
            the like belong there: a client that is given a transport uses it as it is.
        provider: label of the provider; None = the policy's, else the host of each request.
        model: name of the model of every request; None = what its JSON body says. Without it, requests that name no model
            (a list of models, an uploaded form) are not paced.
        scheduler: whose slots to take; None = the process's, see `llm_sched.install`.

    Raises:
        SlotTimeout: on sending, when no slot came in time; nothing was sent.
        LedgerError: on sending, when the ledger cannot be used.
    """

    body: ClassVar[type[Any]]

    def __init__(
        self,
        inner: Inner[RequestT, ResponseT] | None = None,
        *,
        provider: str | None = None,
        model: str | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        self._inner = inner or self.new_inner()
        self._pacer = Pacer(provider, model, scheduler)

    @classmethod
    def new_inner(cls) -> Inner[RequestT, ResponseT]:
        """What sends the requests when the user does not say."""
        raise NotImplementedError

    def handle_request(self, request: RequestT) -> ResponseT:
        """Send one request as soon as there is a slot for it; see httpx's `BaseTransport`."""
        stay = self._pacer.take(request)
        if stay is None:
            return self._inner.handle_request(request)
        try:
            with stay.lent():
                response = self._inner.handle_request(request)
            return _held(response, stay, self.body)
        except BaseException:
            stay.end()
            raise

    def close(self) -> None:
        """Close all connections; answers that were still being read give their slots back."""
        try:
            self._inner.close()
        finally:
            self._pacer.end_all()

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        try:
            self._inner.__exit__(kind, error, trace)
        finally:
            self._pacer.end_all()


class AsyncPacedSending(Generic[RequestT, ResponseT]):
    """As `PacedSending`, for asyncio. Under trio, whose tasks cannot wait for a slot, requests end in a SchedulerError."""

    body: ClassVar[type[Any]]

    def __init__(
        self,
        inner: AsyncInner[RequestT, ResponseT] | None = None,
        *,
        provider: str | None = None,
        model: str | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        self._inner = inner or self.new_inner()
        self._pacer = Pacer(provider, model, scheduler)

    @classmethod
    def new_inner(cls) -> AsyncInner[RequestT, ResponseT]:
        """What sends the requests when the user does not say."""
        raise NotImplementedError

    async def handle_async_request(self, request: RequestT) -> ResponseT:
        """Send one request as soon as there is a slot for it; see httpx's `AsyncBaseTransport`."""
        stay = await self._pacer.take_async(request)
        if stay is None:
            return await self._inner.handle_async_request(request)
        try:
            with stay.lent():
                response = await self._inner.handle_async_request(request)
            return _held(response, stay, self.body)
        except BaseException:
            stay.end()
            raise

    async def aclose(self) -> None:
        """Close all connections; answers that were still being read give their slots back."""
        try:
            await self._inner.aclose()
        finally:
            self._pacer.end_all()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        try:
            await self._inner.__aexit__(kind, error, trace)
        finally:
            self._pacer.end_all()


def _held(response: ResponseT, stay: Stay, body: Callable[[Any, Stay], Any]) -> ResponseT:
    if response.is_closed:  # e.g. out of a cache: nobody will close it again
        stay.end()
    else:
        stay.go_on()
        response.stream = body(response.stream, stay)
    return response
