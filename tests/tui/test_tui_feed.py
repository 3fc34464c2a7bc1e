"""The loop between source and screen: bounded, pausable, and it ends."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING

from tui_support import PATIENCE_S, FakeSource, bucket, holder, model, snapshot

from llm_sched_tui.feed import Feed
from llm_sched_tui.recording import Recorder, ReplaySource
from llm_sched_tui.view_model.pages import OverviewPage
from llm_sched_tui.view_model.values import View

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = snapshot(bucket("p/one", holders=[holder()])), snapshot(bucket("p/two", holders=[holder()]), seq=2)


def names(view: View | None) -> list[str]:
    """The buckets in a view."""
    assert view is not None
    assert isinstance(view.page, OverviewPage)
    return [row.name for row in view.page.buckets.records]


def test_a_look_tells_whether_there_is_news() -> None:
    """An unchanged ledger is none."""
    source = FakeSource(ONE)
    feed = Feed(source, model(), 0.25)
    assert feed.look() is True
    assert feed.look() is False
    source.show(TWO)
    assert feed.look() is True
    assert names(feed.view()) == ["p/two"]


def test_a_pause_keeps_the_picture_and_not_the_history() -> None:
    """It stands still; afterwards all that happened is there."""
    source = FakeSource(ONE)
    feed = Feed(source, model(), 0.25)
    feed.look()
    feed.query = dataclasses.replace(feed.query, paused=True)
    assert names(feed.view()) == ["p/one"]
    assert source.still
    source.show(TWO)
    feed.look()
    assert names(feed.view()) == ["p/one"]
    feed.query = dataclasses.replace(feed.query, paused=False)
    assert names(feed.view()) == ["p/two"]
    assert not source.still


def test_another_question_is_answered_at_once_and_stop_stops() -> None:
    """Although the next look is an hour away."""
    feed = Feed(FakeSource(ONE), model(), 3600.0)
    views: list[View] = []
    came = threading.Condition()

    def show(view: View) -> None:
        with came:
            views.append(view)
            came.notify_all()

    thread = threading.Thread(target=feed.run, args=(show,))
    thread.start()
    with came:
        assert came.wait_for(lambda: len(views) == 1, PATIENCE_S)
    feed.query = dataclasses.replace(feed.query, screen="runs")
    with came:
        assert came.wait_for(lambda: len(views) == 2, PATIENCE_S)
    assert views[1].query.screen == "runs"
    feed.stop()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_at_most_one_look_a_refresh() -> None:
    """However often the ledger changes and the question is changed: the work a second is bounded."""
    clock_at = [0.0]
    source = FakeSource(ONE)
    looks = 0

    class Counting(FakeSource):
        def poll(self):  # type: ignore[no-untyped-def] # noqa: ANN202
            nonlocal looks
            looks += 1
            return source.poll()

    feed = Feed(Counting(ONE), model(), 1.0, clock=lambda: clock_at[0])
    shown: list[View] = []

    def show(view: View) -> None:
        shown.append(view)
        if len(shown) < 50:
            feed.query = dataclasses.replace(feed.query, bucket=str(len(shown)))
        else:
            feed.stop()

    feed.run(show)
    assert len(shown) == 50
    assert looks == 1


def test_what_is_seen_is_recorded(tmp_path: Path) -> None:
    """Also while the picture stands still."""
    source = FakeSource(ONE)
    recorder = Recorder(tmp_path / "r.gz", "")
    feed = Feed(source, model(), 0.25, recorder)
    feed.query = dataclasses.replace(feed.query, paused=True)
    feed.look()
    feed.view()
    source.show(TWO)
    feed.look()
    recorder.close()
    at = [0.0]
    replay = ReplaySource(tmp_path / "r.gz", 1.0, lambda: at[0])
    seen = replay.poll()
    at[0] = 10.0
    seen += replay.poll()
    assert [each.snapshot.buckets[0].name for each in seen[:2]] == ["p/one", "p/two"]
