"""Slots for clients on `httpx`. The law: only names; what they do is in `sending` and `bodies`."""

from __future__ import annotations

import httpx

from llm_sched.transports.bodies import AsyncPacedBody, PacedBody
from llm_sched.transports.sending import KEPT_CONNECTIONS, AsyncPacedSending, PacedSending

__all__ = ["AsyncPacedTransport", "PacedTransport"]

_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS)


class _Body(PacedBody, httpx.SyncByteStream):
    """A body that httpx takes for one of its own."""


class _AsyncBody(AsyncPacedBody, httpx.AsyncByteStream):
    """A body that httpx takes for one of its own."""


class PacedTransport(PacedSending[httpx.Request, httpx.Response], httpx.BaseTransport):  # noqa: D101 - the common one, below
    __doc__ = PacedSending.__doc__

    body = _Body

    @classmethod
    def new_inner(cls) -> httpx.BaseTransport:
        """See `PacedSending`."""
        return httpx.HTTPTransport(limits=_LIMITS)


class AsyncPacedTransport(AsyncPacedSending[httpx.Request, httpx.Response], httpx.AsyncBaseTransport):  # noqa: D101 - the common one, below
    __doc__ = AsyncPacedSending.__doc__

    body = _AsyncBody

    @classmethod
    def new_inner(cls) -> httpx.AsyncBaseTransport:
        """See `AsyncPacedSending`."""
        return httpx.AsyncHTTPTransport(limits=_LIMITS)
