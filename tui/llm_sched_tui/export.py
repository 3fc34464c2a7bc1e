"""Exports: the snapshot as `llm-sched status --json` tells it, and a picture of the screen."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from llm_sched_tui.view_model.values import View


def export(folder: Path, view: View | None, picture: str) -> list[str]:
    """Write `llm-sched-<time>.svg`, and `.json` where there is a snapshot, into a folder; return their names.

    Raises:
        OSError: a file cannot be written.
    """
    stem = f"llm-sched-{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%S}"
    number, name = 1, stem
    while (folder / f"{name}.svg").exists() or (folder / f"{name}.json").exists():
        number += 1
        name = f"{stem}-{number}"
    names: list[str] = []
    if view is not None and view.snapshot is not None:
        with (folder / f"{name}.json").open("x", encoding="utf-8") as file:
            json.dump(view.snapshot.to_dict(), file, indent=2)
        names.append(f"{name}.json")
    with (folder / f"{name}.svg").open("x", encoding="utf-8") as file:
        file.write(picture)
    return [*names, f"{name}.svg"]
