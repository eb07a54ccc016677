"""Finds in a recording that a batch which a leader refuses as out of order is in its log.

A snapshot of producer state has the last batch of each producer alone. So a leader that has loaded
one refuses an earlier batch that it has, and librdkafka's producer gives up for ever
(docs/findings/kafka-snapshot-forgets.md).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

NAME = "snapshot-forgets"
_REFUSED = "OUT_OF_ORDER_SEQUENCE_NUMBER"


def by_a_forgetful_leader(run: Path, topic: str, partition: int) -> bool:
    """True if each batch that was refused so must have been stored.

    A later one of the same producer was stored, and between the two that are known to be stored
    there is an offset that no other record has.
    """
    sends = dict[str, list[tuple[int | None, str | None]]]()
    known = set[int]()
    for file in sorted(run.glob("*.ndjson")):
        for line, offset in _about(file, topic, partition):
            if offset is not None:
                known.add(offset)
            if line["op"] == "send":
                sends.setdefault(file.stem, []).append((offset, line.get("error")))
    refused = [
        (offsets[:at], offsets[at + 1 :])
        for mine in sends.values()
        for offsets in [[offset for offset, _ in mine]]
        for at, (_, error) in enumerate(mine)
        if error == _REFUSED
    ]
    return bool(refused) and all(_has_a_hole(*both, known) for both in refused)


def _has_a_hole(before: list[int | None], behind: list[int | None], known: set[int]) -> bool:
    low = max((one for one in before if one is not None), default=-1)
    high = min((one for one in behind if one is not None), default=-1)
    return any(offset not in known for offset in range(low + 1, high))


def _about(file: Path, topic: str, partition: int) -> Iterator[tuple[Any, int | None]]:
    """Lines of a process about records of a partition, each with the offset of one."""
    for text in file.read_bytes().splitlines():
        line = orjson.loads(text)
        for one in line.get("records", ()):
            if (one.get("topic"), one.get("partition")) == (topic, partition):
                yield line, one.get("offset")
