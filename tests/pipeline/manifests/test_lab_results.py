"""The results' file: one line for each outcome, readable after any crash, and one writer."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from llm_sched import SchedulerError
from llm_sched.lab.messages import Outcome
from llm_sched.lab.results import Results, ResultsError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in a folder that is not there yet."""
    return tmp_path / "results" / "r.jsonl"


def outcome(row: str, error: str = "", digest: str = "d") -> Outcome:
    """An outcome."""
    return Outcome(("s", row, 1), digest, answer=f"answer {row}", error=error, waited_s=0.25)


def write(path: Path, *outcomes: Outcome) -> None:
    """Write outcomes in an execution of their own."""
    with Results(path) as results:
        for each in outcomes:
            results.add(each, f"prompt {each.key[1]}")


def rows(path: Path) -> list[str]:
    """The rows in the file, in order."""
    return [json.loads(line)["row"] for line in path.read_text().splitlines()]


def test_what_is_written_is_read_again(path: Path) -> None:
    """A second execution knows what the first one did, and adds to it."""
    write(path, outcome("a"))
    with Results(path) as results:
        assert list(results.lines) == [("s", "a", 1)]
        results.add(outcome("b"), "prompt b")
    first = json.loads(path.read_text().splitlines()[0])
    assert (first["prompt"], first["answer"], first["waited_s"]) == ("prompt a", "answer a", 0.25)
    assert "score" not in first
    assert rows(path) == ["a", "b"]


@pytest.mark.parametrize("cut", [1, 2, 20, 60])
def test_a_torn_last_line_is_cut_off(path: Path, cut: int) -> None:
    """A crash in the middle of a write costs that line and no other, also when it is written again."""
    write(path, outcome("a"), outcome("b"))
    path.write_bytes(path.read_bytes()[:-cut])
    write(path, outcome("b"), outcome("c"))
    assert rows(path) == ["a", "b", "c"]


def test_failures_are_not_done(path: Path) -> None:
    """A failure stands in the file until the next execution, which tries it again."""
    write(path, outcome("a"), outcome("b", error="no"), outcome("c"))
    assert rows(path) == ["a", "b", "c"]
    with Results(path) as results:
        assert [key[1] for key in results.lines] == ["a", "c"]
        assert rows(path) == ["a", "c"]


def test_a_result_that_stands_twice_stands_once_afterwards(path: Path) -> None:
    """Whatever a person has pasted into it."""
    write(path, outcome("a"))
    path.write_bytes(path.read_bytes() * 2)
    write(path)
    assert rows(path) == ["a"]


def test_another_version_is_refused(path: Path) -> None:
    """The task that changed is named, and what to do; tasks that are gone do not matter."""
    write(path, outcome("a"), outcome("gone"))
    with Results(path) as results:
        results.check({("s", "a", 1): "d"})
        with pytest.raises(ResultsError, match=r"scenario 's', row 'a', run 1.*--fresh"):
            results.check({("s", "a", 1): "other"})


def test_fresh_puts_the_old_file_aside(path: Path) -> None:
    """Nothing is lost."""
    write(path, outcome("a"))
    before = path.read_bytes()
    with Results(path, fresh=True) as results:
        assert results.lines == {}
    (old,) = path.parent.glob("r.jsonl.old-*")
    assert (old.read_bytes(), path.read_bytes()) == (before, b"")


def test_one_writer_at_a_time(path: Path) -> None:
    """The second is refused while the first is there, and welcome afterwards."""
    with Results(path), pytest.raises(ResultsError, match="another execution"), Results(path):
        pass
    write(path, outcome("a"))


@pytest.mark.parametrize("text", ["no json\n", "[1]\n", '{"scenario": "s"}\n', '{"scenario": "s", "row": "a", "run": "x"}\n'])
def test_a_file_of_somebody_else_is_left_alone(path: Path, text: str) -> None:
    """It is named with its line, and not changed; the lock is free again."""
    path.parent.mkdir()
    path.write_text(text)
    for _ in range(2):
        with pytest.raises(ResultsError, match="line 1 is no result of ours"), Results(path):
            pass
    assert path.read_text() == text


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder below a file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="cannot be used"), Results(tmp_path / "file" / "r.jsonl"):
        pass


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_a_disk_that_is_full(path: Path) -> None:
    """One clear error; what is in the file stays readable."""
    with Results(path) as results:
        results.add(outcome("a"), "p")
        with Path("/dev/full").open("ab", buffering=0) as full:
            own, results._file = results._file, full  # type: ignore[assignment] # noqa: SLF001 - a full disk
            with pytest.raises(ResultsError, match="cannot be written: No space left"):
                results.add(outcome("b"), "p")
            results._file = own  # noqa: SLF001 - as above
    assert rows(path) == ["a"]


def test_the_error_is_of_the_family_and_pickles() -> None:
    """Like all of ours."""
    error = pickle.loads(pickle.dumps(ResultsError("x", path="p")))  # noqa: S301 - our own bytes
    assert isinstance(error, SchedulerError)
    assert (str(error), error.path) == ("x", "p")
