"""A ledger as bytes: nothing is lost, nothing that is not read is decoded, nothing damaged is taken for whole."""

from __future__ import annotations

import json
from zlib import crc32

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from llm_sched import codec
from llm_sched.model import SCHEMA, Bucket, Lease, Member, Owner, State, Terms, Ticket, Totals

text = st.text(max_size=20)
seconds = st.floats(0, 1e9)
numbers = st.integers(0, 2**53)
owner_ids = st.sampled_from(("1-a", "2-b", "3-\u00fc"))
terms = st.builds(Terms, numbers, seconds, seconds, seconds, text, seconds, text)
buckets = st.builds(
    Bucket,
    keys=st.dictionaries(text, text, max_size=3),
    leases=st.lists(st.builds(Lease, owner_ids, numbers, seconds, seconds, numbers, numbers, text), max_size=3),
    queue=st.lists(st.builds(Ticket, owner_ids, numbers, seconds, numbers, numbers, seconds, seconds, text), max_size=3),
    members=st.dictionaries(owner_ids, st.builds(Member, numbers, numbers, numbers, numbers, numbers)),
    terms=st.lists(terms, max_size=2),
    tat=seconds,
    active=seconds,
    totals=st.builds(Totals, numbers, numbers, numbers, numbers, seconds, st.lists(numbers, max_size=16)),
    turns=st.dictionaries(text, numbers, max_size=3),
)
owners = st.builds(Owner, numbers, text, text, numbers, numbers)
steady = settings(derandomize=True, database=None, deadline=None, max_examples=60)


@given(st.dictionaries(owner_ids, owners), st.dictionaries(text, buckets, max_size=3), numbers, seconds)
@steady
def test_a_ledger_is_the_same_after_writing_and_reading(
    owners: dict[str, Owner], buckets: dict[str, Bucket], seq: int, clock: float
) -> None:
    """With every field of everything in it."""
    state = codec.new_state("ident", "boot", "machine", "rebuilt")
    state.seq, state.clock, state.updated_at = seq, clock, clock + 1
    state.owners.update(owners)
    state.buckets.update(buckets)
    again = codec.decode(codec.encode(state))
    assert (dict(again.owners), dict(again.buckets)) == (owners, buckets)
    assert (again.ident, again.boot, again.machine, again.origin) == ("ident", "boot", "machine", "rebuilt")
    assert (again.seq, again.clock, again.updated_at) == (seq, clock, clock + 1)


def ledger() -> State:
    """A small ledger."""
    state = codec.new_state("ident", "boot", "machine")
    state.owners["1-a"] = Owner(pid=1)
    state.buckets["p/m"] = Bucket(keys={"provider": "p", "model": "m"})
    state.buckets["p/n"] = Bucket(keys={"provider": "p", "model": "n"})
    return state


def test_a_ledger_is_one_line_of_json_that_names_its_schema_first() -> None:
    """For `cat`, `jq`, `head -c`, and older versions."""
    data = codec.encode(ledger())
    assert (b"\n" in data, data.startswith(b'{"schema":%d,"seq":0,' % SCHEMA)) == (False, True)
    assert list(json.loads(data)["buckets"]) == ["p/m", "p/n"]


@pytest.mark.parametrize("padding", [b"", b"\n", b"   \n", b"\0" * 100, b" \n\0\0"])
def test_padding_is_no_part_of_a_document(padding: bytes) -> None:
    """Files are longer than what is in them."""
    data = codec.encode(ledger())
    assert codec.encode(codec.decode(data + padding)) == data


def test_what_nobody_touched_goes_back_as_the_bytes_it_was() -> None:
    """Also where a newer minor version has added fields."""
    data = codec.encode(ledger()).replace(b'"model":"n"}', b'"model":"n"},"added_later":7')
    state = codec.decode(resealed(data))
    state.buckets["p/m"].totals.granted = 3
    assert b'"added_later":7' in codec.encode(state)


def resealed(data: bytes) -> bytes:
    """The document with a fitting checksum."""
    body = data[: data.rindex(b',"crc"')]
    return body + b',"crc":"%08x"}' % crc32(body)


def test_the_mapping_of_a_ledger_is_a_mapping() -> None:
    """Length, membership, order, deletion, replacement."""
    buckets = codec.decode(codec.encode(ledger())).buckets
    del buckets["p/m"]
    buckets["p/o"] = Bucket(keys={})
    assert (len(buckets), list(buckets), "p/m" in buckets, "p/n" in buckets) == (2, ["p/n", "p/o"], False, True)
    with pytest.raises(KeyError):
        buckets["p/m"]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "empty"),
        (b" \n\0", "empty"),
        (b"garbage", "torn"),
        (b"\xff\xfe", "torn"),
        (b'{"schema":1,', "torn"),
        (b'{"schema":1,"buckets":{}}', "torn"),
        (b'{"schema":1,"buckets":{},"crc":"00000000"}', "torn"),
        (b"{}", "foreign"),
        (b"[1]", "foreign"),
        (b'{"schema":"1","buckets":{}}', "foreign"),
        (b'{"schema":1,"buckets":[]}', "foreign"),
        (b'{"schema":%d,"buckets":{}}' % (SCHEMA + 1), "newer"),
        (resealed(b'{"schema":%d,"buckets":{},"crc":""}' % (SCHEMA + 1)), "newer"),
    ],
)
def test_what_is_no_ledger_is_told_apart(data: bytes, fault: codec.Fault) -> None:
    """Nothing there, damaged, somebody else's, newer."""
    with pytest.raises(codec.UnreadableError) as caught:
        codec.decode(data)
    assert caught.value.fault == fault


@given(owners)
@steady
def test_an_owner_is_the_same_after_writing_and_reading(owner: Owner) -> None:
    """As in its mailbox."""
    assert codec.owner_of(codec.describe(owner) + b"\n\0\0") == owner


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"user":"ann"}'])
def test_a_damaged_owner_is_nobody(data: bytes) -> None:
    """Instead of an error."""
    assert codec.owner_of(data) is None


def test_a_queue_is_decoded_only_where_somebody_looks() -> None:
    """The rest is written as the bytes it was, with whatever else stood in it."""
    tickets = [msgspec.Raw(b'{"owner":"1-a","number":%d,"at":1.50,"cell":0}' % number) for number in range(4)]
    queue = codec.LazyList[Ticket](list(tickets), msgspec.json.Decoder(Ticket).decode)
    seen = [queue[1].number, queue.pop(0).number]
    queue.append(Ticket("1-a", 9, 2.0, 0))
    written = msgspec.json.encode(queue)
    assert (seen, [ticket.number for ticket in queue]) == ([1, 0], [1, 2, 3, 9])
    assert (written.count(b"1.50"), written.count(b"1.5,")) == (2, 1)
