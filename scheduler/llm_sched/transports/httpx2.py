"""Slots for clients on `httpx2`. The law: only names; what they do is in `sending` and `bodies`."""

from __future__ import annotations

import httpx2

from llm_sched.transports.bodies import AsyncPacedBody, PacedBody
from llm_sched.transports.sending import KEPT_CONNECTIONS, AsyncPacedSending, PacedSending

__all__ = ["AsyncPacedTransport", "PacedTransport"]

_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS)


class _Body(PacedBody, httpx2.SyncByteStream):
    """A body that httpx2 takes for one of its own."""


class _AsyncBody(AsyncPacedBody, httpx2.AsyncByteStream):
    """A body that httpx2 takes for one of its own."""


class PacedTransport(PacedSending[httpx2.Request, httpx2.Response], httpx2.BaseTransport):  # noqa: D101 - the common one, below
    __doc__ = PacedSending.__doc__

    body = _Body

    @classmethod
    def new_inner(cls) -> httpx2.BaseTransport:
        """See `PacedSending`."""
        return httpx2.HTTPTransport(limits=_LIMITS)


class AsyncPacedTransport(AsyncPacedSending[httpx2.Request, httpx2.Response], httpx2.AsyncBaseTransport):  # noqa: D101 - the common one, below
    __doc__ = AsyncPacedSending.__doc__

    body = _AsyncBody

    @classmethod
    def new_inner(cls) -> httpx2.AsyncBaseTransport:
        """See `AsyncPacedSending`."""
        return httpx2.AsyncHTTPTransport(limits=_LIMITS)
