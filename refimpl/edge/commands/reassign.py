"""`highwater reassign`: other replicas for partitions of any Kafka, as with
kafka-reassign-partitions.sh."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import click

from refimpl.controller.errors import ApiError
from refimpl.controller.placement import UsableBroker, Wanted, shifted
from refimpl.edge.commands.assignments import (
    Partition,
    named,
    read_replicas,
    read_topics,
    written,
)
from refimpl.edge.commands.connection import (
    AskedCluster,
    CommandRefused,
    asks_a_cluster,
    library,
    refused,
    said,
)
from refimpl.outputs import json_option, write_json

FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
#: The options that an action needs
NEEDS: Mapping[str, tuple[str, ...]] = {
    "generate": ("topics_to_move_json_file", "broker_list"),
    "execute": ("reassignment_json_file",),
    "verify": ("reassignment_json_file",),
    "cancel": ("reassignment_json_file",),
    "list": (),
}


@click.command("reassign", short_help="Move partitions of any Kafka to other brokers.")
@asks_a_cluster
@click.option("--generate", "action", flag_value="generate", help="Propose replicas.")
@click.option("--execute", "action", flag_value="execute", help="Begin to move.")
@click.option("--verify", "action", flag_value="verify", help="Say how far it is.")
@click.option("--cancel", "action", flag_value="cancel", help="Go back to where it began.")
@click.option("--list", "action", flag_value="list", help="Print what is being moved.")
@click.option("--reassignment-json-file", type=FILE, metavar="FILE", help="Partitions, replicas.")
@click.option("--topics-to-move-json-file", type=FILE, metavar="FILE", help="For --generate.")
@click.option("--broker-list", metavar="1,2,3", help="For --generate: the brokers to use.")
@click.option("--disable-rack-aware", is_flag=True, help="For --generate: forget the racks.")
@click.option("--additional", is_flag=True, help="Add to what is being moved already.")
@click.option("--preserve-throttles", is_flag=True, help="As Kafka's; here they always stay.")
@json_option("What is printed")
def reassign(
    target: AskedCluster, action: str | None, json_file: Path | None, **options: Any
) -> None:
    """Move partitions to other brokers, step by step: --generate, --execute, --verify.

    Exit codes: 0, or 2 where the cluster does not answer or refuses.
    """
    if action is None:
        raise click.UsageError(f"say {', '.join(f'--{one}' for one in NEEDS)}")
    for name in NEEDS[action]:
        if options[name] is None:
            raise click.UsageError(f"--{action} needs --{name.replace('_', '-')}")
    with target.client() as admin:
        write_json(json_file, DO[action](admin, options))


def _replicas(admin: Any, topics: Iterable[str]) -> dict[Partition, list[int]]:
    """The replicas of all partitions of topics; CommandRefused where a topic is not there."""
    found: dict[Partition, list[int]] = {}
    for topic in admin.describe_topics(sorted(set(topics))):
        if topic["error_code"]:
            raise refused(f"topic {topic['name']}", topic["error_code"])
        for one in topic["partitions"]:
            found[topic["name"], one["partition_index"]] = list(one["replica_nodes"])
    return found


def _moving(admin: Any) -> dict[Partition, Mapping[str, list[int]]]:
    return {tuple(one): of for one, of in sorted(admin.list_partition_reassignments().items())}


def _brokers(admin: Any) -> dict[int, str | None]:
    """The racks of the brokers that are up."""
    return {one["broker_id"]: one["rack"] for one in admin.describe_cluster()["brokers"]}


def _generate(admin: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    usable = _usable(admin, options["broker_list"], not options["disable_rack_aware"])
    current = _replicas(admin, read_topics(options["topics_to_move_json_file"]))
    proposed: dict[Partition, list[int]] = {}
    for topic in sorted({topic for topic, _ in current}):
        of_topic = sorted(one for one in current if one[0] == topic)
        wanted = Wanted(len(of_topic), len(current[of_topic[0]]))
        try:
            placed = shifted(usable, wanted, Random())
        except ApiError as error:
            raise CommandRefused(f"topic {topic}: {error.error}: {error.message}") from None
        proposed |= {one: list(ids) for one, ids in zip(of_topic, placed, strict=True)}
    click.echo(f"Current partition replica assignment\n{written(current)}\n")
    click.echo(f"Proposed partition reassignment configuration\n{written(proposed)}")
    return {"current": _rows(current), "proposed": _rows(proposed)}


def _usable(admin: Any, text: str, with_racks: bool) -> list[UsableBroker]:
    if not all(one.isdecimal() for one in text.split(",")):
        raise CommandRefused(f"--broker-list: expected such as 1,2,3, found {text!r}")
    ids, racks = [int(one) for one in text.split(",")], _brokers(admin)
    if len(set(ids)) < len(ids):
        raise CommandRefused(f"--broker-list: {text}: a broker is there twice")
    if unknown := sorted(set(ids) - racks.keys()):
        raise CommandRefused(f"--broker-list: Unknown broker id {unknown[0]}")
    if with_racks and 0 < sum(racks[one] is None for one in ids) < len(ids):
        raise CommandRefused("not all brokers have a rack: --disable-rack-aware forgets them")
    return [UsableBroker(one, racks[one] if with_racks else None) for one in sorted(ids)]


def _execute(admin: Any, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    wanted = read_replicas(options["reassignment_json_file"])
    if _moving(admin) and not options["additional"]:
        raise CommandRefused("there is an existing assignment running: --additional adds to it")
    if unknown := sorted({one for ids in wanted.values() for one in ids} - _brokers(admin).keys()):
        raise CommandRefused(f"Unknown broker id {unknown[0]}")
    current = _replicas(admin, (topic for topic, _ in wanted))
    if missing := sorted(wanted.keys() - current.keys()):
        raise CommandRefused(f"Unable to find partition: {', '.join(map(named, missing))}")
    before = {one: current[one] for one in wanted}
    click.echo(f"Current partition replica assignment\n\n{written(before)}\n")
    click.echo("Save this to use as the --reassignment-json-file option during rollback")
    _alter(admin, wanted)
    plural = "" if len(wanted) == 1 else "s"
    click.echo(f"Successfully started partition reassignment{plural} for {_all(wanted)}")
    return _rows(wanted)


def _cancel(admin: Any, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    wanted, moving = read_replicas(options["reassignment_json_file"]), _moving(admin)
    found = sorted(wanted.keys() & moving.keys())
    if found:
        _alter(admin, dict.fromkeys(found))
        plural = "" if len(found) == 1 else "s"
        click.echo(f"Successfully cancelled partition reassignment{plural} for: {_all(found)}")
    else:
        click.echo("None of the specified partition reassignments are active.")
    click.echo(
        "None of the specified partition moves are active."
    )  # between folders: not moved here
    return [{"topic": topic, "partition": number} for topic, number in found]


def _alter(admin: Any, wanted: Mapping[Partition, list[int] | None]) -> None:
    """Ask for the replicas, None for those of before; CommandRefused if one is refused."""
    kafka = library("kafka")
    asked = {kafka.TopicPartition(*one): ids for one, ids in wanted.items()}
    answers = admin.alter_partition_reassignments(asked)
    failed = {one: error for one, error in answers.items() if error is not None}
    if failed:
        why = "; ".join(f"{named(tuple(one))}: {said(error)}" for one, error in failed.items())
        raise CommandRefused(f"Error reassigning partition(s): {why}")


def _verify(admin: Any, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    wanted, moving = read_replicas(options["reassignment_json_file"]), _moving(admin)
    current = _replicas(admin, (topic for topic, _ in wanted))
    click.echo("Status of partition reassignment:")
    found: list[dict[str, Any]] = []
    for one in sorted(wanted):
        now, then = current.get(one, []), wanted[one]
        if one in moving:
            state, text = (
                "in progress",
                f"Reassignment of partition {named(one)} is still in progress.",
            )
        elif now == then:
            state, text = "completed", f"Reassignment of partition {named(one)} is completed."
        else:
            state = "not active"
            text = (
                f"There is no active reassignment of partition {named(one)}, "
                f"but replica set is {_ids(now)} rather than {_ids(then)}."
            )
        click.echo(text)
        found.append(
            {"topic": one[0], "partition": one[1], "state": state, "replicas": now, "target": then}
        )
    return found


def _list(admin: Any, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    moving = _moving(admin)
    click.echo(
        "Current partition reassignments:" if moving else "No partition reassignments found."
    )
    for one, of in moving.items():
        adding, removing = of["adding_replicas"], of["removing_replicas"]
        more = f" adding: {_ids(adding)}." if adding else ""
        more += f" removing: {_ids(removing)}." if removing else ""
        click.echo(f"{named(one)}: replicas: {_ids(of['replicas'])}.{more}")
    return [{"topic": topic, "partition": number, **of} for (topic, number), of in moving.items()]


def _rows(replicas: Mapping[Partition, list[int]]) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "partition": number, "replicas": ids}
        for (topic, number), ids in sorted(replicas.items())
    ]


def _all(partitions: Iterable[Partition]) -> str:
    return ",".join(map(named, sorted(partitions)))


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


DO: Mapping[str, Any] = {
    "generate": _generate,
    "execute": _execute,
    "verify": _verify,
    "cancel": _cancel,
    "list": _list,
}
