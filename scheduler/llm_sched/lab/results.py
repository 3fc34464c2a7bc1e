"""The results on disk: JSON lines, each outcome once, whatever ends the process that writes them."""

# Law: one writer at a time (a kernel lock, which a killed process cannot keep), one line a write, synced before anybody is
# told. A line that was torn by a crash is cut off when the file is opened again, and so are failures, which are tried anew.

from __future__ import annotations

import datetime as dt
import json
import os
from typing import TYPE_CHECKING, Any, Self

import filelock

from llm_sched.errors import SchedulerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

    from llm_sched.lab.messages import Key, Outcome


class ResultsError(SchedulerError):
    """The results' file cannot be used.

    Attributes:
        path: the file.
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class Results:
    """The results' file, as a context manager.

    Args:
        path: the file; made with its folder when it is not there.
        fresh: put what is there aside, as `<name>.old-<time>`, and begin anew.

    Attributes:
        path: the file.
        lines: every good outcome in it, by key.
    """

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        self.path = path
        self.lines: dict[Key, dict[str, Any]] = {}
        self._fresh = fresh
        self._lock = filelock.FileLock(path.with_name(f".{path.name}.lock"), blocking=False)
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        """Open the file and read what is done.

        Raises:
            ResultsError: another process writes it, or it cannot be read or written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            self._open()
        except filelock.Timeout:
            raise self._error("is being written by another execution; wait for it, or pass another --results") from None
        except OSError as error:
            self._lock.release()
            raise self._error(f"cannot be used: {error.strerror}") from None
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        if self._file:
            self._file.close()
        self._lock.release()

    def check(self, digests: Mapping[Key, str]) -> None:
        """Refuse what is there if it belongs to another version of the experiment.

        Args:
            digests: of every task there is to do.

        Raises:
            ResultsError: a task has changed since.
        """
        for key, line in self.lines.items():
            if key in digests and line.get("digest") != digests[key]:
                scenario, row, run = key
                raise self._error(
                    f"holds results of another version of this experiment (scenario {scenario!r}, row {row!r}, run {run}); "
                    "pass --fresh to put them aside and begin anew, or another --results"
                )

    def add(self, outcome: Outcome, prompt: str) -> None:
        """Write one outcome; it is on disk when this returns.

        Raises:
            ResultsError: it cannot be written.
        """
        line = as_line(outcome, prompt)
        file = self._file
        if file is None:
            raise self._error("is not open")
        try:
            file.write(_encoded(line))
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            raise self._error(f"cannot be written: {error.strerror}") from None
        if not outcome.error:
            self.lines[outcome.key] = line

    def _open(self) -> None:
        if self._fresh and self.path.exists():
            stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%S.%fZ")
            self.path.rename(self.path.with_name(f"{self.path.name}.old-{stamp}"))
        data = self.path.read_bytes() if self.path.exists() else b""
        good = list(self._read(data))
        self.lines = {_key(line): line for line in good}
        kept = b"".join(_encoded(line) for line in self.lines.values())
        if kept != data:
            self._replace(kept)
        self._file = self.path.open("ab")

    def _read(self, data: bytes) -> Iterator[dict[str, Any]]:
        complete, _, _torn = data.rpartition(b"\n")
        for number, text in enumerate(complete.split(b"\n"), 1):
            if not text.strip():
                continue
            try:
                line = json.loads(text)
                _key(line)
            except (ValueError, TypeError, KeyError):
                raise self._error(f"line {number} is no result of ours; pass --fresh to put the file aside") from None
            if not line.get("error"):
                yield line

    def _replace(self, data: bytes) -> None:
        temporary = self.path.with_name(f".{self.path.name}.new")
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)

    def _error(self, text: str) -> ResultsError:
        return ResultsError(f"{self.path}: {text}", path=str(self.path))


def as_line(outcome: Outcome, prompt: str) -> dict[str, Any]:
    """An outcome as it stands in the file."""
    scenario, row, run = outcome.key
    line: dict[str, Any] = {"scenario": scenario, "row": row, "run": run, "prompt": prompt, "answer": outcome.answer}
    if outcome.score is not None or outcome.verdict is not None:
        line |= {"score": outcome.score, "verdict": outcome.verdict}
    if outcome.error:
        line["error"] = outcome.error
    return line | {
        "finish_reason": outcome.finish_reason,
        "cached": outcome.cached,
        "live": outcome.live,
        "waited_s": round(outcome.waited_s, 6),
        "took_s": round(outcome.took_s, 6),
        "usage": dict(outcome.usage or {}),
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "digest": outcome.digest,
    }


def _key(line: Mapping[str, Any]) -> Key:
    return str(line["scenario"]), str(line["row"]), int(line["run"])


def _encoded(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
