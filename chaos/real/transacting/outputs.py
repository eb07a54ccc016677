"""The outputs of applications, compared with the offsets that their group has committed.

Exactly once means here: each record of the input below the committed offset has one value among the
committed records of the output, and each record at or above it has none.
"""

import re
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from typing import Any

PATIENCE_S = 60.0
VALUE = re.compile(rb"(\d+)-(\d+)")
"""Partition and offset of the record that an application made it of."""


def of_applications(
    bootstrap: str, group: str, source: str, sink: str, partitions: int
) -> tuple[int, list[str]]:
    """The number of records that the group has processed, and those not exactly once."""
    library: Any = import_module("confluent_kafka")
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "log_level": 0,
    }
    reader = library.Consumer(settings)
    asked = [library.TopicPartition(source, number) for number in range(partitions)]
    found = reader.committed(asked, timeout=PATIENCE_S)
    ends = {one.partition: max(0, one.offset) for one in found}
    reader.assign([library.TopicPartition(sink, number, 0) for number in range(partitions)])
    made, left = Counter[tuple[int, int]](), partitions
    while left:
        message = reader.poll(PATIENCE_S)
        if message is None:
            raise TimeoutError(f"{sink} is not readable to its end within {PATIENCE_S:.0f} s")
        if message.error() is not None:
            left -= message.error().code() == library.KafkaError._PARTITION_EOF
        elif seen := VALUE.fullmatch(message.value()):
            made[int(seen[1]), int(seen[2])] += 1
    reader.close()
    return sum(ends.values()), differences(ends, made)


def differences(ends: Mapping[int, int], made: Mapping[tuple[int, int], int]) -> list[str]:
    """The records not exactly once: `ends` are the committed offsets, `made` counts the outputs."""
    wrong = [
        f"record {offset} of partition {partition} has {many} committed outputs, and the group has "
        f"committed {end}"
        for partition, end in sorted(ends.items())
        for offset in range(end)
        if (many := made.get((partition, offset), 0)) != 1
    ]
    beyond = [
        f"record {offset} of partition {partition} has a committed output, and the group has "
        f"committed {ends.get(partition, 0)}"
        for partition, offset in sorted(made)
        if offset >= ends.get(partition, 0)
    ]
    return wrong + beyond
