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
        Chunk(((" llm-sched", "title"),), 9),
        Chunk(((status.facts.path, "dim"),), 6),
        Chunk(_state(status, paused=view.query.paused)),
        Chunk(((text.plural(status.runs, "run"), "plain"),), 5),
        Chunk(((f"{text.count(status.in_flight)} in flight", "plain"),), 3),
        Chunk(((f"{text.count(status.waiting)} waiting", "plain" if status.waiting else "dim"),), 2),
    ]
    right = [Chunk(((status.facts.progress, "accent"),), 4)] if status.facts.progress else []
    right.append(Chunk(((status.facts.clock + " ", "dim"),), 7))
    if status.advice:
        del left[3:]
    spare = width - _needed([*left, *right]) + len(status.facts.path)
    if len(status.facts.path) > spare >= _SHORTEST_PATH:
        left[1] = Chunk(((text.tail(status.facts.path, spare), "dim"),), 6)
    return spread(left, right, width)


def _state(status: Status, *, paused: bool) -> tuple[Span, ...]:
    age = f" {status.age}" if status.age else ""
    shown: tuple[Span, ...] = ((f"{status.sign} {status.word}", status.role), (age, "dim"))
    return (("‖ paused  ", "accent"), *shown) if paused else shown


def tabs(query: Query, width: int) -> Line:
    """Second line: the screens, and how what is shown was chosen."""
    left = [
        Chunk(((f" {key} ", "accent"), (f"{title} ", "chosen" if name == query.screen else "plain")), action=f"app.screen('{name}')")
        for key, title, name in TABS
    ]
    right = [Chunk(((f"last {text.window(query.window_s)} ", "dim"),), 3)]
    if query.user:
        right.insert(0, Chunk(((f"user {query.user}", "accent"),), 2))
    if query.filter:
        right.insert(0, Chunk(((f"/ {query.filter}", "accent"),), 1, "app.filter"))
    return spread(left, right, width, gap=0)


def keys(width: int) -> Line:
    """Last line: the keys that matter most."""
    chunks = [
        Chunk(((f" {key} ", "accent"), (f"{does}", "dim")), rank, action) for key, does, action, rank in KEYS
    ]
    return spread(chunks, (), width, gap=1)


def spread(left: Sequence[Chunk], right: Sequence[Chunk], width: int, gap: int = _GAP) -> Line:
    """Chunks from the left and from the right edge, those of the highest rank left out until the rest fits."""
    left, right = list(left), list(right)
    while _needed([*left, *right], gap) > width:
        worst = max([*left, *right], key=lambda chunk: chunk.rank)
        if not worst.rank:
            break
        (left if any(chunk is worst for chunk in left) else right).remove(worst)
    space = Chunk(((" " * max(1, gap), "plain"),))
    line: list[Chunk] = []
    for chunk in left:
        line += [chunk] if not line or not gap else [space, chunk]
    used = sum(chunk.width for chunk in line)
    tail_width = _needed(right)
    line.append(Chunk(((" " * max(1, width - used - tail_width), "plain"),)))
    for number, chunk in enumerate(right):
        line += [Chunk(((" " * _GAP, "plain"),)), chunk] if number else [chunk]
    return tuple(line)


def _needed(chunks: Sequence[Chunk], gap: int = _GAP) -> int:
    return sum(chunk.width for chunk in chunks) + gap * max(0, len(chunks) - 1)


def flow(chunks: Sequence[Chunk], width: int, gap: int = _GAP) -> tuple[Line, ...]:
    """Chunks one after the other, in as many lines as they need."""
    lines: list[list[Chunk]] = []
    room = -1
    for chunk in chunks:
        if not lines or room < chunk.width + gap:
            lines.append([chunk])
            room = width - chunk.width
        else:
            lines[-1] += [Chunk(((" " * gap, "plain"),)), chunk]
            room -= chunk.width + gap
    return tuple(tuple(line) for line in lines)
