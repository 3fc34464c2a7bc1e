"""The worker's loop: look, remember, answer the current question, hand the answer over.

The law: the only place that knows source, recorder and model together. It runs in one thread; the question may be
replaced from another. It draws nothing and imports no Textual.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from llm_sched_tui.view_model.values import Query, View

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_sched_tui.recording import Recorder
    from llm_sched_tui.source import Source
    from llm_sched_tui.view_model.model import Model

SLOW_S, SLOWEST_S = 1.0, 2.0
"""Where nothing changes, times of waiting still grow: they are shown this often, and after a while that often."""

QUIET_AFTER_S = 10.0
"""From here on times are shown in whole seconds."""


class Feed:
    """Turns readings into views.

    Args:
        source: where readings come from.
        model: what remembers them.
        refresh_s: seconds from one look to the next.
        recorder: writes them down, if they are to be.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        source: Source,
        model: Model,
        refresh_s: float,
        recorder: Recorder | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._model = model
        self._refresh_s = refresh_s
        self._recorder = recorder
        self._clock = clock
        self._query = Query()
        self._woken = threading.Event()
        self._ended = False
        self._still: tuple[Model, float, float] | None = None
        self._shown_at = self._news_at = float("-inf")

    @property
    def query(self) -> Query:
        """What is to be shown; set it from any thread."""
        return self._query

    @query.setter
    def query(self, query: Query) -> None:
        if query != self._query:
            self._query = query
            self._woken.set()

    def stop(self) -> None:
        """Let `run` return."""
        self._ended = True
        self._woken.set()

    def look(self) -> bool:
        """Take in what is new; return whether there may be something to draw.

        Raises:
            RecordingError: what was seen cannot be written down, or the recording that is played is damaged.
        """
        readings = self._source.poll()
        for reading in readings:
            self._model.take(reading)
            if self._recorder is not None:
                self._recorder.take(reading)
        return any(reading.changed for reading in readings)

    def view(self) -> View | None:
        """The answer to the question; while paused, as of the moment when the pause began."""
        query = self._query
        if not query.paused:
            if self._still is not None:
                self._still = None
                self._source.hold(still=False)
            return self._model.view(query, self._source.now(), self._source.wall(), self._source.progress())
        if self._still is None:
            self._source.hold(still=True)
            self._still = (self._model.copy(), self._source.now(), self._source.wall())
        model, now, wall = self._still
        return model.view(query, now, wall, self._source.progress())

    def run(self, show: Callable[[View], None]) -> None:
        """Look and show until `stop`: at most one look a refresh, and one view, unless the question changes."""
        while not self._ended:
            due = self._clock() + self._refresh_s
            now = self._clock()
            news = self.look()
            if news:
                self._news_at = now
            pace = SLOW_S if now - self._news_at < QUIET_AFTER_S else SLOWEST_S
            if (news and not self._query.paused) or now - self._shown_at >= pace:
                self._show(show)
            while not self._ended and self._woken.wait(max(0.0, due - self._clock())):
                self._woken.clear()
                self._show(show)

    def _show(self, show: Callable[[View], None]) -> None:
        view = self.view()
        if view is not None and not self._ended:
            self._shown_at = self._clock()
            show(view)
