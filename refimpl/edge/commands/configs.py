"""`highwater configs`: settings of topics, brokers and groups of any Kafka, as kafka-configs.sh
has them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from refimpl.edge.commands.connection import AskedCluster, CommandRefused, asks_a_cluster, library
from refimpl.edge.server.properties import PropertiesError, properties_of
from refimpl.outputs import json_option, write_json

#: The source of what somebody has set, by the kind of what it was set for
SET = {
    "topics": "DYNAMIC_TOPIC_CONFIG",
    "brokers": "DYNAMIC_BROKER_CONFIG",
    "groups": "DYNAMIC_GROUP_CONFIG",
}
SET_FOR_ALL = "DYNAMIC_DEFAULT_BROKER_CONFIG"
ALL_BROKERS = ""
"""The name of what is set for all brokers of a cluster."""
#: A comma outside of brackets
COMMA = re.compile(r",(?![^\[]*\])")


class AllBrokers(str):
    """The name of what is set for all brokers, with the number of the broker that is asked."""

    def __new__(cls, broker: int) -> "AllBrokers":
        """An empty name."""
        made = super().__new__(cls, ALL_BROKERS)
        made.broker = broker
        return made

    broker: int

    def __int__(self) -> int:
        """kafka-python asks that broker."""
        return self.broker


@click.command("configs", short_help="Describe and alter settings of topics, brokers, groups.")
@asks_a_cluster
@click.option("--describe", "action", flag_value="describe", help="Print settings.")
@click.option("--alter", "action", flag_value="alter", help="Set and delete settings.")
@click.option("--entity-type", "kind", type=click.Choice(list(SET)), help="Whose settings.")
@click.option("--entity-name", "name", metavar="NAME", help="A topic, a broker's id, a group.")
@click.option("--entity-default", "default", is_flag=True, help="With brokers: all of them.")
@click.option("--topic", metavar="TOPIC", help="For --entity-type topics --entity-name TOPIC.")
@click.option("--broker", metavar="ID", help="For --entity-type brokers --entity-name ID.")
@click.option("--broker-defaults", is_flag=True, help="For brokers with --entity-default.")
@click.option("--group", metavar="GROUP", help="For --entity-type groups --entity-name GROUP.")
@click.option("--all", "every", is_flag=True, help="Those that nobody has set as well.")
@click.option("--add-config", "added", metavar="K=V,K=[A,B]", help="Settings to set.")
@click.option(
    "--add-config-file",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Settings to set, as lines.",
)
@click.option("--delete-config", "deleted", metavar="K,K", help="Settings to delete.")
@json_option("What is described")
def configs(
    target: AskedCluster, action: str | None, json_file: Path | None, **options: Any
) -> None:
    """Describe and alter settings: those that somebody has set, or --all, with their sources.

    Exit codes: 0, or 2 where the cluster does not answer, refuses, or has no such topic.
    """
    if action is None:
        raise click.UsageError("say --describe or --alter")
    kind, name = _entity(options)
    if kind == "brokers" and name and not name.isdecimal():
        raise CommandRefused(f"broker {name}: expected the id of a broker")
    changes: dict[str, str | None] = {}
    if action == "alter":
        changes = _changes(options)
        if name is None:
            raise click.UsageError("--alter needs --entity-name or --entity-default")
    with target.client() as admin:
        if action == "alter":
            assert name is not None
            _alter(admin, kind, name, changes)
        names = _names(admin, kind, name)
        if action == "describe":
            found = [_describe(admin, kind, one, options["every"]) for one in names]
            write_json(json_file, found)


def _entity(options: Mapping[str, Any]) -> tuple[str, str | None]:
    """The kind and the name of what is meant; None for all of that kind."""
    short = {"topics": options["topic"], "brokers": options["broker"], "groups": options["group"]}
    short |= {"brokers": ALL_BROKERS} if options["broker_defaults"] else {}
    said = {kind: name for kind, name in short.items() if name is not None}
    kind, name = options["kind"], options["name"]
    if len(said) + (kind is not None) != 1:
        raise click.UsageError("say one of --entity-type, --topic, --broker, --group")
    if kind is None:
        return next(iter(said.items()))
    if options["default"] and (kind != "brokers" or name is not None):
        raise click.UsageError("--entity-default goes with --entity-type brokers, without a name")
    return kind, ALL_BROKERS if options["default"] else name


def _changes(options: Mapping[str, Any]) -> dict[str, str | None]:
    """Settings to set, and None for those to delete."""
    changes: dict[str, str | None] = {}
    if options["file"] is not None:
        try:
            changes |= properties_of(options["file"].read_text(), str(options["file"]))
        except (PropertiesError, UnicodeDecodeError) as mistake:
            raise CommandRefused(str(mistake)) from None
    for one in COMMA.split(options["added"] or ""):
        key, equals, value = one.partition("=")
        if one and not (key.strip() and equals):
            raise CommandRefused(f"--add-config: expected KEY=VALUE, found {one!r}")
        if one:
            changes[key.strip()] = value.strip().removeprefix("[").removesuffix("]")
    for key in filter(None, (options["deleted"] or "").split(",")):
        if key.strip() in changes:
            raise CommandRefused(f"{key.strip()} is both added and deleted")
        changes[key.strip()] = None
    if not changes:
        raise click.UsageError("--alter needs --add-config, --add-config-file or --delete-config")
    return changes


def _names(admin: Any, kind: str, name: str | None) -> list[str]:
    """The entities whose settings are printed. CommandRefused: there is none of that name."""
    if kind == "groups":
        return [name] if name is not None else _groups(admin)
    if kind == "topics":
        known = sorted(one["name"] for one in admin.describe_topics())
    else:
        brokers = sorted(one["broker_id"] for one in admin.describe_cluster()["brokers"])
        known = [*map(str, brokers), ALL_BROKERS]
    if name is not None and name not in known:
        raise CommandRefused(f"the cluster has no {kind[:-1]} {name}")
    return known if name is None else [name]


def _groups(admin: Any) -> list[str]:
    kind = library("kafka.admin").ConfigResourceType.GROUP
    return sorted(admin.list_config_resources([kind]).get("group", []))


def _resource(admin: Any, kind: str, name: str, changes: Any = None) -> Any:
    kinds = library("kafka.admin")
    if kind == "brokers" and name == ALL_BROKERS:
        name = AllBrokers(min(one["broker_id"] for one in admin.describe_cluster()["brokers"]))
    return kinds.ConfigResource(kinds.ConfigResourceType[kind[:-1].upper()], name, changes)


def _settings(admin: Any, kind: str, name: str) -> dict[str, Any]:
    asked = [_resource(admin, kind, name)]
    found = admin.describe_configs(asked, include_synonyms=True, config_filter="all")
    return dict(sorted(found.get(kind[:-1], {}).get(name, {}).items()))


def _source(kind: str, name: str) -> str:
    return SET_FOR_ALL if kind == "brokers" and name == ALL_BROKERS else SET[kind]


def _describe(admin: Any, kind: str, name: str, every: bool) -> dict[str, Any]:
    settings, source = _settings(admin, kind, name), _source(kind, name)
    kept = {key: one for key, one in settings.items() if every or one["config_source"] == source}
    if name == ALL_BROKERS:
        click.echo(f"Default configs for {kind} in the cluster are:")
    else:
        click.echo(f"{'All' if every else 'Dynamic'} configs for {kind[:-1]} {name} are:")
    for key, one in kept.items():
        from_ = ", ".join(f"{s['source']}:{s['name']}={_value(s)}" for s in one["synonyms"])
        sensitive = str(one["is_sensitive"]).lower()
        click.echo(f"  {key}={_value(one)} sensitive={sensitive} synonyms={{{from_}}}")
    rows = [
        {
            "name": key,
            "value": one["value"],
            "source": one["config_source"],
            "sensitive": one["is_sensitive"],
            "synonyms": [dict(synonym) for synonym in one["synonyms"]],
        }
        for key, one in kept.items()
    ]
    return {"entity_type": kind, "entity_name": name, "configs": rows}


def _value(of: Mapping[str, Any]) -> str:
    """Kafka's tool prints null where a value is sensitive, or there is none."""
    return "null" if of["value"] is None else of["value"]


def _alter(admin: Any, kind: str, name: str, changes: Mapping[str, str | None]) -> None:
    """Set and delete; refused where a setting that is to be deleted is not set."""
    _names(admin, kind, name)
    settings, source = _settings(admin, kind, name), _source(kind, name)
    have = {key for key, one in settings.items() if one["config_source"] == source}
    if missing := [key for key, value in changes.items() if value is None and key not in have]:
        raise CommandRefused(
            f"Invalid config(s): {','.join(missing)}: not set for {_called(kind, name)}"
        )
    asked = {key: ("DELETE", None) if value is None else value for key, value in changes.items()}
    resource = _resource(admin, kind, name, asked)
    answers = admin.alter_configs([resource], raise_on_unknown=False, incremental=True)
    answer = answers[kind[:-1]][name]
    if answer != "OK":
        raise CommandRefused(f"{_called(kind, name)}: {answer}")
    if name == ALL_BROKERS:
        click.echo(f"Completed updating default config for {kind} in the cluster.")
    else:
        click.echo(f"Completed updating config for {kind[:-1]} {name}.")


def _called(kind: str, name: str) -> str:
    return f"{kind[:-1]} {name}" if name else f"all {kind}"
