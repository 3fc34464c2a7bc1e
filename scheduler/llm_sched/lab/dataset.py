"""Prompts, out of a file or in place."""

# Law: reads, and names every broken row by its number, all of them together. Asks nobody.

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llm_sched.pipeline.problems import ManifestError, raise_if_any, suggestion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

MOST_PROBLEMS = 20
"""More broken rows than this say nothing new."""


@dataclass(frozen=True, slots=True)
class Row:
    """One prompt.

    Attributes:
        id: its name in the results.
        prompt: what is asked.
        fields: all its fields, for the judge's prompt.
    """

    id: str
    prompt: str
    fields: Mapping[str, Any]


def read_rows(path: Path, prompt_field: str, id_field: str) -> tuple[Row, ...]:
    """Read a data set.

    Args:
        path: `.jsonl` (a JSON object a line), or `.csv` with a header line.
        prompt_field: name of the field with the prompt.
        id_field: name of the field with the row's name; where it is missing, the row's number is its name.

    Raises:
        ManifestError: it cannot be read, or has broken rows; names each by its number.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path}: is no UTF-8 text (byte {error.start})") from None
    if path.suffix.lower() == ".csv":
        rows = _csv_rows(path, text, prompt_field)
    elif path.suffix.lower() in {".jsonl", ".ndjson"}:
        rows = _json_rows(text)
    else:
        raise ManifestError(f"{path}: a data set is a .jsonl or a .csv file")
    return checked_rows(rows, str(path), prompt_field, id_field)


def checked_rows(
    rows: Iterator[tuple[int, Mapping[str, Any] | str]], name: str, prompt_field: str, id_field: str
) -> tuple[Row, ...]:
    """Make rows of fields.

    Args:
        rows: number of the row, and its fields or what is wrong with it.
        name: how messages name the data set.
        prompt_field: name of the field with the prompt.
        id_field: name of the field with the row's name.

    Raises:
        ManifestError: there are broken rows, two of one name, or none at all.
    """
    good: dict[str, Row] = {}
    problems: list[str] = []
    for number, fields in rows:
        row = _row(number, fields, prompt_field, id_field)
        if isinstance(row, str):
            problems.append(f"{name}: row {number}: {row}")
        elif row.id in good:
            problems.append(f"{name}: row {number}: another row has the {id_field} {row.id!r} too")
        else:
            good[row.id] = row
    if len(problems) > MOST_PROBLEMS:
        problems[MOST_PROBLEMS:] = [f"{name}: and {len(problems) - MOST_PROBLEMS} more broken rows"]
    raise_if_any(problems, name)
    if not good:
        raise ManifestError(f"{name}: has no rows")
    return tuple(good.values())


def _row(number: int, fields: Mapping[str, Any] | str, prompt_field: str, id_field: str) -> Row | str:
    if isinstance(fields, str):
        return fields
    if prompt_field not in fields:
        return f"has no field {prompt_field!r}; {suggestion(prompt_field, map(str, fields))}"
    prompt, identity = fields[prompt_field], fields.get(id_field)
    if not isinstance(prompt, str) or not prompt.strip():
        return f"its {prompt_field!r} must be a text that is not empty"
    if identity is not None and (isinstance(identity, bool) or not isinstance(identity, (str, int))):
        return f"its {id_field!r} must be a text or a number"
    return Row(str(number if identity in {None, ""} else identity), prompt, dict(fields))


def _json_rows(text: str) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    # Not `splitlines`: JSON may hold U+2028 and its like, which end no line here.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            place = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
            yield number, f"is no valid JSON{place}"
            continue
        yield number, value if isinstance(value, dict) else "must be a JSON object"


def _csv_rows(path: Path, text: str, prompt_field: str) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    """Rows as people count them in a spreadsheet: the header is row 1."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: Sequence[str] = ()
    number = 0
    try:
        for cells in reader:
            number += 1
            if not any(cells):
                continue
            if not header:
                header = cells
                if prompt_field not in header:
                    hint = suggestion(prompt_field, header)
                    raise ManifestError(f"{path}: row {number}: the header has no column {prompt_field!r}; {hint}")
            elif len(cells) != len(header):
                yield number, f"has {len(cells)} cells, the header has {len(header)}"
            else:
                yield number, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        yield number + 1, f"is no valid CSV: {error}"
