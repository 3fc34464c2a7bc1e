"""The README's picture: a recorded real contention, replayed to one moment. `python -m tests.monitor.picture [FILE]`.

The recording is `tests/tui/contention.rec.gz`, made by `python -m tests.monitor.contention --record`.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import sys
from pathlib import Path

from llm_sched_tui.app import MonitorApp
from llm_sched_tui.feed import Feed
from llm_sched_tui.recording import ReplaySource
from llm_sched_tui.themes import DARK
from llm_sched_tui.view_model.model import Model
from llm_sched_tui.view_model.values import Query

_ROOT = Path(__file__).parents[2]
_RECORDING = _ROOT / "tests" / "tui" / "contention.rec.gz"
_PICTURE = _ROOT / "pictures" / "monitor.svg"
_MOMENT_S = 66.0
_LOOK_S = 0.25
_SIZE = (132, 34)


async def picture() -> str:
    """The overview at the moment, as SVG."""
    at = [0.0]
    feed = Feed(ReplaySource(_RECORDING, 1.0, lambda: at[0]), Model(dt.UTC), _LOOK_S)
    while at[0] < _MOMENT_S:
        feed.look()
        at[0] += _LOOK_S
    query = Query(bucket="openai/gpt-4o", window_s=60.0)
    app = MonitorApp(feed, query, theme=DARK.name, folder=_ROOT)
    async with app.run_test(size=_SIZE) as pilot:
        while app.view is None:
            await pilot.pause(_LOOK_S)
        await pilot.press("down")
        await pilot.pause(1.0)
        return portable(app.export_screenshot(title="llm-sched-tui"))


def portable(svg: str) -> str:
    """Without a font from the network, and with spaces that every viewer keeps; the same for the same screen."""
    svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    svg = svg.replace("font-family: Fira Code, monospace", "font-family: ui-monospace, Menlo, Consolas, monospace")
    svg = svg.replace("<text ", '<text xml:space="preserve" ')
    return re.sub(r"terminal-\d+", "terminal", svg)


def main() -> None:
    """Write the picture."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else _PICTURE
    svg = asyncio.run(picture())
    target.parent.mkdir(exist_ok=True)
    target.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
