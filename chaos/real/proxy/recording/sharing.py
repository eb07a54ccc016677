"""ShareFetch and ShareAcknowledge: the records that members of share groups are given, and settle.

An acknowledgement travels with a ShareFetch or alone. Both are a call of their own for each
partition, because a broker answers it by partition (KIP-932).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from attrs import define, field

from chaos.real.proxy.recording.batches import batches_in, fetched
from chaos.real.proxy.recording.links import Link, Topics, code_of, name_of
from traces.record.entries import Line
from traces.record.process import Process, now

Answer = Callable[[Any], None]
Key = tuple[str, int]
#: The types of an acknowledgement; a gap is an offset without a record.
_GAP = 0
_ACKS = {1: "accept", 2: "release", 3: "reject", 4: "renew"}
#: The fields of a record that an acknowledgement repeats
_ABOUT = ("topic", "partition", "offset", "id")
#: How many members without a connection are kept for a client that comes back.
_IDLE = 64


@define(eq=False)
class Member:
    """A member of a share group, by its id."""

    process: Process
    links: set[Link] = field(factory=set[Link])
    #: The records that it was given last, by partition and offset
    held: dict[Key, dict[int, Line]] = field(factory=dict[Key, dict[int, Line]])

    def acquires(self, record: Line) -> None:
        """It was given a record."""
        about = {name: record[name] for name in _ABOUT if name in record}
        key = record["topic"], record["partition"]
        self.held.setdefault(key, {})[record["offset"]] = about

    def settles(self, key: Key, offset: int, ack: str) -> Line:
        """The record that it acknowledges; only a renewed one stays with it."""
        held = self.held.get(key, {})
        about = held.get(offset) if ack == "renew" else held.pop(offset, None)
        return {**(about or {"topic": key[0], "partition": key[1], "offset": offset}), "ack": ack}


@define
class ShareGroups:
    """The members of share groups."""

    topics: Topics
    _members: dict[tuple[str, str], Member] = field(
        factory=dict[tuple[str, str], Member], init=False
    )

    def gone(self, link: Link) -> None:
        """A connection is closed. Its members have others, or may come back by another."""
        for member in self._members.values():
            member.links.discard(link)
        idle = [key for key, member in self._members.items() if not member.links]
        for key in idle[:-_IDLE]:
            link.journals.end(self._members.pop(key).process)

    def fetch(self, link: Link, request: Any) -> Answer:
        """ShareFetch."""
        member, about, invoked = self._member(link, request), _about(request), now()
        settled = self._acknowledged(member, request, about)

        def answered(answer: Any) -> None:
            codes = self._codes(answer, lambda one: int(one.acknowledge_error_code))
            self._settle(member, settled, code_of(answer), codes)
            records = [line for key, one in self._answers(answer) for line in _acquired(key, one)]
            for record in records:
                member.acquires(record)
            if records:
                member.process.note("acquire", invoked, records=records, **about)

        return answered

    def acknowledge(self, link: Link, request: Any) -> Answer:
        """ShareAcknowledge."""
        member = self._member(link, request)
        settled = self._acknowledged(member, request, _about(request))

        def answered(answer: Any) -> None:
            self._settle(member, settled, code_of(answer), self._codes(answer, code_of))

        return answered

    def _member(self, link: Link, request: Any) -> Member:
        key = request.group_id or "", request.member_id or ""
        member = self._members.pop(key, None)
        if member is None:
            name = f"{link.client}-{key[0]}"
            member = Member(link.journals.begin(name, "consumer", {"group": key[0]}))
        self._members[key] = member
        member.links.add(link)
        return member

    def _acknowledged(self, member: Member, request: Any, about: Line) -> dict[Key, int]:
        """A call for each partition of which something is acknowledged, by its number."""
        calls: dict[Key, int] = {}
        for topic in request.topics:
            name = self.topics.name_of(topic)
            for one in topic.partitions if name is not None else ():
                key = name or "", one.partition_index
                acks = _acks(one.acknowledgement_batches)
                records = [member.settles(key, offset, ack) for offset, ack in acks]
                if records:
                    calls[key] = member.process.call("acknowledge", records=records, **about)
        return calls

    def _answers(self, answer: Any) -> Iterator[tuple[Key, Any]]:
        for topic in answer.responses:
            name = self.topics.name_of(topic)
            for one in topic.partitions if name is not None else ():
                yield (name or "", one.partition_index), one

    def _codes(self, answer: Any, code: Callable[[Any], int]) -> dict[Key, int]:
        return {key: code(one) for key, one in self._answers(answer)}

    def _settle(
        self, member: Member, calls: Mapping[Key, int], refused: int, codes: Mapping[Key, int]
    ) -> None:
        """Answer the calls: `ok` is certain, and a partition that is not answered stays open."""
        for key, seq in calls.items():
            code = refused or codes.get(key)
            if code == 0:
                member.process.answer(seq, "ok")
            elif code is None:
                member.process.answer(seq, "info")
            else:
                member.process.answer(seq, "info", error=name_of(code))


def _about(request: Any) -> Line:
    return {"group": request.group_id, "member": request.member_id}


def _acks(batches: Iterable[Any]) -> Iterator[tuple[int, str]]:
    """Each offset with its acknowledgement: one type stands for a whole batch, or one for each."""
    for batch in batches:
        types = batch.acknowledge_types
        for at, offset in enumerate(range(batch.first_offset, batch.last_offset + 1)):
            kind = types[at if len(types) > 1 else 0]
            if kind != _GAP:
                yield offset, _ACKS[kind]


def _acquired(key: Key, one: Any) -> Iterator[Line]:
    """The records of a partition's answer that the member has acquired, with their counts."""
    counts = {
        offset: batch.delivery_count
        for batch in one.acquired_records
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }
    data = memoryview(one.records or b"")
    for position, header in batches_in(data):
        if not header.is_control:
            for line in fetched(*key, data, position, header, header.base_offset):
                if line["offset"] in counts:
                    yield line | {"delivery_count": counts[line["offset"]]}
