"""The lines above and below every screen, for any width: what matters least is left out first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_sched_tui.view_model import text
from llm_sched_tui.view_model.cells import Chunk, Line, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_sched_tui.view_model.status import Status
    from llm_sched_tui.view_model.values import Query, View

_GAP = 3
_SHORTEST_PATH = 12

KEYS = (
    ("/", "filter", "app.filter", 3),
    ("s", "sort", "app.sort", 4),
    ("space", "pause", "app.pause", 5),
    ("enter", "zoom in", "app.zoom", 6),
    ("esc", "back", "app.back", 8),
    ("- +", "window", "app.window(1)", 9),
    ("c", "copy", "app.copy", 11),
    ("e", "export", "app.export", 10),
    ("t", "theme", "app.next_theme", 12),
    ("?", "help", "app.help", 1),
    ("q", "quit", "app.quit", 2),
)
"""What the last line tells: key, what it does, the action, the rank."""

TABS = (("1", "Overview", "overview"), ("2", "Bucket", "bucket"), ("3", "Runs", "runs"), ("4", "Events", "events"))


def head(view: View, width: int) -> Line:
    """First line: which ledger, how old, how much goes on."""
    status = view.status
    left = [
        Chunk((("llm-sched", "title"),), 6),
        Chunk(((status.facts.path, "dim"),), 9),
        Chunk(_state(status, paused=view.query.paused)),
        Chunk(((text.plural(status.runs, "run"), "plain"),), 5),
        Chunk(((f"{text.count(status.in_flight)} in flight", "plain"),), 3),
        Chunk(((f"{text.count(status.waiting)} waiting", "plain" if status.waiting else "dim"),), 2),
    ]
    right = [Chunk(((status.facts.progress, "accent"),), 4)] if status.facts.progress else []
    right.append(Chunk(((status.facts.clock, "dim"),), 8))
    if status.advice:
        del left[3:]
    spare = width - _needed(left, right, _GAP) + len(status.facts.path)
    if len(status.facts.path) > spare >= _SHORTEST_PATH:
        left[1] = Chunk(((text.tail(status.facts.path, spare), "dim"),), 9)
    return spread(left, right, width)


def _state(status: Status, *, paused: bool) -> tuple[Span, ...]:
    age = f" {status.age}" if status.age else ""
    shown: tuple[Span, ...] = ((f"{status.sign} {status.word}", status.role), (age, "dim"))
    return (("‖ paused  ", "accent"), *shown) if paused else shown


def tabs(query: Query, width: int) -> Line:
    """Second line: the screens, and how what is shown was chosen."""
    left = [
        Chunk(((f"{key} ", "accent"), (title, "chosen" if name == query.screen else "plain")), action=f"app.screen('{name}')")
        for key, title, name in TABS
    ]
    right = [Chunk(((f"last {text.window(query.window_s)}", "dim"),), 3)]
    if query.user:
        right.insert(0, Chunk(((f"user {query.user}", "accent"),), 2))
    if query.filter:
        right.insert(0, Chunk(((f"/ {query.filter}", "accent"),), 1, "app.filter"))
    return spread(left, right, width, gap=2)


def keys(width: int) -> Line:
    """Last line: the keys that matter most."""
    chunks = [Chunk(((f"{key} ", "accent"), (does, "dim")), rank, action) for key, does, action, rank in KEYS]
    return spread(chunks, (), width, gap=2)


def spread(left: Sequence[Chunk], right: Sequence[Chunk], width: int, gap: int = _GAP) -> Line:
    """Chunks from the left and from the right edge, those of the highest rank left out until the rest fits."""
    left, right = list(left), list(right)
    while (left or right) and _needed(left, right, gap) > width:
        worst = max([*left, *right], key=lambda chunk: chunk.rank)
        if not worst.rank:
            break
        (left if any(chunk is worst for chunk in left) else right).remove(worst)
    space = Chunk((((" " * max(0, width - _needed(left, right, gap))), "plain"),))
    return (_EDGE, *_joined(left, gap), Chunk(((" " * gap, "plain"),)), space, *_joined(right, _GAP), _EDGE)


_EDGE = Chunk(((" ", "plain"),))


def _joined(chunks: Sequence[Chunk], gap: int) -> list[Chunk]:
    space = Chunk(((" " * gap, "plain"),))
    return [part for chunk in chunks for part in (space, chunk)][1:]


def _needed(left: Sequence[Chunk], right: Sequence[Chunk], gap: int) -> int:
    """Columns for both sides, the gap between them and the edges."""
    return sum(chunk.width for chunk in (*_joined(left, gap), *_joined(right, _GAP))) + gap + 2


def flow(chunks: Sequence[Chunk], width: int, gap: int = _GAP) -> tuple[Line, ...]:
    """Chunks one after the other, in as many lines as they need."""
    lines: list[list[Chunk]] = []
    room = -1
    for chunk in chunks:
        if not lines or room < chunk.width + gap:
            lines.append([_EDGE, chunk])
            room = width - chunk.width - 2
        else:
            lines[-1] += [Chunk(((" " * gap, "plain"),)), chunk]
            room -= chunk.width + gap
    return tuple(tuple(line) for line in lines)
