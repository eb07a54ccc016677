"""Finds in a recording that a batch which a leader refuses as out of order is in its log.

A snapshot of producer state has the last batch of each producer alone. So a leader that has loaded
one refuses an earlier batch that it has, and librdkafka's producer gives up for ever
(docs/findings/kafka-snapshot-forgets.md).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from attrs import frozen

NAME = "snapshot-forgets"
_REFUSED = "OUT_OF_ORDER_SEQUENCE_NUMBER"


def by_a_forgetful_leader(run: Path, topic: str, partition: int) -> bool:
    """True if each batch that was refused so was stored: somebody read it, or it must have been.

    It must if a later one of the same producer was stored, and between the two that are known to be
    stored there is an offset that no other record has.
    """
    sends, read, taken = dict[str, list[_Send]](), set[Any](), set[int]()
    for file in sorted(run.glob("*.ndjson")):
        for line, record in _about(file, topic, partition):
            offset = record.get("offset")
            taken |= set[int]() if offset is None else {offset}
            if line["op"] == "send":
                one = _Send(record.get("id"), offset, line.get("error") == _REFUSED)
                sends.setdefault(file.stem, []).append(one)
            else:
                read.add(record.get("id"))
    refused = [
        one.id in read or _has_a_hole(mine[:at], mine[at + 1 :], taken)
        for mine in sends.values()
        for at, one in enumerate(mine)
        if one.is_refused
    ]
    return bool(refused) and all(refused)


@frozen
class _Send:
    id: Any
    offset: int | None
    is_refused: bool


def _has_a_hole(before: list[_Send], behind: list[_Send], taken: set[int]) -> bool:
    low = max((one.offset for one in before if one.offset is not None), default=-1)
    high = min((one.offset for one in behind if one.offset is not None), default=-1)
    return any(offset not in taken for offset in range(low + 1, high))


def _about(file: Path, topic: str, partition: int) -> Iterator[tuple[Any, Any]]:
    """Lines of a process about records of a partition, each with one of them."""
    for text in file.read_bytes().splitlines():
        line = orjson.loads(text)
        for one in line.get("records", ()):
            if (one.get("topic"), one.get("partition")) == (topic, partition):
                yield line, one
