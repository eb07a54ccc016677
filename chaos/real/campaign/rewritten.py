"""Duplicates that a producer wrote itself: under another epoch, so that no broker can know them.

librdkafka's idempotent producer takes a new epoch after a time-out, or after an answer that is out
of order, and repeats in it what may be stored already (its issue 4953). The logs show it: copies of
one record are in batches of one producer id and of different epochs.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from refimpl.storage.format.batch import BatchHeader, batches

NAME = "librdkafka-epoch"
NO_PRODUCER = -1
SCAN = "scan-ru#0.ndjson"


def by_the_client(run: Path, cluster: Path) -> bool:
    """True if records of idempotent producers are stored twice, and each under other epochs."""
    found = 0
    logs: dict[str, list[BatchHeader]] = {}
    for partition, offsets in copies(run):
        if partition not in logs:
            logs[partition] = headers(cluster, partition.replace(":", "-"))
        several = [_of(logs[partition], offset) for offset in offsets]
        producers = {(one.producer_id if one else NO_PRODUCER) for one in several}
        if producers == {NO_PRODUCER}:
            continue  # a plain producer's
        epochs = {one.producer_epoch for one in several if one}
        if len(producers) > 1 or len(epochs) < len(several):
            return False
        found += 1
    return found > 0


def copies(run: Path) -> Iterator[tuple[str, list[int]]]:
    """The partition and the offsets of each record that the final scan has read twice or more."""
    offsets: dict[tuple[str, Any], list[int]] = {}
    for text in (run / SCAN).read_bytes().splitlines():
        line: Mapping[str, Any] = orjson.loads(text)
        for record in line.get("records", ()) if line["op"] == "scan" else ():
            name = f"{record['topic']}:{record['partition']}", record.get("id")
            offsets.setdefault(name, []).append(record["offset"])
    for (partition, id), several in offsets.items():
        if id is not None and len(several) > 1:
            yield partition, several


def headers(cluster: Path, folder: str) -> list[BatchHeader]:
    """The batches that any broker has in its log of a partition."""
    found: list[BatchHeader] = []
    for file in sorted(cluster.glob(f"**/{folder}/*.log")):
        found += [header for _, header in batches(file.read_bytes())]
    return found


def _of(several: list[BatchHeader], offset: int) -> BatchHeader | None:
    return next((one for one in several if one.base_offset <= offset <= one.last_offset), None)
