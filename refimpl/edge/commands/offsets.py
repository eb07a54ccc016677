"""`highwater offsets`: the offsets of partitions of any Kafka, as kafka-get-offsets.sh has them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import click

from refimpl.edge.commands.connection import (
    AskedCluster,
    CommandRefused,
    asks_a_cluster,
    library,
    said,
)
from refimpl.edge.commands.topics import matching
from refimpl.outputs import json_option, write_json

Partition: TypeAlias = tuple[str, int]
#: What --time may say in place of a time in ms, and Kafka's number for it
TIMES: Mapping[str, int] = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
}
RANGE = re.compile(r"(\d*)-(\d*)|(\d+)")
ALL = range(1 << 31)


@click.command("offsets", short_help="Print offsets of partitions of any Kafka, by time.")
@asks_a_cluster
@click.option("--topic", metavar="PATTERN", help="Topics whose name matches.")
@click.option("--partitions", metavar="0,2-5", help="These partitions of each topic alone.")
@click.option("--topic-partitions", metavar="T:0,U:1-3", help="These topics and partitions.")
@click.option(
    "--time", "when", default="latest", show_default=True, help=f"{', '.join(TIMES)}, or ms."
)
@click.option("--exclude-internal-topics", is_flag=True, help="Without Kafka's own topics.")
@json_option("What is printed")
def offsets(target: AskedCluster, when: str, json_file: Path | None, **options: Any) -> None:
    """Print TOPIC:PARTITION:OFFSET: an end, a beginning, or the first record since a time.

    A partition without such a record is left out. Exit codes: 0, or 2 where the cluster does not
    answer or no partition matches.
    """
    if options["topic_partitions"] and (options["topic"] or options["partitions"]):
        raise click.UsageError("--topic-partitions tells topics and partitions already")
    at = _time(when)
    with target.client() as admin:
        found: dict[Partition, int] = {}
        for one in _wanted(admin, options):
            offset = _offset(admin, one, at)
            if offset is not None:
                found[one] = offset
    for (topic, number), offset in found.items():
        click.echo(f"{topic}:{number}:{offset}")
    rows = [{"topic": t, "partition": n, "offset": offset} for (t, n), offset in found.items()]
    write_json(json_file, rows)


def _time(text: str) -> int:
    """A time in ms since 1970, or Kafka's number for an end of the log."""
    if text in TIMES:
        return TIMES[text]
    if not re.fullmatch(r"-?\d+", text) or int(text) < min(TIMES.values()):
        raise CommandRefused(f"--time: expected {', '.join(TIMES)} or a time in ms, found {text!r}")
    return int(text)


def _wanted(admin: Any, options: Mapping[str, Any]) -> list[Partition]:
    """The partitions that are asked for; CommandRefused if there is none."""
    rules = _rules(options)
    pattern = "|".join(f"(?:{topic or '.*'})" for topic, _ in rules)
    asked = {"topic": pattern, "if_exists": True}
    names = matching(admin, {**asked, "exclude_internal": options["exclude_internal_topics"]})
    described: Any = admin.describe_topics(names) if names else []
    found = sorted(
        (topic["name"], one["partition_index"])
        for topic in described
        for one in topic["partitions"]
        if any(
            re.fullmatch(of or ".*", topic["name"])
            and any(one["partition_index"] in numbers for numbers in chosen)
            for of, chosen in rules
        )
    )
    if not found:
        raise CommandRefused("the cluster has no such topic and partition")
    return found


def _rules(options: Mapping[str, Any]) -> list[tuple[str, list[range]]]:
    """Patterns of topics, each with ranges of partitions."""
    if options["topic_partitions"] is None:
        numbers = options["partitions"]
        topic = (options["topic"] or "").replace(",", "|")
        return [(topic, [_range(one) for one in numbers.split(",")] if numbers else [ALL])]
    rules: list[tuple[str, list[range]]] = []
    for one in options["topic_partitions"].split(","):
        topic, _, number = one.partition(":")
        rules.append((topic, [_range(number) if number else ALL]))
    return rules


def _range(text: str) -> range:
    """`3`, `2-5` (without 5, as Kafka's), `2-` or `-5`."""
    found = RANGE.fullmatch(text.strip())
    if found is None or text.strip() == "-":
        raise CommandRefused(f"expected partitions such as 0,2-5, found {text!r}")
    first, end, single = found.groups()
    if single is not None:
        return range(int(single), int(single) + 1)
    return range(int(first or 0), int(end) if end else ALL.stop)


def _offset(admin: Any, partition: Partition, at: int) -> int | None:
    """One partition's; None where there is no such record, or it has no leader."""
    asked = {library("kafka").TopicPartition(*partition): _spec(at)}
    try:
        (answer,) = admin.list_partition_offsets(asked, timeout_ms=1000).values()
    except library("kafka.errors").KafkaError as refused:
        name = f"{partition[0]}-{partition[1]}"
        click.echo(
            f"Skip getting offsets for topic-partition {name} due to: {said(refused)}", err=True
        )
        return None
    return answer.offset if answer.offset >= 0 else None


def _spec(at: int) -> Any:
    kinds = library("kafka.admin")
    return kinds.OffsetSpec(at) if at < 0 else kinds.OffsetTimestamp(at)
