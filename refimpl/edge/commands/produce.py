"""`highwater produce`: write a record for each line, and record the writing where it shall be."""

import sys
from pathlib import Path
from typing import Any

import click

from refimpl.edge.commands.connection import (
    AskedCluster,
    CommandRefused,
    asks_a_cluster,
    library,
    said,
)
from refimpl.edge.commands.consume import recording
from refimpl.outputs import FolderToWrite, json_option, write_json


@click.command("produce", short_help="Write lines to a topic of any Kafka; --record a trace.")
@asks_a_cluster
@click.option("--topic", required=True, metavar="TOPIC", help="Where to write.")
@click.option("--partition", type=click.IntRange(0), help="This one alone.")
@click.option("--key-separator", metavar="TEXT", help="A line is a key, this, and a value.")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option(
    "--record", type=FolderToWrite(), metavar="RUN", help="Record the client, for `check`."
)
@json_option("Where each record was written")
def produce(
    target: AskedCluster,
    topic: str,
    partition: int | None,
    key_separator: str | None,
    acks: str,
    record: Path | None,
    json_file: Path | None,
) -> None:
    """Write each line of the standard input as a record, and wait for all to be acknowledged.

    Exit codes: 0, or 2 where the cluster does not answer, or does not acknowledge a record.
    """
    lines = sys.stdin.buffer.read().splitlines()
    separator = None if key_separator is None else key_separator.encode()
    messages = [_message(at, line, separator) for at, line in enumerate(lines, 1)]
    with target.client():
        pass  # who does not answer is said at once
    acked: Any = acks if acks == "all" else int(acks)
    with (
        target.client("KafkaProducer", acks=acked, enable_idempotence=acks == "all") as producer,
        recording(producer, record) as client,
    ):
        sent = [client.send(topic, value, key, partition=partition) for key, value in messages]
        client.flush(target.timeout_s)
        written = [_written(at, one, target.timeout_s) for at, one in enumerate(sent, 1)]
    write_json(json_file, written)


def _message(at: int, line: bytes, separator: bytes | None) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator)
    if not found:
        raise CommandRefused(f"line {at}: expected a key, {separator.decode()!r} and a value")
    return key, value


def _written(at: int, future: Any, timeout_s: float) -> dict[str, Any]:
    try:
        one = future.get(timeout_s)
    except library("kafka.errors").KafkaError as wrong:
        raise CommandRefused(f"line {at}: not acknowledged: {said(wrong)}") from None
    return {"topic": one.topic, "partition": one.partition, "offset": one.offset}
