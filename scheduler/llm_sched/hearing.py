"""One call as its listener hears it: from before it asks until it has a slot, or has failed.

The law: `with` around the whole acquiring, in the thread or task of the call, so that the listener sees the call's own context.
May not know how a call waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from llm_sched.calls import Call
    from llm_sched.host import Clock
    from llm_sched.observer import Audience, Listener


class Hearing:
    """Tells a listener how a call fares."""

    __slots__ = ("_audience", "_call", "_clock", "_listener")

    def __init__(self, audience: Audience, listener: Listener, call: Call, clock: Clock) -> None:
        self._audience = audience
        self._listener = listener
        self._call = call
        self._clock = clock

    def __enter__(self) -> Self:
        self._audience.tell(self._listener.began, self._call)
        return self

    def waits(self) -> None:
        """The call has to wait."""
        self._audience.tell(self._listener.waits, self._call, self._waited_s())

    def _waited_s(self) -> float:
        return max(0.0, self._clock.now() - self._call.at)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self._audience.tell(self._listener.acquired, self._call)
        else:
            self._audience.tell(self._listener.failed, self._call, error, self._waited_s())


class _Unheard(Hearing):
    """Nobody listens."""

    __slots__ = ()

    def __init__(self) -> None:
        """Know nobody."""

    def __enter__(self) -> Self:
        return self

    def waits(self) -> None:
        """Nobody wants to know."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Nobody wants to know."""


UNHEARD = _Unheard()
