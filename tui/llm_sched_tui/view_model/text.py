"""How numbers look: short, aligned, without false precision."""

from __future__ import annotations

import datetime as dt

NONE = "–"
"""What stands where there is nothing to tell."""

_MINUTE, _HOUR = 60.0, 3600.0
_EXACT_S = 10.0


def seconds(value: float | None) -> str:
    """A duration given in seconds: `0.4 s`, `12 s`, `3m05`, `2h07`; a dash for None."""
    if value is None:
        return NONE
    value = max(0.0, value)
    if value < _EXACT_S - 0.05:
        return f"{value:.1f} s"
    if value < _MINUTE * 1.5 - 0.5:
        return f"{value:.0f} s"
    if value < _HOUR - 0.5:
        minutes, rest = divmod(round(value), 60)
        return f"{minutes}m{rest:02d}"
    hours, rest = divmod(round(value / _MINUTE), 60)
    return f"{hours}h{rest:02d}"


def short(value: float | None) -> str:
    """A wait in seconds as a bare number, with two digits below a second: `0.04`, `3.1`, `12`; a dash for None."""
    if value is None:
        return NONE
    if value < 1:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < _EXACT_S else f"{value:.0f}"


def count(value: float) -> str:
    """A count that may be large: `987`, `12.3k`, `4.5M`."""
    for size, unit in ((1e6, "M"), (1e4, "k")):
        if value >= size:
            scaled = value / (1e6 if unit == "M" else 1e3)
            return f"{scaled:.1f}{unit}"
    return f"{value:.0f}"


def plural(number: int, one: str, many: str = "") -> str:
    """A count with its noun: `1 run`, `3 runs`."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def window(length_s: float) -> str:
    """A window's name: `5 min`."""
    return f"{length_s / _MINUTE:.0f} min"


def clock(wall: float, zone: dt.tzinfo | None) -> str:
    """Time of day of a moment in seconds since the epoch; `zone` None = the machine's."""
    return dt.datetime.fromtimestamp(wall, dt.UTC).astimezone(zone).strftime("%H:%M:%S")


def elided(text: str, width: int) -> str:
    """At most `width` characters, the end cut."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"[:width]


def tail(text: str, width: int) -> str:
    """At most `width` characters, the beginning cut: for paths, whose end tells more."""
    return text if len(text) <= width else "…"[:width] + text[len(text) - max(0, width - 1) :] if width > 1 else "…"[:width]


def home_short(path: str, home: str) -> str:
    """A path with the user's home folder as `~`."""
    return "~" + path[len(home) :] if home not in {"", "/"} and (path + "/").startswith(home.rstrip("/") + "/") else path


def printable(text: str) -> str:
    """A label from the ledger without characters that would steer a terminal."""
    return text if text.isprintable() else "".join(each if each.isprintable() else "·" for each in text)
