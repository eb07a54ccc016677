"""`highwater topics`: the topics of any Kafka, with the words and columns of kafka-topics.sh."""

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from refimpl.edge.commands.connection import (
    AskedCluster,
    CommandRefused,
    asks_a_cluster,
    library,
    pairs,
    refused,
)
from refimpl.edge.commands.consume import recording
from refimpl.outputs import FolderToWrite, json_option, write_json

CHANGES = ("create", "alter", "delete")
PARTITIONS_AT_ONCE = 2000
#: The partitions that one of the options asks for, by partition and min.insync.replicas
FILTERS: Mapping[str, Callable[[Any, int], bool]] = {
    "under_replicated": lambda one, _: len(one["isr_nodes"]) < len(one["replica_nodes"]),
    "unavailable": lambda one, _: one["leader_id"] < 0,
    "under_min_isr": lambda one, least: len(one["isr_nodes"]) < least,
    "at_min_isr": lambda one, least: len(one["isr_nodes"]) == least,
}


@click.command("topics", short_help="List, create, describe, alter and delete topics of any Kafka.")
@asks_a_cluster
@click.option("--list", "action", flag_value="list", help="Print the names of topics.")
@click.option("--create", "action", flag_value="create", help="Create a topic.")
@click.option("--describe", "action", flag_value="describe", help="Print partitions and replicas.")
@click.option("--alter", "action", flag_value="alter", help="Add partitions: --partitions.")
@click.option("--delete", "action", flag_value="delete", help="Delete topics.")
@click.option("--topic", metavar="TOPIC", help="A topic; elsewhere than in --create a pattern.")
@click.option("--partitions", type=click.IntRange(1), help="How many partitions.")
@click.option("--replication-factor", type=click.IntRange(1), help="How many replicas of each.")
@click.option("--replica-assignment", metavar="1:2,2:3", help="Brokers of each partition.")
@click.option("--config", multiple=True, callback=pairs, metavar="KEY=VALUE", help="A setting.")
@click.option("--if-exists", is_flag=True, help="A topic that is not there is no mistake.")
@click.option("--if-not-exists", is_flag=True, help="A topic that is there is no mistake.")
@click.option("--exclude-internal", is_flag=True, help="Without Kafka's own topics.")
@click.option(
    "--under-replicated-partitions", "under_replicated", is_flag=True, help="These alone."
)
@click.option("--unavailable-partitions", "unavailable", is_flag=True, help="These alone.")
@click.option("--under-min-isr-partitions", "under_min_isr", is_flag=True, help="These alone.")
@click.option("--at-min-isr-partitions", "at_min_isr", is_flag=True, help="These alone.")
@click.option(
    "--record", type=FolderToWrite(), metavar="RUN", help="Record what is changed, for `check`."
)
@json_option("What is printed")
def topics(
    target: AskedCluster,
    action: str | None,
    record: Path | None,
    json_file: Path | None,
    **options: Any,
) -> None:
    """List, create, describe, alter and delete topics, as kafka-topics.sh does.

    With --record, a line of the trace in the folder RUN tells each topic that is created, deleted,
    or given more partitions. Exit codes: 0, or 2 where the cluster does not answer, refuses, or has
    no such topic.
    """
    if action is None:
        raise click.UsageError("say --list, --create, --describe, --alter or --delete")
    if action in CHANGES and not options["topic"]:
        raise click.UsageError(f"--{action} needs --topic")
    if action == "alter" and options["partitions"] is None:
        raise click.UsageError("--alter needs --partitions; settings are altered by `configs`")
    if action != "describe" and any(options[name] for name in FILTERS):
        raise click.UsageError("the options …-partitions go with --describe")
    if record and action not in CHANGES:
        raise click.UsageError("--record goes with --create, --alter or --delete")
    with target.client() as asking, recording(asking, record) as admin:
        write_json(json_file, DO[action](admin, options))


def matching(admin: Any, options: Mapping[str, Any]) -> list[str]:
    """The topics that are asked for, by name; refused where a topic is named and none matches."""
    found = sorted((one["name"], one["is_internal"]) for one in admin.describe_topics())
    names = [name for name, internal in found if not (internal and options["exclude_internal"])]
    wanted = options["topic"]
    if wanted is None:
        return names
    try:
        pattern = re.compile(wanted.replace(",", "|"))
    except re.error as wrong:
        raise CommandRefused(f"--topic {wanted}: no pattern: {wrong}") from None
    names = [name for name in names if pattern.fullmatch(name)]
    if not names and not options["if_exists"]:
        raise CommandRefused(f"the cluster has no topic {wanted}")
    return names


def _list(admin: Any, options: Mapping[str, Any]) -> list[str]:
    names = matching(admin, {**options, "if_exists": True})
    for name in names:
        click.echo(name)
    return names


def _create(admin: Any, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    name, assigned = options["topic"], _assignment(options["replica_assignment"])
    if assigned and (options["partitions"] or options["replication_factor"]):
        raise click.UsageError("--replica-assignment tells the partitions and replicas already")
    topic = {
        "num_partitions": options["partitions"] or -1,
        "replication_factor": options["replication_factor"] or -1,
        "assignments": assigned,
        "configs": options["config"],
    }
    (answer,) = admin.create_topics({name: topic}, raise_errors=False)["topics"]
    exists = library("kafka.errors").TopicAlreadyExistsError.errno
    if answer["error_code"] == exists and options["if_not_exists"]:
        return []
    if answer["error_code"]:
        raise refused(f"topic {name}", answer["error_code"], answer["error_message"])
    click.echo(f"Created topic {name}.")
    made = {"topic": name, "topic_id": _id(answer["topic_id"])}
    made |= {key: answer[key] for key in ("num_partitions", "replication_factor")}
    return [made]


def _assignment(text: str | None) -> dict[int, list[int]]:
    """Brokers by partition, of `1:2,2:3`."""
    if text is None:
        return {}
    if not re.fullmatch(r"\d+(:\d+)*(,\d+(:\d+)*)*", text):
        raise CommandRefused(f"--replica-assignment: expected such as 1:2,2:3, found {text!r}")
    return {at: [int(b) for b in one.split(":")] for at, one in enumerate(text.split(","))}


def _alter(admin: Any, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = matching(admin, options)
    if not names:
        return []
    wanted = dict.fromkeys(names, options["partitions"])
    for one in admin.create_partitions(wanted, raise_errors=False).results:
        if one.error_code:
            raise refused(f"topic {one.name}", one.error_code, one.error_message)
    return [{"topic": name, "num_partitions": options["partitions"]} for name in names]


def _delete(admin: Any, options: Mapping[str, Any]) -> list[str]:
    names = matching(admin, options)
    if not names:
        return []
    for one in admin.delete_topics(names, raise_errors=False)["topics"]:
        if one["error_code"]:
            raise refused(f"topic {one['name']}", one["error_code"], one.get("error_message"))
    return names


def _describe(admin: Any, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = matching(admin, options)
    moving: Any = admin.list_partition_reassignments() if names else {}
    configs = _configs(admin, names)
    filters = [is_so for name, is_so in FILTERS.items() if options[name]]
    described: list[dict[str, Any]] = []
    for topic in _partitions(admin, names):
        if topic["error_code"]:
            raise refused(f"topic {topic['name']}", topic["error_code"])
        every = {key: one["value"] for key, one in configs[topic["name"]].items()}
        least = int(every.get("min.insync.replicas") or 1)
        found = {
            "topic": topic["name"],
            "topic_id": _id(topic["topic_id"]),
            "partition_count": len(topic["partitions"]),
            "replication_factor": len(topic["partitions"][0]["replica_nodes"]),
            "configs": {
                key: one["value"]
                for key, one in configs[topic["name"]].items()
                if one["config_source"] != "DEFAULT_CONFIG"
            },
            "partitions": [
                _partition(one, moving.get((topic["name"], one["partition_index"])))
                for one in sorted(topic["partitions"], key=lambda one: one["partition_index"])
                if not filters or any(is_so(one, least) for is_so in filters)
            ],
        }
        _print(found, with_head=not filters)
        described.append(found)
    return described


def _configs(admin: Any, names: list[str]) -> dict[str, Any]:
    kinds = library("kafka.admin")
    asked = [kinds.ConfigResource(kinds.ConfigResourceType.TOPIC, name) for name in names]
    return admin.describe_configs(asked, config_filter="all")["topic"] if asked else {}


def _partitions(admin: Any, names: list[str]) -> Iterator[dict[str, Any]]:
    """Topics with their partitions, and with eligible leaders where the cluster tells them."""
    if not names:
        return
    found: dict[str, dict[str, Any]] = {}
    cursor = None
    try:
        while True:
            answer = admin.describe_topic_partitions(names, PARTITIONS_AT_ONCE, cursor)
            for topic in answer["topics"]:
                into = found.setdefault(topic["name"], {**topic, "partitions": []})
                into["partitions"] += topic["partitions"]
            cursor = answer["next_cursor"]
            if cursor is None:
                break
    except library("kafka.errors").IncompatibleBrokerVersion:
        found = {topic["name"]: topic for topic in admin.describe_topics(names)}
    yield from (found[name] for name in sorted(found))


def _partition(one: Mapping[str, Any], moving: Mapping[str, Any] | None) -> dict[str, Any]:
    tells_eligible = "eligible_leader_replicas" in one
    found: dict[str, Any] = {
        "partition": one["partition_index"],
        "leader": one["leader_id"] if one["leader_id"] >= 0 else None,
        "replicas": list(one["replica_nodes"]),
        "isr": list(one["isr_nodes"]),
        "elr": (one["eligible_leader_replicas"] or []) if tells_eligible else None,
        "last_known_elr": (one["last_known_elr"] or []) if tells_eligible else None,
    }
    if moving:
        found["adding_replicas"] = moving["adding_replicas"]
        found["removing_replicas"] = moving["removing_replicas"]
    return found


def _print(topic: Mapping[str, Any], with_head: bool) -> None:
    if with_head:
        settings = ",".join(f"{key}={value}" for key, value in topic["configs"].items())
        click.echo(
            f"Topic: {topic['topic']}\tTopicId: {topic['topic_id']}"
            f"\tPartitionCount: {topic['partition_count']}"
            f"\tReplicationFactor: {topic['replication_factor']}\tConfigs: {settings}"
        )
    for one in topic["partitions"]:
        leader = "none" if one["leader"] is None else one["leader"]
        cells = [
            f"\tTopic: {topic['topic']}",
            f"Partition: {one['partition']}",
            f"Leader: {leader}",
        ]
        cells += [f"Replicas: {_ids(one['replicas'])}", f"Isr: {_ids(one['isr'])}"]
        if "adding_replicas" in one:
            cells.append(f"Adding Replicas: {_ids(one['adding_replicas'])}")
            cells.append(f"Removing Replicas: {_ids(one['removing_replicas'])}")
        cells += [f"Elr: {_ids(one['elr'])}", f"LastKnownElr: {_ids(one['last_known_elr'])}"]
        click.echo("\t".join(cells))


def _ids(brokers: list[int] | None) -> str:
    return "N/A" if brokers is None else ",".join(map(str, brokers))


def _id(topic_id: Any) -> str | None:
    """Kafka's spelling of an id."""
    if topic_id is None:
        return None
    return urlsafe_b64encode(UUID(str(topic_id)).bytes).rstrip(b"=").decode()


DO: Mapping[str, Any] = {
    "list": _list,
    "create": _create,
    "describe": _describe,
    "alter": _alter,
    "delete": _delete,
}
