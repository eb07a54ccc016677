"""`highwater elect`: elections of leaders in any Kafka, as kafka-leader-election.sh has them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from refimpl.edge.commands.assignments import Partition, named, read_partitions
from refimpl.edge.commands.connection import (
    AskedCluster,
    CommandRefused,
    asks_a_cluster,
    library,
    refused,
)
from refimpl.outputs import json_option, write_json

TYPES: Mapping[str, int] = {"PREFERRED": 0, "UNCLEAN": 1}


@click.command("elect", short_help="Elect leaders in any Kafka: preferred ones, or unclean.")
@asks_a_cluster
@click.option(
    "--election-type",
    "kind",
    type=click.Choice(list(TYPES), case_sensitive=False),
    required=True,
    help="The first replica, or any that is alive where none in sync is: that loses records.",
)
@click.option("--topic", metavar="TOPIC", help="With --partition: one partition.")
@click.option("--partition", type=click.IntRange(0), help="Its number.")
@click.option("--all-topic-partitions", "every", is_flag=True, help="All of the cluster.")
@click.option(
    "--path-to-json-file",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help='{"partitions": [{"topic": "orders", "partition": 0}]}',
)
@json_option("What was elected")
def elect(
    target: AskedCluster,
    kind: str,
    topic: str | None,
    partition: int | None,
    every: bool,
    file: Path | None,
    json_file: Path | None,
) -> None:
    """Let the controller elect leaders.

    Exit codes: 0, or 2 where a partition's election is refused or the cluster does not answer.
    """
    if (topic is None) != (partition is None):
        raise click.UsageError("--topic and --partition go together")
    if sum((topic is not None, every, file is not None)) != 1:
        raise click.UsageError(
            "say one of --topic with --partition, --all-topic-partitions or --path-to-json-file"
        )
    wanted: list[Partition] | None = None
    if topic is not None and partition is not None:
        wanted = [(topic, partition)]
    elif file is not None:
        wanted = [one for one, _ in read_partitions(file)]
    with target.client() as admin:
        answers = _answers(admin, kind, wanted)
    not_needed = library("kafka.errors").ElectionNotNeededError.errno
    elected = [one for one, (code, _) in answers.items() if not code]
    as_it_was = [one for one, (code, _) in answers.items() if code == not_needed and not every]
    if elected:
        _tell(f"Successfully completed leader election ({kind}) for partitions", elected)
    if as_it_was:
        _tell("Valid replica already elected for partitions", as_it_was)
    rows = [{"topic": t, "partition": n, "election_type": kind} for t, n in elected]
    write_json(json_file, rows)
    for one, (code, message) in answers.items():
        if code not in (0, not_needed):
            raise refused(f"partition {named(one)}", code, message)


def _answers(
    admin: Any, kind: str, wanted: list[Partition] | None
) -> dict[Partition, tuple[int, str | None]]:
    """The error of each partition, with its message; without `wanted`, of the whole cluster."""
    by_topic: dict[str, list[int]] | None = None
    if wanted is not None:
        by_topic = {}
        for topic, number in wanted:
            by_topic.setdefault(topic, []).append(number)
    answer = admin.elect_leaders(TYPES[kind], by_topic, raise_errors=False)
    if getattr(answer, "error_code", 0):
        raise refused("the election", answer.error_code)
    found = {
        (topic.topic, one.partition_id): (one.error_code, one.error_message)
        for topic in answer.replica_election_results
        for one in topic.partition_result
    }
    if wanted and (silent := sorted(set(wanted) - found.keys())):
        raise CommandRefused(f"no answer about {', '.join(map(named, silent))}")
    return dict(sorted(found.items()))


def _tell(what: str, partitions: Iterable[Partition]) -> None:
    click.echo(f"{what} {', '.join(map(named, partitions))}")
