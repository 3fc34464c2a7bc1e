"""Where answers are kept: an SQLite file that any number of processes and threads write, one row an entry.

The law: stores and finds, decides nothing. Connections do not cross a fork. What the host keeps in `llm_cache.json` is taken
in and never written to, so it stays readable for the host and for us.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from llm_sched import host
from llm_sched.errors import SchedulerError

SCHEMA = 1

_BUSY_S = 60.0
"""How long a writer waits for another one: they are done in a millisecond, but there may be hundreds."""

_TABLES = """
CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, text TEXT NOT NULL, usage TEXT NOT NULL, stored_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS unstored (key TEXT PRIMARY KEY, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS imports (path TEXT PRIMARY KEY, stamp TEXT NOT NULL);
"""

_MARK_AGE_S = 3600.0
_SUFFIXES = {".sqlite3", ".sqlite", ".db"}


class CacheError(SchedulerError):
    """The cache cannot be used.

    Attributes:
        path: the file that the error is about.
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class Entry(NamedTuple):
    """A stored answer: its text, and the token counts that the live call took."""

    text: str
    usage: Mapping[str, int]


def cache_files(cache_path: str | os.PathLike[str] | None = None) -> tuple[Path, Path | None]:
    """The store, and the host's JSON file beside it.

    The place is `cache_path`, else `MAS_LLM_CACHE`, else `$XDG_CACHE_HOME/mas/llm_cache.json`. It names the host's file; the
    store has the same name with the suffix `.sqlite3`. A place with the suffix of an SQLite file is the store itself.
    """
    root = os.environ.get("XDG_CACHE_HOME")
    usual = (Path(root) if root else Path.home() / ".cache") / "mas" / "llm_cache.json"
    named = Path(cache_path or os.environ.get("MAS_LLM_CACHE") or usual).expanduser()
    return (named, None) if named.suffix.lower() in _SUFFIXES else (named.with_suffix(".sqlite3"), named)


class CacheStore:
    """A store of answers; threads may share one. Nothing is opened before the first use.

    Args:
        path: the SQLite file; made with mode 0600.
        imports: a JSON file of the host's format to take in, whenever a process finds it changed; None = none.
    """

    def __init__(self, path: Path, imports: Path | None = None) -> None:
        self.path = path
        self._imports = imports
        self._start_anew()

    def _start_anew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def get(self, *keys: str) -> Entry | None:
        """The first of these keys that has an entry; a damaged one is none.

        Raises:
            CacheError: the file cannot be used.
        """
        with self._connected() as connection:
            for key in keys:
                row = connection.execute("SELECT text, usage FROM entries WHERE key = ?", (key,)).fetchone()
                if row is not None and (usage := _usage(row[1])) is not None:
                    return Entry(row[0], usage)
        return None

    def put(self, key: str, entry: Entry) -> None:
        """Store an entry. Errors as for `get`."""
        with self._connected() as connection:
            row = (key, entry.text, json.dumps(dict(entry.usage)), time.time())
            connection.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", row)

    def mark_unstored(self, key: str) -> None:
        """Remember that a live call just now brought nothing that may be stored. Errors as for `get`."""
        now = time.monotonic()
        with self._connected() as connection:
            connection.execute("DELETE FROM unstored WHERE at NOT BETWEEN ? AND ?", (now - _MARK_AGE_S, now))
            connection.execute("INSERT OR REPLACE INTO unstored VALUES (?, ?)", (key, now))

    def is_unstored(self, key: str, since: float) -> bool:
        """Whether such a mark was made after `since` (`time.monotonic()`). Errors as for `get`."""
        with self._connected() as connection:
            row = connection.execute("SELECT 1 FROM unstored WHERE key = ? AND at >= ?", (key, since)).fetchone()
            return row is not None

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._pid != os.getpid():
            return
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def __del__(self) -> None:
        if getattr(self, "_pid", 0):
            self.close()

    @contextmanager
    def _connected(self) -> Generator[sqlite3.Connection]:
        if self._pid != os.getpid():
            _inherited.append(self._connection)
            self._start_anew()
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._open()
                yield self._connection
            except (sqlite3.Error, OSError, UnicodeEncodeError) as error:
                message = f"cannot use the cache {self.path}: {error}; set cache_path or MAS_LLM_CACHE, or move the file away"
                raise CacheError(message, path=str(self.path)) from error

    def _open(self) -> sqlite3.Connection:
        from filelock import FileLock  # noqa: PLC0415 - it takes longer to import than this whole package

        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            # SQLite does not wait for others while it changes the journal's mode.
            with FileLock(f"{self.path}.lock", mode=0o600, is_singleton=False):
                self._set_up(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA:
            raise sqlite3.DatabaseError("it was written by a newer llm-sched")
        # A write-ahead log lets readers read while somebody writes, but wants shared memory.
        remote = host.file_system(self.path) in host.NETWORK_FILE_SYSTEMS
        connection.execute(f"PRAGMA journal_mode = {'DELETE' if remote else 'WAL'}")
        connection.execute("PRAGMA synchronous = NORMAL")  # a power cut may lose the last entries, never the file
        if version < SCHEMA:
            connection.executescript(f"{_TABLES} PRAGMA user_version = {SCHEMA};")
        if self._imports is not None:
            _import(connection, self._imports)


_inherited: list[sqlite3.Connection | None] = []
"""Connections of a parent process. SQLite forbids a forked child to use them, and also to close them."""


def _import(connection: sqlite3.Connection, path: Path) -> None:
    """Take in the host's file, if it is there and is not what was taken in last."""
    try:
        status = path.stat()
        stamp = f"{status.st_size} {status.st_mtime_ns}"
        known = connection.execute("SELECT stamp FROM imports WHERE path = ?", (str(path),)).fetchone()
        if known is not None and known[0] == stamp:
            return
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        logging.getLogger("llm_sched").warning("cannot read the cache %s, going on without it: %s", path, error)
        return
    rows = [(key, entry.text, json.dumps(dict(entry.usage)), time.time()) for key, entry in _entries(found)]
    with closing(connection.cursor()) as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        try:
            cursor.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", rows)
            cursor.execute("INSERT OR REPLACE INTO imports VALUES (?, ?)", (str(path), stamp))
        except BaseException:
            cursor.execute("ROLLBACK")
            raise
        cursor.execute("COMMIT")


def _entries(found: object) -> Generator[tuple[str, Entry]]:
    """The final answers in a document of the host's: key -> text, or key -> `{content, usage, tool_calls, source}`."""
    if not isinstance(found, dict):
        return
    for key, value in cast("dict[str, Any]", found).items():
        fields = {"content": value} if isinstance(value, str) else _mapping(value)
        text = fields.get("content") or fields.get("text")
        calls = fields.get("tool_calls") or fields.get("tool_name") or fields.get("parallel_tools")
        if not isinstance(text, str) or not text or calls or fields.get("finish_reason") not in {None, "", "stop"}:
            continue
        usage = _mapping(fields.get("usage"))
        yield key, Entry(text, {name: count for name, count in usage.items() if isinstance(count, int)})


def _usage(stored: object) -> dict[str, int] | None:
    """Stored token counts; None = they are damaged."""
    try:
        usage = json.loads(stored) if isinstance(stored, str) else None
    except ValueError:
        return None
    return cast("dict[str, int]", usage) if isinstance(usage, dict) else None


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
