"""What is not ours, or newer than we are, is refused and left as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from store_support import file_store, look, put, run

from llm_sched import LedgerError, codec
from llm_sched.model import SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

FOREIGN = [b"{}", b"[]", b"3", b"null", b'"text"', b'{"a": 1}\n', b'{"schema": "v1", "buckets": {}}', b'{"buckets": {}}']


def newer_with_our_layout() -> bytes:
    """A ledger like ours, of the next schema."""
    return resealed(
        codec.encode(codec.new_state("i", "b", "m")).replace(b'"schema":%d' % SCHEMA, b'"schema":%d' % (SCHEMA + 1))
    )


def resealed(document: bytes) -> bytes:
    """The document with a fitting checksum."""
    body = document[: document.rindex(b',"crc"')]
    return body + b',"crc":"%08x"}' % crc32(body)


def newer_with_another_layout() -> bytes:
    """A ledger of the far future: we know only the marks that each version has."""
    return b'{"schema":%d,"buckets":{},"pages":[1,2]}' % (SCHEMA + 9)


def assert_refused(path: Path, content: bytes, match: str) -> None:
    """Transaction and reader raise one clear error, and nothing has changed."""
    path.write_bytes(content)
    store = file_store(path)
    for attempt in (lambda: run(store, put("mine")), lambda: run(store, look), store.read):
        with pytest.raises(LedgerError, match=match) as caught:
            attempt()
        assert (caught.value.path, str(path) in str(caught.value)) == (str(path), True)
    assert path.read_bytes() == content
    assert not list(path.parent.glob("*.corrupt-*"))


@pytest.mark.parametrize("content", FOREIGN)
def test_somebody_elses_json_is_refused_untouched(tmp_path: Path, content: bytes) -> None:
    """The message says what to set instead."""
    assert_refused(tmp_path / "settings.json", content, r"no llm-sched ledger.*MAS_LLM_SCHEDULER_STATE")


@pytest.mark.parametrize("content", [newer_with_our_layout(), newer_with_another_layout()])
def test_a_newer_ledger_is_refused_untouched(tmp_path: Path, content: bytes) -> None:
    """Whatever its layout; the message says to upgrade."""
    assert_refused(tmp_path / "ledger.json", content, r"newer llm-sched.*upgrade")


def test_somebody_elses_json_is_refused_even_where_a_copy_of_ours_exists(tmp_path: Path) -> None:
    """What lies at the path counts."""
    path = tmp_path / "ledger.json"
    run(file_store(path), put("ours"))
    assert_refused(path, b'{"a": 1}', "no llm-sched ledger")


def test_a_refusal_frees_the_lock(tmp_path: Path) -> None:
    """Once the file is out of the way, the same store works."""
    path = tmp_path / "ledger.json"
    store = file_store(path)
    path.write_bytes(b"[]")
    with pytest.raises(LedgerError):
        run(store, look)
    path.unlink()
    assert run(store, put("mine")).changed
