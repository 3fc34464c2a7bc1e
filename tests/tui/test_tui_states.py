"""What is shown when there is nothing to show, and at any size."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tui_support import CONTENTION, FakeSource, app_of, bucket, lacks, missing, screen_text, shows, snapshot, until

from llm_sched_tui.view_model.values import Query

if TYPE_CHECKING:
    from pathlib import Path

    from llm_sched_tui.view_model.values import ScreenName

pytestmark = pytest.mark.anyio
SIZES = [(20, 5), (50, 20), (80, 24), (160, 48), (300, 80)]


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio."""
    return "asyncio"


@pytest.mark.parametrize(
    ("state", "word", "advice"),
    [
        ("absent", "no file yet", "nobody has asked for a slot"),
        ("corrupt", "unreadable", "damaged"),
        ("newer", "newer schema", "Upgrade"),
        ("foreign", "foreign file", "no ledger of llm-sched"),
    ],
)
async def test_each_state_is_named_and_left_when_it_ends(tmp_path: Path, state: str, word: str, advice: str) -> None:
    """With what to do; then the rows appear by themselves, and the keys work on them."""
    source = FakeSource(missing(state))
    app = app_of(source, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, word, advice)
        await pilot.press("down", "enter", "s", "e")
        source.show(snapshot(*CONTENTION))
        await shows(pilot, "live", "openai/gpt-4o")
        await pilot.press("end", "enter")
        await shows(pilot, "holds 2")


async def test_a_ledger_that_is_removed_and_comes_back(tmp_path: Path) -> None:
    """It is called removed, not missing; the log tells both."""
    source = FakeSource(snapshot(*CONTENTION))
    app = app_of(source, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "openai/gpt-4o")
        source.show(missing())
        await shows(pilot, "removed", "was removed")
        await lacks(pilot, "openai/gpt-4o")
        await pilot.press("4")
        await shows(pilot, "the file is gone")
        source.show(snapshot(*CONTENTION, seq=9))
        await shows(pilot, "readable")


async def test_a_ledger_that_may_not_be_read(tmp_path: Path) -> None:
    """The error's own advice is on the screen, however narrow."""
    source = FakeSource(missing())
    app = app_of(source, tmp_path)
    async with app.run_test(size=(60, 20)) as pilot:
        await shows(pilot, "no file yet")
        source.show(
            missing(), refused="cannot use the ledger /x: no permission: set MAS_LLM_SCHEDULER_STATE to a file of your own"
        )
        await shows(pilot, "unreadable", "no permission", "MAS_LLM_SCHEDULER_STATE")


async def test_stale_and_quiet(tmp_path: Path) -> None:
    """Nobody writes although slots are held; nobody writes because nobody calls."""
    source = FakeSource(snapshot(*CONTENTION))
    app = app_of(source, tmp_path)
    async with app.run_test(size=(100, 24)) as pilot:
        await shows(pilot, "● live")
        source.at += 45.0
        await shows(pilot, "◌ stale 45 s")
        source.show(snapshot(bucket(policies=[]), seq=2, age_s=0.0))
        await shows(pilot, "○ quiet")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("screen", ["overview", "bucket", "runs", "events"])
async def test_every_screen_can_be_drawn_at_every_size(tmp_path: Path, size: tuple[int, int], screen: ScreenName) -> None:
    """No line is wider than the terminal, none breaks, and the state is always there."""
    source = FakeSource(snapshot(*CONTENTION))
    app = app_of(source, tmp_path, Query(screen=screen, bucket="openai/gpt-4o"))
    async with app.run_test(size=size) as pilot:
        await shows(pilot, "live")
        source.show(snapshot(*CONTENTION, bucket("new/one"), seq=2))
        await pilot.pause()
        lines = screen_text(pilot).splitlines()
        assert len(lines) <= size[1]
        assert max(len(line) for line in lines) <= size[0]
        if size[0] >= 50:
            wanted = {"overview": "openai/gpt-4o", "bucket": "holds 2", "runs": "ann", "events": "event"}[screen]
            await shows(pilot, wanted)


async def test_a_terminal_that_grows_and_shrinks(tmp_path: Path) -> None:
    """Nothing of the old size is left, and what was left out comes back."""
    app = app_of(FakeSource(snapshot(*CONTENTION)), tmp_path)
    async with app.run_test(size=(50, 20)) as pilot:
        await shows(pilot, "openai/gpt-4o")
        assert "timeouts" not in screen_text(pilot)
        await pilot.resize_terminal(160, 48)
        await shows(pilot, "timeouts", "reclaimed", "in flight, 5 min", "in flight  1")
        await pilot.resize_terminal(50, 20)
        await lacks(pilot, "timeouts")
        await shows(pilot, "openai/gpt-4o")


async def test_without_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR: signs and words say it all, on every screen."""
    monkeypatch.setenv("NO_COLOR", "1")
    app = app_of(FakeSource(snapshot(*CONTENTION)), tmp_path)
    async with app.run_test(size=(120, 36)) as pilot:
        await shows(pilot, "▲ openai/gpt-4o", "● ollama/llama", "○ openai/embed")
        assert app.no_color
        for key, wanted in (("2", "holds"), ("3", "run-ann.py"), ("4", "nothing has"), ("question_mark", "saturated")):
            await pilot.press(key)
            await shows(pilot, wanted)


async def test_a_banner_and_the_end_of_the_lifeline(tmp_path: Path) -> None:
    """Whoever opened the monitor tells it what to say, and ends it by letting go."""
    reader, writer = os.pipe()
    app = app_of(FakeSource(snapshot(*CONTENTION)), tmp_path, lifeline=reader)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "openai/gpt-4o")
        os.write(writer, b"a demo is on\n")
        await shows(pilot, "a demo is on")
        await pilot.press("3")
        await shows(pilot, "a demo is on", "run-ann.py")
        os.close(writer)
        await until(pilot, lambda: app._exit, "it ends")  # noqa: SLF001 - Textual has no public word for it
    os.close(reader)
    assert (app.return_code or 0) == 0
