"""State <-> JSON bytes, and how to tell a whole document from a torn one.

A document ends in a checksum of all before it, so that a reader without a lock and the next lock holder both see whether
they read one write or a mixture of two. Owners, buckets, leases and tickets stay undecoded until somebody asks for one: a
transaction touches one bucket, of its queue mostly the head, and must not pay for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Generic, Literal, SupportsIndex, TypeVar
from zlib import crc32

import msgspec

from llm_sched.model import SCHEMA, Bucket, Lease, Member, Owner, State, Terms, Ticket, Totals

Fault = Literal["empty", "torn", "foreign", "newer"]
"""Why bytes are no ledger: nothing there; damaged; valid JSON that is not ours; written by a newer version."""

_TAIL = b',"crc":"%08x"}'
_TAIL_LENGTH = len(_TAIL % 0)
_HEAD = b'{"schema":%d,"seq":' % SCHEMA
_PADDING = b" \n\0"
"""What may follow a document: the file is longer than its document, and new space reads as zero bytes."""

T = TypeVar("T")


class _Document(msgspec.Struct):
    schema: int
    seq: int
    ident: str
    boot: str
    machine: str
    origin: str
    since: float
    clock: float
    updated_at: float
    owners: dict[str, msgspec.Raw]
    buckets: dict[str, msgspec.Raw]


class _Marks(msgspec.Struct):
    """What every version's ledger has."""

    schema: int
    buckets: dict[str, Any]


class UnreadableError(ValueError):
    """These bytes are no ledger of ours; `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault: Fault = fault


class Lazy(MutableMapping[str, T], Generic[T]):
    """A mapping whose values are decoded when they are first asked for; the rest goes back as the bytes it was."""

    __slots__ = ("_decode", "items_")

    def __init__(self, raw: dict[str, Any], decode: Callable[[Any], T]) -> None:
        self.items_ = raw
        self._decode = decode

    def __getitem__(self, key: str) -> T:
        value = self.items_[key]
        if type(value) is msgspec.Raw:
            value = self.items_[key] = self._decode(value)
        return value  # type: ignore[no-any-return] # Raw is gone

    def __setitem__(self, key: str, value: T) -> None:
        self.items_[key] = value

    def __delitem__(self, key: str) -> None:
        del self.items_[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.items_)

    def __len__(self) -> int:
        return len(self.items_)

    def __contains__(self, key: object) -> bool:
        return key in self.items_


class LazyList(list[T], Generic[T]):
    """A list whose items are decoded when they are first asked for; the encoder writes the rest as the bytes they were.

    Only what the rules do with a queue: index, iterate, append, insert, pop, compare. No slices, no search by value.
    """

    __slots__ = ("_decode",)

    def __init__(self, raw: list[Any], decode: Callable[[Any], T]) -> None:
        super().__init__(raw)
        self._decode = decode

    def __getitem__(self, index: SupportsIndex) -> T:  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride] # no slices
        value: Any = super().__getitem__(index)
        if type(value) is msgspec.Raw:
            value = self._decode(value)
            super().__setitem__(index, value)
        return value  # type: ignore[no-any-return] # Raw is gone

    def __iter__(self) -> Iterator[T]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return list(self) == other

    __hash__ = None  # as every list

    def pop(self, index: SupportsIndex = -1) -> T:
        """Take an item out, as `list.pop`."""
        value: Any = super().pop(index)
        popped: T = self._decode(value) if type(value) is msgspec.Raw else value
        return popped


class _Bucket(msgspec.Struct):
    """A bucket whose leases and tickets are still bytes; fields as in `Bucket`, in its order."""

    keys: dict[str, str]
    leases: list[msgspec.Raw] = []
    queue: list[msgspec.Raw] = []
    members: dict[str, Member] = {}
    terms: list[Terms] = []
    tat: float = 0.0
    active: float = 0.0
    totals: Totals = msgspec.field(default_factory=Totals)
    turns: dict[str, int] = {}
    rate: float = 0.0
    burst: float = 0.0


_encoder = msgspec.json.Encoder()
_document = msgspec.json.Decoder(_Document)
_owner = msgspec.json.Decoder(Owner)
_bucket = msgspec.json.Decoder(_Bucket)
_lease = msgspec.json.Decoder(Lease).decode
_ticket = msgspec.json.Decoder(Ticket).decode


def _decode_bucket(data: bytes) -> Bucket:
    bucket = _bucket.decode(data)
    leases, queue = LazyList[Lease](bucket.leases, _lease), LazyList[Ticket](bucket.queue, _ticket)
    decoded = Bucket(bucket.keys, leases, queue, bucket.members, bucket.terms, bucket.tat, bucket.active, bucket.totals)
    decoded.turns, decoded.rate, decoded.burst = bucket.turns, bucket.rate, bucket.burst
    return decoded


def new_state(ident: str, boot: str, machine: str, origin: str = "new") -> State:
    """An empty ledger."""
    return State(ident, boot, machine, Lazy[Owner]({}, _owner.decode), Lazy[Bucket]({}, _decode_bucket), origin=origin)


def encode(state: State) -> bytes:
    """Return the document: one line of JSON that ends in its checksum."""
    owners, buckets = state.owners, state.buckets
    body = _encoder.encode(
        _Document(
            SCHEMA,
            state.seq,
            state.ident,
            state.boot,
            state.machine,
            state.origin,
            state.since,
            state.clock,
            state.updated_at,
            owners.items_ if isinstance(owners, Lazy) else owners,  # type: ignore[arg-type] # encodes both alike
            buckets.items_ if isinstance(buckets, Lazy) else buckets,  # type: ignore[arg-type]
        )
    )[:-1]
    return body + _TAIL % crc32(body)


def decode(data: bytes) -> State:
    """Return the state in `data`, which may be padded.

    Raises:
        UnreadableError: with the reason; nothing of the bytes is used then.
    """
    data = data.rstrip(_PADDING)
    body = data[:-_TAIL_LENGTH]
    if data[-_TAIL_LENGTH:] != _TAIL % crc32(body):
        raise UnreadableError(_fault(data))
    try:
        document = _document.decode(data)
    except msgspec.DecodeError:
        raise UnreadableError(_fault(data)) from None
    if document.schema > SCHEMA:
        raise UnreadableError("newer")
    return State(
        document.ident,
        document.boot,
        document.machine,
        Lazy[Owner](document.owners, _owner.decode),
        Lazy[Bucket](document.buckets, _decode_bucket),
        document.seq,
        document.clock,
        document.updated_at,
        document.origin,
        document.since,
    )


def _fault(data: bytes) -> Fault:
    if not data:
        return "empty"
    try:
        value = msgspec.json.decode(data)
    except msgspec.DecodeError:  # also where its beginning looks like JSON of another type
        return "torn"
    try:
        marks = msgspec.convert(value, _Marks)
    except msgspec.ValidationError:
        return "torn" if data.startswith(_HEAD) else "foreign"  # a mixture of two of ours can be JSON by chance
    return "newer" if marks.schema > SCHEMA else "torn"


def describe(owner: Owner) -> bytes:
    """One owner as JSON, for its mailbox."""
    return _encoder.encode(owner)


def owner_of(data: bytes) -> Owner | None:
    """Inverse of `describe`; None if the bytes are damaged."""
    try:
        return _owner.decode(data.rstrip(_PADDING))
    except msgspec.DecodeError:
        return None
