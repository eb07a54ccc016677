"""`highwater consume`: print the records of a topic, and record the reading where it shall be."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import click
import orjson

from refimpl.edge.commands.connection import (
    AskedCluster,
    CommandRefused,
    asks_a_cluster,
    library,
    refused,
)
from refimpl.outputs import FileToWrite, FolderToWrite

ISOLATIONS = ("read_uncommitted", "read_committed")
POLL_MS = 200


@click.command("consume", short_help="Print the records of a topic of any Kafka; --record a trace.")
@asks_a_cluster
@click.option("--topic", required=True, metavar="TOPIC", help="What to read.")
@click.option("--partition", type=click.IntRange(0), help="This one alone, without a group.")
@click.option("--group", metavar="GROUP", help="Read as a member of a group, and commit.")
@click.option("--from-beginning", is_flag=True, help="Begin with what the log holds.")
@click.option("--max-messages", type=click.IntRange(1), help="Stop after so many records.")
@click.option("--until-end", is_flag=True, help="Stop where the logs ended when it began.")
@click.option(
    "--isolation-level", type=click.Choice(ISOLATIONS), default=ISOLATIONS[0], show_default=True
)
@click.option(
    "--record", type=FolderToWrite(), metavar="RUN", help="Record the client, for `check`."
)
@click.option(
    "--json",
    "json_file",
    type=FileToWrite(),
    metavar="FILE",
    help="Write each record to FILE, as a line of JSON.",
)
def consume(
    target: AskedCluster,
    topic: str,
    partition: int | None,
    group: str | None,
    record: Path | None,
    json_file: Path | None,
    **options: Any,
) -> None:
    """Print the value of each record, one a line, until it is interrupted, or as told.

    With --record, the folder RUN holds a trace of what this consumer saw; `highwater record-scan`
    ends it, and `highwater check` judges it. Exit codes: 0, or 2 where the cluster does not answer,
    refuses, or has no such topic.
    """
    if group is not None and (partition is not None or options["until_end"]):
        raise click.UsageError("--group goes without --partition and --until-end")
    with target.client() as admin:
        (found,) = admin.describe_topics([topic])
    if found["error_code"]:
        raise refused(f"topic {topic}", found["error_code"])
    every = sorted(one["partition_index"] for one in found["partitions"])
    if partition is not None and partition not in every:
        raise CommandRefused(f"topic {topic} has no partition {partition}")
    numbers = every if partition is None else [partition]
    settings = {
        "group_id": group,
        "auto_offset_reset": "earliest" if options["from_beginning"] else "latest",
        "enable_auto_commit": group is not None,
        "isolation_level": options["isolation_level"],
    }
    with (
        target.client("KafkaConsumer", **settings) as consumer,
        recording(consumer, record) as client,
        _lines(json_file) as lines,
    ):
        for one in _records(client, topic, numbers, group, options):
            click.echo(b"" if one.value is None else one.value)
            if lines is not None:
                lines.write(orjson.dumps(_told(one), option=orjson.OPT_APPEND_NEWLINE))


@contextmanager
def recording(client: Any, run: Path | None) -> Generator[Any]:
    """The client, recorded where a run is named; what is left is written at the end."""
    if run is None:
        yield client
        return
    # By name: traces stand beside this room, and not below it.
    recorded = import_module("traces.record").recorded(client, run)
    try:
        yield recorded
    finally:
        recorded.close()


@contextmanager
def _lines(file: Path | None) -> Generator[BinaryIO | None]:
    if file is None:
        yield None
        return
    with file.open("wb") as lines:
        yield lines


def _records(
    client: Any, topic: str, numbers: list[int], group: str | None, options: dict[str, Any]
) -> Iterator[Any]:
    """Records as they come, until the count or the ends that were asked for."""
    partitions = [library("kafka").TopicPartition(topic, number) for number in numbers]
    if group is not None:
        client.subscribe([topic])
    else:
        client.assign(partitions)
        for one in partitions:
            (client.seek_to_beginning if options["from_beginning"] else client.seek_to_end)(one)
    ends: dict[Any, int] = client.end_offsets(partitions) if options["until_end"] else {}
    left = options["max_messages"]
    while not ends or any(client.position(one) < end for one, end in ends.items()):
        for at, records in client.poll(timeout_ms=POLL_MS, max_records=left).items():
            wanted = [one for one in records if one.offset < ends.get(at, one.offset + 1)]
            yield from wanted
            left = None if left is None else left - len(wanted)
        if left == 0:
            return


def _told(one: Any) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "timestamp": one.timestamp,
        "headers": [[key, _text(value)] for key, value in one.headers],
        "key": _text(one.key),
        "value": _text(one.value),
    }


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")
