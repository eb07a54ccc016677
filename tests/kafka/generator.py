"""Logs of every kind that our writer can write, each from a seed."""

from collections.abc import Mapping
from random import Random
from typing import Any

from attrs import define, field

from refimpl.dump.metadata_records import METADATA_RECORDS
from refimpl.records.coordinators import CoordinatorRecord, RecordType, write_record
from refimpl.records.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    UINT16,
    Field,
    Number,
    Sized,
    fields_of,
    uvarint,
    write,
)
from refimpl.storage.format.batch import Record, encode_batch, read_header, stamped
from refimpl.storage.format.compression import Codec
from refimpl.storage.format.control import EndTxnMarker, encode_leader_change, encode_marker

WORDS = ("", "k", "größe", "日本", "\U0001f600", "a\tb", '{"a": 1}', "x" * 300)
BROKEN = (b"\xff\xfe", b"\xc3", b"\xe6\x97", b"\xed\xa0\x80\xed\xb0\x80", b"\xf0\x9f\x98", b"\x00")
NOW = 1_790_000_000_000


@define
class Writer:
    """Writes one log file, batch by batch; all it does depends on the seed."""

    dice: Random
    offset: int
    now: int = NOW
    sequences: dict[int, int] = field(factory=dict[int, int])
    open_transactions: dict[int, int] = field(factory=dict[int, int])

    def log(self) -> bytes:
        return b"".join(self._any_batch() for _ in range(self.dice.randint(1, 6)))

    def _any_batch(self) -> bytes:
        self.now += self.dice.choice((0, 1, 1000, -500))
        kinds = [self._plain, self._plain, self._idempotent, self._stamped, self._emptied]
        kinds += [self._thinned, self._leader_change, self._transactional]
        if self.open_transactions:
            kinds += [self._marker] * 4
        batch = self.dice.choice(kinds)()
        self.offset = read_header(batch).next_offset
        if self.dice.random() < 0.1:
            self.offset += self.dice.choice((1, 1000))
        return batch

    def codec(self) -> Codec:
        return self.dice.choice(list(Codec))

    def _epoch(self) -> int:
        return self.dice.choice((-1, 0, 7, 2**31 - 1))

    def _bytes(self) -> bytes | None:
        match self.dice.randrange(5):
            case 0:
                return None
            case 1:
                return b"".join(self.dice.choices(BROKEN, k=2))
            case 2:
                return self.dice.randbytes(self.dice.choice((1, 10, 2000)))
            case _:
                return self.dice.choice(WORDS).encode()

    def _headers(self) -> tuple[tuple[str, bytes | None], ...]:
        count = self.dice.choice((0, 0, 0, 1, 3))
        return tuple((self.dice.choice(WORDS), self._bytes()) for _ in range(count))

    def records(self, count: int) -> list[Record]:
        return [
            Record(
                self.offset + number,
                self.now + self.dice.choice((0, 0, 5, -5, 86_400_000)),
                self._bytes(),
                self._bytes(),
                self._headers(),
            )
            for number in range(count)
        ]

    def _some(self) -> list[Record]:
        return self.records(self.dice.choice((1, 1, 2, 5, 40)))

    def _plain(self) -> bytes:
        return encode_batch(self._some(), codec=self.codec(), leader_epoch=self._epoch())

    def _producer(self) -> int:
        return self.dice.choice((0, 1, 2**40))

    def _sequence(self, producer: int, count: int) -> int:
        first = self.sequences.get(producer, self.dice.choice((0, 0, 2**31 - 2)))
        self.sequences[producer] = (first + count) % 2**31
        return first

    def _idempotent(self, transactional: bool = False) -> bytes:
        records, producer = self._some(), self._producer()
        if transactional:
            self.open_transactions.setdefault(producer, self.offset)
        return encode_batch(
            records,
            codec=self.codec(),
            leader_epoch=self._epoch(),
            producer_id=producer,
            producer_epoch=self.dice.choice((0, 3)),
            base_sequence=self._sequence(producer, len(records)),
            transactional=transactional,
        )

    def _transactional(self) -> bytes:
        return self._idempotent(transactional=True)

    def _marker(self) -> bytes:
        producer = self.dice.choice(sorted(self.open_transactions))
        del self.open_transactions[producer]
        marker = EndTxnMarker(self.dice.random() < 0.5, self.dice.choice((0, 12)))
        return encode_marker(
            marker,
            producer_id=producer,
            producer_epoch=3,
            timestamp=self.now,
            offset=self.offset,
            leader_epoch=self._epoch(),
        )

    def _leader_change(self) -> bytes:
        return encode_leader_change(
            1, [1, 2, 3], [1, 3], timestamp=self.now, epoch=5, offset=self.offset
        )

    def _stamped(self) -> bytes:
        batch = encode_batch(self._some(), codec=self.codec())
        header = read_header(batch)
        head = stamped(batch, 0, header, header.base_offset, 4, self.now + 9)
        return head + batch[len(head) :]

    def _emptied(self) -> bytes:
        """A batch that compaction has left nothing of but its sequence numbers."""
        return encode_batch(
            [],
            base_offset=self.offset,
            last_offset=self.offset + 4,
            producer_id=self._producer(),
            producer_epoch=1,
            base_sequence=2**31 - 3,
        )

    def _thinned(self) -> bytes:
        """A batch that compaction has left some records of, and a date for its tombstones."""
        kept = [record for record in self.records(9) if self.dice.random() < 0.5]
        return encode_batch(
            kept,
            codec=self.codec() if kept else Codec.NONE,
            base_offset=self.offset,
            last_offset=self.offset + 8,
            leader_epoch=self._epoch(),
            delete_horizon_ms=self.dice.choice((None, NOW + 5)) if kept else None,
        )


def generate(seed: int) -> tuple[str, bytes]:
    """A file's name and its content."""
    dice = Random(seed)
    base = dice.choice((0, 0, 1, 5_000_000_000, 2**53))
    return f"{base:020}.log", Writer(dice, base).log()


def coordinator_log(seed: int, kinds: Mapping[int, RecordType]) -> bytes:
    """A log of coordinators' records: every type, every version, deletions and strangers too."""
    dice = Random(seed)
    writer = Writer(dice, 0)
    records: list[Record] = []
    for offset in range(40):
        kind = dice.choice(list(kinds.values()))
        version = dice.randint(0, kind.newest)
        whose = message(dice, kind.key, 0)
        content = None if dice.random() < 0.1 else message(dice, kind.value, version)
        key, value = write_record(CoordinatorRecord(kind, whose, content, version))
        if dice.random() < 0.05:
            key = b"\x03\xe7" + key[2:]
        records.append(Record(offset, NOW, key, value))
    return encode_batch(records[:20], codec=writer.codec()) + encode_batch(records[20:])


def metadata_log(seed: int) -> bytes:
    """A log of controllers' records: every type, every version, and some that nobody can read."""
    dice, writer = Random(seed), Writer(Random(seed), 0)
    records: list[Record] = []
    for offset in range(40):
        number = dice.choice(list(METADATA_RECORDS))
        schema, newest = METADATA_RECORDS[number]
        version = dice.randint(0, newest)
        content = write(message(dice, schema, version), version, flexible=True)
        frame, number = int(dice.random() < 0.98) or 3, number if dice.random() < 0.98 else 99
        value = uvarint(frame) + uvarint(number) + uvarint(version) + content
        if dice.random() < 0.05:
            value += b"\0"
        records.append(Record(offset, NOW, None, value))
    return encode_batch(records, codec=writer.codec())


def message(dice: Random, schema: type[Any], version: int) -> Any:
    """Any message of this schema that this version can say."""
    values: dict[str, Any] = {}
    for one in fields_of(schema):
        there = one.versions.first <= version <= one.versions.last
        if there and (one.versions.tag is None or dice.random() < 0.5):
            values[one.name] = _field(dice, one, version)
    return schema(**values)


def _field(dice: Random, one: Field, version: int) -> Any:
    if one.nullable and dice.random() < 0.3:
        return None
    if one.is_array:
        return tuple(_value(dice, one, version) for _ in range(dice.choice((0, 1, 3))))
    return _value(dice, one, version)


def _value(dice: Random, one: Field, version: int) -> Any:
    match one.kind:
        case Number(packing) if packing.format == ">16s":
            return dice.randbytes(16)
        case Number() if one.kind is BOOL:
            return dice.random() < 0.5
        case Number() if one.kind is FLOAT64:
            return dice.choice((0.0, 1.0, -2.5, 1048576.0))
        case Number() if one.kind is UINT16:
            return dice.choice((0, 9092, 65535))
        case Number(packing):
            bits = 8 * packing.size - 1
            return dice.choice((0, 1, -1, 2**bits - 1, -(2**bits), dice.randrange(2**bits)))
        case Sized() if one.kind is BYTES:
            return dice.randbytes(dice.choice((0, 1, 130)))
        case Sized():
            return dice.choice(("", "consumer", "group-1", "größe", 'a "quoted" \\ one', "x" * 200))
        case schema:
            return message(dice, schema, version)
