"""Every key, as somebody presses it."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
from textual.widgets import Input
from tui_support import CONTENTION, FakeSource, app_of, bucket, holder, lacks, screen_text, shows, snapshot, until, waiters

from llm_sched_tui.screens.help import HelpScreen
from llm_sched_tui.themes import CYCLE, DARK, LIGHT, first_theme
from llm_sched_tui.view_model.values import Query
from llm_sched_tui.widgets.line_table import LineTable

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

    from llm_sched_tui.app import MonitorApp

pytestmark = pytest.mark.anyio
SIZE = (120, 36)


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio."""
    return "asyncio"


@pytest.fixture
def source() -> FakeSource:
    """Three buckets, one of them contended for."""
    return FakeSource(snapshot(*CONTENTION))


@pytest.fixture
def app(source: FakeSource, tmp_path: Path) -> MonitorApp:
    """The app on them."""
    return app_of(source, tmp_path)


def table(pilot: Pilot[Any], name: str = "buckets") -> LineTable:
    """A table on the screen."""
    return pilot.app.screen.query_one(f"#{name}", LineTable)


def under_cursor(pilot: Pilot[Any], name: str = "buckets") -> str:
    """The key of the thing under the cursor."""
    record = table(pilot, name).record
    return record.key if record else ""


async def test_numbers_lead_to_the_screens(app: MonitorApp) -> None:
    """1 overview, 2 bucket, 3 runs, 4 events."""
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "in flight", "openai/gpt-4o", "ollama/llama")
        await pilot.press("2")
        await shows(pilot, "holds 1", "limits", "grants a minute")
        await pilot.press("3")
        await shows(pilot, "run-ann.py", "grants, 5 min")
        await pilot.press("4")
        await shows(pilot, "nothing has happened")
        await pilot.press("1")
        await shows(pilot, "timeouts")


async def test_arrows_letters_pages_and_ends_move(app: MonitorApp) -> None:
    """Up and down, j and k, home and end, page up and down; never over the edge."""
    order = ["ollama/llama", "openai/embed", "openai/gpt-4o"]
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, *order)
        for key, wanted in (
            ("down", 1), ("j", 2), ("down", 2), ("k", 1), ("up", 0), ("up", 0),
            ("end", 2), ("home", 0), ("pagedown", 2), ("pageup", 0), ("G", 2), ("g", 0),
        ):  # fmt: skip
            await pilot.press(key)
            assert under_cursor(pilot) == order[wanted], key


async def test_enter_zooms_and_escape_goes_back_to_the_same_place(app: MonitorApp) -> None:
    """The place is kept."""
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "ollama/llama")
        await pilot.press("end", "enter")
        await shows(pilot, "holds 2", "waits 2", "openai/gpt-4o")
        await pilot.press("escape")
        await shows(pilot, "timeouts")
        assert under_cursor(pilot) == "openai/gpt-4o"


async def test_the_way_back_has_an_end(app: MonitorApp) -> None:
    """Back, back, and then nowhere else than the overview."""
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "ollama/llama")
        await pilot.press("3", "4", "escape")
        await shows(pilot, "grants, 5 min")
        await pilot.press("escape", "escape", "escape")
        await shows(pilot, "timeouts")


async def test_enter_on_a_run_leads_to_its_bucket(app: MonitorApp) -> None:
    """The one in which it waits."""
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("3")
        await shows(pilot, "run-cid.py")
        while "cid" not in under_cursor(pilot, "runs-table"):
            await pilot.press("down")
        await pilot.press("enter")
        await shows(pilot, "waits 2")


async def test_a_double_click_zooms_and_a_click_moves(app: MonitorApp) -> None:
    """With the mouse."""
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "ollama/llama")
        await pilot.click("#buckets", offset=(10, 2))
        assert under_cursor(pilot) == "openai/embed"
        await pilot.click("#buckets", offset=(10, 3), times=2)
        await shows(pilot, "holds 2", "waits 2")


async def test_the_tabs_and_the_keys_can_be_clicked(app: MonitorApp) -> None:
    """They are links."""
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "ollama/llama")
        await pilot.click("#tabs", offset=(screen_text(pilot).splitlines()[1].index("Runs"), 0))
        await shows(pilot, "grants, 5 min")
        await pilot.click("#keys", offset=(screen_text(pilot).splitlines()[-1].index("help"), 0))
        await until(pilot, lambda: isinstance(app.screen, HelpScreen), "help opens")


async def test_s_sorts_by_the_next_column_and_capital_s_turns(app: MonitorApp) -> None:
    """And a click on a title does both."""
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "bucket▴")
        await pilot.press("s")
        await shows(pilot, "in flight▾")
        await pilot.press("S")
        await shows(pilot, "in flight▴")
        await pilot.click("#buckets", offset=(screen_text(pilot).splitlines()[3].index("waiting") + 2, 0))
        await shows(pilot, "waiting▾")
        await pilot.click("#buckets", offset=(screen_text(pilot).splitlines()[3].index("waiting") + 2, 0))
        await shows(pilot, "waiting▴")


async def test_the_cursor_follows_the_thing(app: MonitorApp, source: FakeSource) -> None:
    """Not the line: sorted otherwise, or with new rows above it, it is on the same bucket."""
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "ollama/llama")
        await pilot.press("end")
        assert under_cursor(pilot) == "openai/gpt-4o"
        await pilot.press("S")
        await shows(pilot, "bucket▾")
        assert under_cursor(pilot) == "openai/gpt-4o"
        source.show(snapshot(bucket("zzz/new", holders=[holder()]), *CONTENTION, seq=2))
        await shows(pilot, "zzz/new")
        assert under_cursor(pilot) == "openai/gpt-4o"


async def test_a_thing_that_is_gone_leaves_the_cursor_in_its_place(app: MonitorApp, source: FakeSource) -> None:
    """And an empty table has no thing."""
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await shows(pilot, "ollama/llama")
        await pilot.press("down")
        source.show(snapshot(CONTENTION[0], CONTENTION[1], seq=2))
        await lacks(pilot, "openai/embed")
        assert under_cursor(pilot) == "openai/gpt-4o"
        source.show(snapshot(seq=3))
        await shows(pilot, "no bucket in use")
        assert under_cursor(pilot) == ""
        await pilot.press("enter", "down", "c")
        await shows(pilot, "There is no row to copy.")


async def test_slash_filters_while_typing_and_escape_forgets(app: MonitorApp) -> None:
    """Digits and letters go into the filter, not to the screens; Enter keeps it; it stands in the second line."""
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "ollama/llama")
        await pilot.press("slash", *"gpt-4")
        await lacks(pilot, "ollama/llama")
        await pilot.press("enter")
        await shows(pilot, "/ gpt-4", "openai/gpt-4o")
        assert not app.screen.query_one("#filter", Input).display
        await pilot.press("escape")
        await shows(pilot, "ollama/llama")
        await pilot.press("slash", *"!gpt")
        await lacks(pilot, "openai/gpt-4o")
        await pilot.press("escape")
        await shows(pilot, "openai/gpt-4o")


async def test_space_pauses_and_goes_on(app: MonitorApp, source: FakeSource) -> None:
    """The picture stands still; other screens show the same moment; then what has happened meanwhile appears."""
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "ollama/llama")
        await pilot.press("space")
        await shows(pilot, "paused")
        source.show(snapshot(bucket("p/later", holders=[holder(99, "zoe")]), seq=2))
        await pilot.press("3")
        await shows(pilot, "run-ann.py", "paused")
        await pilot.press("1")
        await shows(pilot, "ollama/llama", "paused")
        await pilot.press("space")
        await shows(pilot, "p/later")
        await lacks(pilot, "paused")


async def test_plus_and_minus_change_the_window(app: MonitorApp) -> None:
    """From one minute to one hour."""
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "last 5 min")
        for key, shown in (
            ("plus", "15"),
            ("equals_sign", "60"),
            ("plus", "60"),
            ("minus", "15"),
            ("minus", "5"),
            ("minus", "1"),
        ):
            await pilot.press(key)
            await shows(pilot, f"last {shown} min")


async def test_c_copies_the_row(app: MonitorApp) -> None:
    """To the terminal's clipboard, and says what."""
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await shows(pilot, "ollama/llama")
        await pilot.press("end", "c")
        await shows(pilot, "Copied")
        assert app.clipboard == "openai/gpt-4o saturated 2/2 in flight, 4 waiting"


async def test_e_exports_json_and_svg(app: MonitorApp, tmp_path: Path) -> None:
    """The snapshot as `status --json` has it, and a picture; a second export does not write over the first."""
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "ollama/llama")
        await pilot.press("e", "e")
        await until(pilot, lambda: len(written(tmp_path)) == 4, "four files")
    pictures, snapshots = (sorted(path for path in written(tmp_path) if path.suffix == kind) for kind in (".svg", ".json"))
    assert [path.stem for path in pictures] == [path.stem for path in snapshots]
    assert [json.loads(path.read_text()) for path in snapshots] == [json.loads(json.dumps(snapshot(*CONTENTION).to_dict()))] * 2
    assert all("openai" in path.read_text() for path in pictures)


def written(folder: Path) -> list[Path]:
    """The files in a folder."""
    return list(folder.iterdir())


async def test_an_export_that_cannot_be_written_is_one_line(source: FakeSource, tmp_path: Path) -> None:
    """The app goes on."""
    app = app_of(source, tmp_path / "nowhere")
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await shows(pilot, "ollama/llama")
        await pilot.press("e")
        await shows(pilot, "Not exported", "No such file")


async def test_t_goes_through_the_themes(app: MonitorApp) -> None:
    """And comes round; each can be drawn."""
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "ollama/llama")
        for name in (*CYCLE[1:], CYCLE[0]):
            await pilot.press("t")
            assert app.theme == name
            await shows(pilot, "ollama/llama")


def test_the_first_theme_follows_the_terminal() -> None:
    """The environment's choice, else light on a light background, else dark."""
    assert first_theme({}) == DARK.name
    assert first_theme({"COLORFGBG": "0;15"}) == LIGHT.name
    assert first_theme({"COLORFGBG": "15;default;0"}) == DARK.name
    assert first_theme({"TEXTUAL_THEME": "nord", "COLORFGBG": "0;15"}) == "nord"


async def test_an_unknown_theme_is_the_dark_one(source: FakeSource, tmp_path: Path) -> None:
    """A typo in `TEXTUAL_THEME` is no traceback."""
    from tui_support import model  # noqa: PLC0415

    from llm_sched_tui.app import MonitorApp  # noqa: PLC0415
    from llm_sched_tui.feed import Feed  # noqa: PLC0415

    app = MonitorApp(Feed(source, model(), 0.01), Query(), theme="no such", folder=tmp_path)
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "ollama/llama")
        assert app.theme == DARK.name


async def test_question_mark_tells_every_key_and_closes(app: MonitorApp) -> None:
    """Every key that does something is in it."""
    async with app.run_test(size=(120, 50)) as pilot:
        await shows(pilot, "ollama/llama")
        await pilot.press("question_mark")
        await shows(pilot, "command palette", "starving", "~/ledger.json", "next theme", "zoom into", "pause", "quit")
        await pilot.press("escape")
        await shows(pilot, "timeouts")


async def test_the_command_palette_knows_the_keys(app: MonitorApp) -> None:
    """Found by name, and done."""
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "ollama/llama")
        await pilot.press("ctrl+p", *"events")
        await shows(pilot, "Events")
        await pilot.pause()
        await pilot.press("enter", "enter")
        await shows(pilot, "nothing has happened")


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("ctrl+c", 130), ("ctrl+q", 0)])
async def test_quitting(app: MonitorApp, key: str, code: int) -> None:
    """Ctrl-C is told by the exit code."""
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "ollama/llama")
        await pilot.press(key)
    assert (app.return_code or 0) == code


async def test_ctrl_c_quits_also_while_typing(app: MonitorApp) -> None:
    """An input field would copy."""
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "ollama/llama")
        await pilot.press("slash", "x", "ctrl+c")
    assert app.return_code == 130


async def test_tab_goes_to_the_other_table(app: MonitorApp) -> None:
    """On the bucket screen: holders, waiters; each keeps its own cursor and order."""
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await shows(pilot, "ollama/llama")
        await pilot.press("end", "enter")
        await shows(pilot, "waits 2")
        await pilot.press("tab", "down", "c")
        await shows(pilot, "Copied")
        assert app.clipboard.startswith("13 cid run-cid.py waits")
        await pilot.press("s")
        await shows(pilot, "pid▴")


async def test_a_long_table_scrolls_with_the_cursor(tmp_path: Path) -> None:
    """Five hundred waiters, the last of them in sight; the titles stay."""
    crowd = [waiters(pid, f"user-{pid}", 1, position=pid) for pid in range(1, 501)]
    app = app_of(FakeSource(snapshot(bucket("p/m", waiters=crowd))), tmp_path, Query(screen="bucket", bucket="p/m"))
    async with app.run_test(size=(120, 30)) as pilot:
        await shows(pilot, "waits 500", "user-1 ")
        await pilot.press("tab", "end")
        await shows(pilot, "user-500")
        await pilot.press("pageup")
        assert int(under_cursor(pilot, "waiters").split()[0]) < 500
        await pilot.press("home")
        await shows(pilot, "user-1 ")


async def test_the_log_follows_its_end_until_one_moves_up(tmp_path: Path) -> None:
    """As `tail -f` does."""
    source = FakeSource(snapshot())
    app = app_of(source, tmp_path, Query(screen="events"))
    async with app.run_test(size=(100, 20)) as pilot:
        await shows(pilot, "nothing has happened")
        for number in range(1, 31):
            source.show(snapshot(bucket(f"p/{number}", holders=[holder(number)]), seq=number + 1))
            await shows(pilot, f"p/{number}")
        last = under_cursor(pilot, "events-table")
        await pilot.press("up", "up")
        stays = under_cursor(pilot, "events-table")
        assert stays < last
        source.show(snapshot(bucket("p/99", holders=[holder(99)]), seq=99))
        await until(pilot, lambda: len(table(pilot, "events-table").table.records) > int(last), "a new event")  # type: ignore[union-attr]
        assert under_cursor(pilot, "events-table") == stays


async def test_a_bucket_asked_for_is_shown_first(source: FakeSource, tmp_path: Path) -> None:
    """Also one that is not there yet."""
    app = app_of(source, tmp_path, Query(screen="bucket", bucket="p/soon"))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "No bucket p/soon")
        source.show(snapshot(bucket("p/soon", holders=[holder(5, "eve")]), seq=2))
        await shows(pilot, "holds 1", "eve")


async def test_one_user(source: FakeSource, tmp_path: Path) -> None:
    """What is not theirs is not shown, and that is said."""
    app = app_of(source, tmp_path, dataclasses.replace(Query(), user="ann"))
    async with app.run_test(size=SIZE) as pilot:
        await shows(pilot, "user ann", "openai/gpt-4o")
        await lacks(pilot, "ollama/llama")
