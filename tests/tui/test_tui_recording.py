"""Recordings: written, cut off, damaged, played at any speed, and one of a real contention."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tui_support import CONTENTION, bucket, holder, missing, reading, snapshot

from llm_sched_tui.feed import Feed
from llm_sched_tui.recording import Recorder, RecordingError, ReplaySource
from llm_sched_tui.view_model.model import Model
from llm_sched_tui.view_model.pages import EventsPage, OverviewPage
from llm_sched_tui.view_model.values import Query

REAL = Path(__file__).with_name("contention.rec.gz")
"""Eight runs that contended for 90 seconds, one more that was killed; by `python -m tests.monitor.contention`."""

HEAD = b'{"llm_sched_recording": 1, "wall": 0}\n'


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        """Seconds."""
        return self.at


def recorded(path: Path, seconds: int = 10) -> Path:
    """One snapshot a second, seen ten times each."""
    recorder = Recorder(path, "/home/ann")
    for tick in range(seconds * 10):
        taken = 50.0 + tick // 10
        shown = snapshot(bucket(holders=[holder(pid=tick // 10 + 1)]), seq=tick // 10)
        recorder.take(reading(shown, 50.0 + tick / 10, taken=taken))
    recorder.close()
    return path


def test_what_was_written_is_played(tmp_path: Path) -> None:
    """The same snapshots at the same times; the end is known."""
    clock = Clock()
    source = ReplaySource(recorded(tmp_path / "r.gz"), 1.0, clock)
    assert [each.snapshot.seq for each in source.poll()] == [0]
    clock.at += 2.5
    assert [(each.at, each.snapshot.seq) for each in source.poll()] == [(1.0, 1), (2.0, 2)]
    assert source.poll()[0].changed is False
    assert source.now() == pytest.approx(2.5)
    clock.at += 100
    assert [each.snapshot.seq for each in source.poll()][-1] == 9
    assert source.now() == pytest.approx(9.9)
    assert source.progress() == "replay ended"


def test_only_what_changed_is_written_and_the_home_folder_is_not(tmp_path: Path) -> None:
    """Compact, and fit to be shared."""
    lines = gzip.decompress(recorded(tmp_path / "r.gz").read_bytes()).splitlines()
    assert len(lines) == 1 + 10 + 1
    assert json.loads(lines[1])["snapshot"]["path"] == "~/ledger.json"
    assert b"/home/ann" not in b"".join(lines)


@pytest.mark.parametrize("speed", [0.5, 3.0, 100.0])
def test_any_speed(tmp_path: Path, speed: float) -> None:
    """The same recording in more or less time."""
    clock = Clock()
    source = ReplaySource(recorded(tmp_path / "r.gz"), speed, clock)
    seen = source.poll()
    clock.at += 5.05 / speed
    seen += source.poll()
    assert [each.snapshot.seq for each in seen if each.changed] == [0, 1, 2, 3, 4, 5]


def test_a_pause_stops_the_time(tmp_path: Path) -> None:
    """It goes on where it stood."""
    clock = Clock()
    source = ReplaySource(recorded(tmp_path / "r.gz"), 1.0, clock)
    source.poll()
    clock.at += 1.0
    source.hold(still=True)
    clock.at += 50.0
    assert source.now() == pytest.approx(1.0)
    source.hold(still=False)
    clock.at += 0.5
    assert source.now() == pytest.approx(1.5)


def test_a_recording_that_was_cut_off_plays_to_there(tmp_path: Path) -> None:
    """The monitor may have been killed at any byte: the more there is, the more is played, and nothing is an error."""
    whole = recorded(tmp_path / "whole.gz").read_bytes()
    played = 0
    for size in range(0, len(whole) + 1, 3):
        (tmp_path / "cut.gz").write_bytes(whole[:size])
        clock = Clock()
        try:
            source = ReplaySource(tmp_path / "cut.gz", 1.0, clock)
        except RecordingError:
            assert played == 0  # not one whole snapshot
            continue
        source.poll()
        clock.at += 100
        last = source.poll()[-1].snapshot.seq
        assert last >= played
        assert source.progress() == "replay ended"
        played = last
    assert played >= 8


def test_at_a_high_speed_the_work_is_bounded(tmp_path: Path) -> None:
    """Some snapshots are left out; the last one never."""
    clock = Clock()
    source = ReplaySource(recorded(tmp_path / "r.gz", 500), 1e6, clock)
    source.poll()
    clock.at += 1
    readings = source.poll()
    assert len(readings) <= 66
    assert readings[-1].snapshot.seq == 499


@pytest.mark.parametrize("lines", [b'{"a": 1}\n', b"", HEAD, None], ids=["foreign", "empty", "head only", "no gzip"])
def test_what_is_no_recording_is_named(tmp_path: Path, lines: bytes | None) -> None:
    """One clear line, with the file's name."""
    path = tmp_path / "wrong.gz"
    path.write_bytes(b"no gzip" if lines is None else gzip.compress(lines))
    with pytest.raises(RecordingError, match=r"wrong\.gz"):
        ReplaySource(path, 1.0, Clock())


def test_a_newer_recording_is_refused(tmp_path: Path) -> None:
    """With what to do."""
    path = tmp_path / "newer.gz"
    path.write_bytes(gzip.compress(b'{"llm_sched_recording": 99, "wall": 0}\n'))
    with pytest.raises(RecordingError, match="upgrade"):
        ReplaySource(path, 1.0, Clock())


def test_damage_in_the_middle_is_named(tmp_path: Path) -> None:
    """Not skipped."""
    path = tmp_path / "r.gz"
    path.write_bytes(gzip.compress(b'{"llm_sched_recording": 1, "wall": 0}\n{"at": 0, "snapshot": {"path": 3}}\n'))
    with pytest.raises(RecordingError, match="damaged"):
        ReplaySource(path, 1.0, Clock()).poll()


def test_no_recording_is_written_over(tmp_path: Path) -> None:
    """Another name must be given; nor can one be written into a folder that is not there."""
    path = recorded(tmp_path / "r.gz")
    with pytest.raises(RecordingError, match="exists"):
        Recorder(path, "")
    with pytest.raises(RecordingError, match="no/such"):
        Recorder(tmp_path / "no/such/r.gz", "")


def test_all_states_are_recorded(tmp_path: Path) -> None:
    """Also that there was nothing, or that it could not be read."""
    recorder = Recorder(tmp_path / "r.gz", "")
    shown = (reading(missing()), reading(snapshot(*CONTENTION), 1.0), reading(missing(), 2.0, refused="no permission"))
    for each in shown:
        recorder.take(each)
    recorder.close()
    recorder.close()
    clock = Clock()
    source = ReplaySource(tmp_path / "r.gz", 1.0, clock)
    seen = source.poll()
    clock.at += 10
    seen += source.poll()
    assert [(each.snapshot.state, each.refused) for each in seen[:3]] == [
        ("absent", ""),
        ("live", ""),
        ("absent", "no permission"),
    ]
    assert seen[1].snapshot.buckets == list(CONTENTION)


def test_a_real_contention_replayed() -> None:
    """What a monitor saw of nine processes: caps kept, waits, timeouts, a stricter policy, a killed holder's slot."""
    clock, model = Clock(), Model()
    feed = Feed(ReplaySource(REAL, 1.0, clock), model, 0.25)
    most: dict[str, int] = {}
    reasons: set[str] = set()
    while True:
        feed.look()
        view = feed.view()
        assert view is not None
        if isinstance(view.page, OverviewPage) and view.snapshot is not None:
            for bucket in view.snapshot.buckets:
                most[bucket.name] = max(most.get(bucket.name, 0), bucket.in_flight)
                reasons |= {waiter.waiting_for for waiter in bucket.waiters}
        if view.status.facts.progress == "replay ended":
            break
        clock.at += 0.25
    assert most["openai/gpt-4o"] == 8
    assert most["ollama/llama3.2"] == 2
    assert {"in_flight", "rate", "policy"} <= reasons
    feed.query = Query(screen="events")
    page = feed.view().page  # type: ignore[union-attr]
    assert isinstance(page, EventsPage)
    kinds = {record.event.kind for record in page.events.records}
    assert {"granted", "released", "timed out", "reclaimed", "policy", "joined", "left"} <= kinds
