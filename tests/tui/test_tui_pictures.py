"""Pictures: a recorded real contention at several sizes, in two themes, as SVG and as text that a person can compare.

After a change that is meant: `pytest tests/tui/test_tui_pictures.py --snapshot-update`, and look at what changed.
"""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from tui_support import screen_text, shows, until

from llm_sched_tui.app import MonitorApp
from llm_sched_tui.feed import Feed
from llm_sched_tui.recording import ReplaySource
from llm_sched_tui.themes import DARK, LIGHT
from llm_sched_tui.view_model.model import Model
from llm_sched_tui.view_model.values import Query

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from llm_sched_tui.view_model.values import ScreenName

pytestmark = pytest.mark.anyio
REAL = Path(__file__).with_name("contention.rec.gz")
MOMENT_S = 62.0
"""All runs are there, also the one whose policy is stricter than the others'."""


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio."""
    return "asyncio"


class Pictures(SingleFileSnapshotExtension):
    """One SVG a test."""

    _write_mode = WriteMode.TEXT
    file_extension = "svg"


class Texts(Pictures):
    """One text a test."""

    file_extension = "txt"


def app_at(moment_s: float, query: Query, theme: str, tmp_path: Path) -> MonitorApp:
    """The monitor as it looked at a moment of the recording, which stands still there."""
    at = [0.0]
    feed = Feed(ReplaySource(REAL, 1.0, lambda: at[0]), Model(dt.UTC), 0.01)
    while at[0] < moment_s:
        feed.look()
        at[0] += 0.25
    for _ in range(2):  # what is due by now, and that nothing has changed since
        feed.look()
    feed.query = query
    return MonitorApp(feed, query, theme=theme, folder=tmp_path)


def stable(svg: str) -> str:
    """Without the number that Textual draws anew for each picture."""
    return re.sub(r"terminal-\d+", "terminal", svg)


@pytest.mark.parametrize(
    ("screen", "size", "theme"),
    [
        ("overview", (160, 48), DARK.name),
        ("overview", (80, 24), LIGHT.name),
        ("overview", (50, 20), DARK.name),
        ("overview", (240, 60), LIGHT.name),
        ("bucket", (160, 48), LIGHT.name),
        ("bucket", (80, 24), DARK.name),
        ("bucket", (50, 20), LIGHT.name),
        ("runs", (120, 30), DARK.name),
        ("events", (120, 30), LIGHT.name),
    ],
    ids=lambda value: "x".join(map(str, value)) if isinstance(value, tuple) else value.removeprefix("llm-sched-"),
)
async def test_pictures(
    snapshot: SnapshotAssertion, tmp_path: Path, screen: ScreenName, size: tuple[int, int], theme: str
) -> None:
    """Nine of them."""
    query = Query(screen=screen, bucket="openai/gpt-4o", window_s=60.0)
    await compare(app_at(MOMENT_S, query, theme, tmp_path), size, snapshot)


async def test_a_picture_without_colour(snapshot: SnapshotAssertion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tenth."""
    monkeypatch.setenv("NO_COLOR", "1")
    await compare(app_at(MOMENT_S, Query(window_s=60.0), DARK.name, tmp_path), (100, 30), snapshot)


async def compare(app: MonitorApp, size: tuple[int, int], snapshot: SnapshotAssertion) -> None:
    """Compare what is on the screen when it has come to rest."""
    async with app.run_test(size=size) as pilot:
        await shows(pilot, "live")
        await until(pilot, lambda: app.screen.focused is not None, "the cursor is there")
        before, svg = "", stable(app.export_screenshot())
        while svg != before:  # widgets that appear are laid out in several steps
            await pilot.pause(0.3)
            before, svg = svg, stable(app.export_screenshot())
        now = screen_text(pilot)
    assert now == snapshot(extension_class=Texts)
    assert svg == snapshot(extension_class=Pictures)
