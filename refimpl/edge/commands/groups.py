"""`highwater groups`: what the groups of any Kafka have read, and who reads it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from refimpl.edge.commands import resets
from refimpl.edge.commands.connection import AskedCluster, asks_a_cluster
from refimpl.edge.commands.consume import recording
from refimpl.edge.commands.group_admin import SHARE, GroupAdmin, GroupRow, Listed, ShareRow
from refimpl.edge.commands.group_describe import Partition
from refimpl.edge.commands.rows import Table, show, show_all
from refimpl.outputs import FolderToWrite, json_option

MEMBERS = ("group", "consumer_id", "host", "client_id", "partitions", "assignment")
STATE = ("group", "coordinator", "assignment_strategy", "state", "members")
CHANGES = "--reset-offsets --execute, --delete-offsets or --delete"
ACTIONS = "--list, --describe, --reset-offsets, --delete-offsets or --delete"


@click.command(
    "groups", short_help="Print the consumer groups of any Kafka: offsets, lag, readers."
)
@asks_a_cluster
@click.option("--list", "action", flag_value="list", help="Print all groups.")
@click.option("--describe", "action", flag_value="describe", help="Print offsets and readers.")
@click.option("--reset-offsets", "action", flag_value="reset", help="Say where groups go on.")
@click.option("--delete-offsets", "action", flag_value="forget", help="Delete offsets of topics.")
@click.option("--delete", "action", flag_value="delete", help="Delete groups without members.")
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="This group; repeatable.")
@click.option("--all-groups", is_flag=True, help="Every group; --describe has them unasked.")
@click.option("--members", is_flag=True, help="With --describe: a row for each member.")
@click.option("--state", is_flag=True, help="With --describe: a row for each group.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:0,1]", help="Of this topic.")
@click.option("--all-topics", is_flag=True, help="Of all topics that the group has committed.")
@click.option("--to-earliest", is_flag=True, help="Go on at the beginning.")
@click.option("--to-latest", is_flag=True, help="Go on at the end.")
@click.option("--to-current", is_flag=True, help="Go on where the group is.")
@click.option("--to-offset", type=click.IntRange(0), help="Go on at this offset.")
@click.option("--shift-by", type=int, help="Go on so many offsets later, or earlier.")
@click.option("--to-datetime", metavar="TIME", help="Go on at the first record since then, UTC.")
@click.option("--by-duration", metavar="PnDTnHnMnS", help="Go on at the first record since then.")
@click.option("--execute", is_flag=True, help="Reset; without it, it is only said what would be.")
@click.option("--dry-run", is_flag=True, help="Only say what would be, as without --execute.")
@click.option(
    "--record", type=FolderToWrite(), metavar="RUN", help="Record what is changed, for `check`."
)
@json_option("The rows")
def groups_(
    target: AskedCluster,
    action: str | None,
    groups: tuple[str, ...],
    record: Path | None,
    json_file: Path | None,
    **options: Any,
) -> None:
    """Print, reset and delete what consumer groups have committed; print who reads.

    CURRENT-OFFSET is the next offset that the group will read, LOG-END-OFFSET where the log ends,
    LAG the difference. A partition that nobody reads now has no CONSUMER-ID, a member without
    partitions no TOPIC. Share groups have a table of their own: START-OFFSET is the first record
    that is not done with, LAG how many are not. They are never changed here. With --record, a line
    of the trace in the folder RUN tells each group that is deleted or reset. Exit codes: 0, or 2
    where the cluster does not answer, refuses, or has no such group.
    """
    _consistent(action, groups, options)
    if record and not (
        action in ("forget", "delete") or (action == "reset" and options["execute"])
    ):
        raise click.UsageError(f"--record goes with {CHANGES}")
    with target.client() as asking, recording(asking, record) as client:
        admin = GroupAdmin(client, target.timeout_s)
        if action == "list":
            show(Listed._fields, admin.groups(), json_file)
            return
        names = groups or tuple(_every(admin, str(action)))
        show_all(DO[str(action)](admin, names, options), json_file)


def _consistent(action: str | None, groups: tuple[str, ...], options: dict[str, Any]) -> None:
    """Options that do not go together are refused before anything is asked."""
    if action is None:
        raise click.UsageError(f"say {ACTIONS}")
    if action == "list" and groups:
        raise click.UsageError("--group does not go with --list")
    if groups and options["all_groups"]:
        raise click.UsageError("say --group or --all-groups")
    if action in ("reset", "forget", "delete") and not (groups or options["all_groups"]):
        raise click.UsageError("say --group or --all-groups")
    if (options["members"] or options["state"]) and action != "describe":
        raise click.UsageError("--members and --state go with --describe")
    if options["members"] and options["state"]:
        raise click.UsageError("say --members or --state")
    if action in ("reset", "forget") and bool(options["topics"]) == options["all_topics"]:
        raise click.UsageError("say --topic or --all-topics")
    chosen = [name for name in resets.SCENARIOS if options[name] not in (None, False)]
    if (action == "reset") != (len(chosen) == 1) and (action == "reset" or chosen):
        raise click.UsageError(f"--reset-offsets takes one of {_options(resets.SCENARIOS)}")
    if options["execute"] and (options["dry_run"] or action != "reset"):
        raise click.UsageError("--execute goes with --reset-offsets, without --dry-run")


def _every(admin: GroupAdmin, action: str) -> Iterator[str]:
    """All groups that an action is meant for: share groups are described, and never changed."""
    for one in admin.groups():
        if action == "describe" or one.type.lower() != SHARE:
            yield one.group


def _options(names: Sequence[str]) -> str:
    return ", ".join("--" + name.replace("_", "-") for name in names)


def _describe(admin: GroupAdmin, names: Sequence[str], options: dict[str, Any]) -> Sequence[Table]:
    found = [(name, admin.state(name)) for name in names]
    if options["state"]:
        rows = [
            (name, admin.address(one.coordinator), one.assignor, one.state, len(one.members))
            for name, one in found
        ]
        return [(STATE, rows)]
    if options["members"]:
        rows = [
            (name, one.consumer_id, one.host, one.client_id, len(owned), _assignment(owned))
            for name, group in found
            for one in sorted(group.members, key=lambda one: one.consumer_id)
            for owned in [one.partitions]
        ]
        return [(MEMBERS, rows)]
    shared = [
        row
        for name, one in found
        if one.is_share
        for row in admin.describe_share(name, one.members)
    ]
    read = [
        row for name, one in found if not one.is_share for row in admin.describe(name, one.members)
    ]
    tables: list[Table] = [(GroupRow._fields, read), (ShareRow._fields, shared)]
    return [one for one in tables if one[1]] or tables[:1]


def _assignment(partitions: Iterable[Partition]) -> str | None:
    """Partitions in the form of --topic, as in Kafka's tools: `orders:0,1;payments:0`."""
    topics: dict[str, list[str]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(str(number))
    return ";".join(f"{topic}:{','.join(each)}" for topic, each in topics.items()) or None


def _reset(admin: GroupAdmin, names: Sequence[str], options: dict[str, Any]) -> Sequence[Table]:
    rows: list[tuple[Any, ...]] = []
    for name in names:
        admin.idle(name, "reset")
        offsets = resets.new_offsets(admin, name, options)
        if options["execute"] and offsets:
            admin.commit(name, offsets)
        rows += [(name, *one, offset) for one, offset in sorted(offsets.items())]
    if not options["execute"]:
        click.echo("Nothing was reset: --execute does it.", err=True)
    return [(resets.COLUMNS, rows)]


def _forget(admin: GroupAdmin, names: Sequence[str], options: dict[str, Any]) -> Sequence[Table]:
    rows: list[tuple[Any, ...]] = []
    for name in names:
        admin.state_to_change(name, "changed")
        gone = resets.of_topics(admin, name, options)
        if gone:
            admin.forget(name, gone)
        rows += [(name, *one) for one in sorted(gone)]
    return [(("group", "topic", "partition"), rows)]


def _delete(admin: GroupAdmin, names: Sequence[str], options: dict[str, Any]) -> Sequence[Table]:
    for name in names:
        admin.state(name)
        admin.delete(name)
    return [(("group",), [(name,) for name in names])]


DO: dict[str, Callable[[GroupAdmin, Sequence[str], dict[str, Any]], Sequence[Table]]] = {
    "describe": _describe,
    "reset": _reset,
    "forget": _forget,
    "delete": _delete,
}
