"""How numbers and cells look."""

from __future__ import annotations

import datetime as dt

import pytest

from llm_sched_tui.view_model import text
from llm_sched_tui.view_model.cells import Gauge, Share, Spark, Words
from llm_sched_tui.view_model.series import Series


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "–"),
        (-1.0, "0.0 s"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (89.4, "89 s"),
        (89.6, "1m30"),
        (3599.4, "59m59"),
        (3599.6, "1h00"),
        (7500.0, "2h05"),
    ],
)
def test_a_duration_is_short(seconds: float | None, shown: str) -> None:
    """Seconds, then minutes, then hours; no two spellings of one length."""
    assert text.seconds(seconds) == shown


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0"), (9999, "9999"), (10_000, "10.0k"), (123_456, "123.5k"), (4_500_000, "4.5M")]
)
def test_a_count_may_be_large(number: float, shown: str) -> None:
    """It stays within a column."""
    assert text.count(number) == shown


def test_words_are_cut_where_they_tell_least() -> None:
    """A path keeps its end, a label its beginning, and nothing gets wider than asked."""
    assert text.tail("/a/very/long/path.json", 10) == "…path.json"
    assert text.elided("a long label", 7) == "a long…"
    assert [text.tail("abc", width) for width in (0, 1, 2, 3)] == ["", "…", "…c", "abc"]
    assert text.home_short("/home/ann/x", "/home/ann") == "~/x"
    assert text.home_short("/home/anna/x", "/home/ann") == "/home/anna/x"
    assert text.home_short("/x", "/") == "/x"


def test_what_would_steer_a_terminal_is_not_printed() -> None:
    """A label is somebody else's text."""
    assert text.printable("a\x1b[31mb") == "a·[31mb"


def test_a_clock_knows_its_zone() -> None:
    """Times of day are those of the zone that is given."""
    assert text.clock(0.0, dt.timezone(dt.timedelta(hours=2))) == "02:00:00"


def drawn(cell: object, width: int) -> str:
    """A cell's characters."""
    return "".join(part for part, _ in cell.draw(width))  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", range(1, 40))
def test_no_cell_is_wider_than_its_column(width: int) -> None:
    """Whatever the column."""
    series = Series(tuple(float(number) for number in range(240)), 239)
    cells = (Words("a long label"), Words("7", right=True), Gauge(3, 8, "busy"), Share(0.4), Spark(series, 0.0, "busy"))
    for cell in cells:
        assert len(drawn(cell, width)) <= max(width, 1), cell


def test_a_gauge_shows_how_full() -> None:
    """Nothing, a little (which is more than nothing), half, all, and more than all."""
    assert drawn(Gauge(0, 4, "idle", 3), 12) == "░░░░░░░░ 0/4"
    assert drawn(Gauge(2, 4, "busy", 3), 12) == "████░░░░ 2/4"
    assert drawn(Gauge(5, 4, "busy", 3), 12) == "████████ 5/4"
    assert drawn(Gauge(1, 1000, "busy", 6), 15).startswith("▏")
    assert drawn(Gauge(7, 0, "busy", 3), 12).endswith(" 7")


def test_a_spark_tells_nothing_seen_from_nothing_there() -> None:
    """A gap is blank, a zero the flattest bar, the smallest number higher than that."""
    series = Series((None, 0.0, 0.001, 8.0), 3)
    assert drawn(Spark(series, 8.0, "busy"), 4) == " ▁▂█"
