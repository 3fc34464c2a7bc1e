"""Data sets: what is read, and what a broken row gets: its number and its reason."""

from __future__ import annotations

import pytest
from manifest_support import Folder

from llm_sched.lab.dataset import MOST_PROBLEMS, Row, read_rows
from llm_sched.pipeline.problems import ManifestError


def read(folder: Folder, name: str, text: str | bytes, prompt: str = "prompt") -> tuple[Row, ...]:
    """Write a data set and read it."""
    path = folder.path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_rows(path, prompt, "id")


def test_json_lines(folder: Folder) -> None:
    """An object a line; empty lines are none, but count; without an id the line's number is the name."""
    rows = read(
        folder, "d.jsonl", '{"id": "a", "prompt": "A?", "expected": 1}\n\n{"prompt": "B\u2028?"}\n{"id": 7, "prompt": "C?"}'
    )
    assert [(row.id, row.prompt) for row in rows] == [("a", "A?"), ("3", "B\u2028?"), ("7", "C?")]
    assert rows[0].fields["expected"] == 1


def test_csv(folder: Folder) -> None:
    """A header, quotes, line breaks in cells; the rows are numbered as a spreadsheet shows them."""
    rows = read(folder, "d.csv", '\ufeffid,prompt,expected\r\na,"One, or\ntwo?",1\r\n\r\n,Three?,\r\n')
    assert [(row.id, row.prompt, row.fields["expected"]) for row in rows] == [("a", "One, or\ntwo?", "1"), ("4", "Three?", "")]


def test_the_prompt_may_have_another_name(folder: Folder) -> None:
    """`prompt_field` says which."""
    assert read(folder, "d.csv", "question\nA?\n", "question")[0].prompt == "A?"


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("d.jsonl", '{"prompt": "A?"}\n{"prompt": \n', "row 2: is no valid JSON at column"),
        ("d.jsonl", "[1]", "row 1: must be a JSON object"),
        ("d.jsonl", '{"promt": "A?"}', "row 1: has no field 'prompt'; did you mean 'promt'?"),
        ("d.jsonl", '{"prompt": 5}', "row 1: its 'prompt' must be a text that is not empty"),
        ("d.jsonl", '{"prompt": "  "}', "row 1: its 'prompt' must be a text that is not empty"),
        ("d.jsonl", '{"prompt": "A?", "id": [1]}', "row 1: its 'id' must be a text or a number"),
        ("d.jsonl", '{"prompt": "A?", "id": "x"}\n{"prompt": "B?", "id": "x"}', "row 2: another row has the id 'x' too"),
        ("d.jsonl", "[" * 100_000, "row 1: is no valid JSON"),
        ("d.jsonl", "\n \n", "has no rows"),
        ("d.csv", "prompt\n", "has no rows"),
        ("d.csv", "a,b\n1,2\n", "row 1: the header has no column 'prompt'; known are a, b"),
        ("d.csv", "id,prompt\na,A?\nb,B?,more\n", "row 3: has 3 cells, the header has 2"),
        ("d.csv", 'prompt\nA?\n"B', "row 3: is no valid CSV"),
        ("d.csv", "prompt,id\n ,a\n", "row 2: its 'prompt' must be a text"),
        ("d.txt", "A?", "a data set is a .jsonl or a .csv file"),
        ("d.csv", b"prompt\n\xff", "is no UTF-8 text (byte 7)"),
    ],
)
def test_broken_rows(folder: Folder, name: str, text: str | bytes, reason: str) -> None:
    """The file, the row's number, and what is wrong with it."""
    with pytest.raises(ManifestError) as caught:
        read(folder, name, text)
    assert str(caught.value).startswith(str(folder.path / name))
    assert reason in str(caught.value)


def test_all_broken_rows_at_once_but_not_thousands(folder: Folder) -> None:
    """Every broken row is told, up to a number that can be read."""
    with pytest.raises(ManifestError) as caught:
        read(folder, "d.jsonl", "1\n2\n" + '{"prompt": "A?"}\n' + "3\n" * 1000)
    assert len(caught.value.problems) == MOST_PROBLEMS + 1
    assert "row 1: " in caught.value.problems[0]
    assert "row 4: " in caught.value.problems[2]
    assert caught.value.problems[-1].endswith(f"and {1002 - MOST_PROBLEMS} more broken rows")


def test_a_missing_file(folder: Folder) -> None:
    """The system's reason."""
    with pytest.raises(ManifestError, match="cannot be read: No such file"):
        read_rows(folder.path / "gone.csv", "prompt", "id")
