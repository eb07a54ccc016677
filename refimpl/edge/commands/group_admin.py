"""The requests of `highwater groups` to a cluster, through kafka-python's AdminClient.

Works with any Kafka: members, committed offsets and log ends come from the cluster's own APIs.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from attrs import frozen

from refimpl.edge.commands.connection import CommandRefused, library, refused
from refimpl.edge.commands.group_describe import (
    DEAD,
    DescribedGroup,
    MemberRow,
    Partition,
    ShareStart,
    described,
    share_starts,
)

T = TypeVar("T")
SHARE = "share"
#: Types of groups whose members this verb can describe
KINDS = ("classic", "consumer", SHARE, "")
IDLE = ("Empty", DEAD)
AGAIN_S = 0.1
LEADERLESS_MS = 1000


class GroupRow(NamedTuple):
    """One partition of a group, or one member without any; None where nobody knows.

    `lag` is how many offsets the group's next one is behind the log's end.
    """

    group: str
    topic: str | None = None
    partition: int | None = None
    current_offset: int | None = None
    log_end_offset: int | None = None
    lag: int | None = None
    consumer_id: str | None = None
    host: str | None = None
    client_id: str | None = None


class ShareRow(NamedTuple):
    """One partition of a share group; None where nobody knows.

    `members` is the number of members that have the partition.
    """

    group: str
    topic: str
    partition: int
    start_offset: int | None
    lag: int | None
    members: int


class Listed(NamedTuple):
    """A group: its type (Classic, Consumer or Share) and its state, in Kafka's words."""

    group: str
    type: str
    state: str


@frozen
class GroupAdmin:
    """A connection to a cluster; a coordinator that is not there yet is waited for."""

    admin: Any
    timeout_s: float

    def groups(self) -> list[Listed]:
        """All groups of consumers and of share consumers, by name."""
        found: Any = self._patiently(self.admin.list_groups)
        return sorted(
            Listed(one["group_id"], one.get("group_type", "").title(), one.get("group_state", ""))
            for one in found
            if one["protocol_type"] in ("consumer", SHARE, "")
            and one.get("group_type", "").lower() in KINDS
        )

    def state(self, group: str) -> DescribedGroup:
        """A group and its members; CommandRefused where the cluster has none of that name."""
        found = self._found(group)
        if found.state == DEAD and not self.committed(group):
            raise CommandRefused(f"the cluster has no group {group}")
        return found

    def state_to_change(self, group: str, what: str) -> DescribedGroup:
        """The same; CommandRefused for a share group."""
        return _of_consumers(group, self.state(group), what)

    def address(self, broker: int) -> str:
        """A broker as Kafka's tool names it."""
        known = {one["broker_id"]: one for one in self.admin.describe_cluster()["brokers"]}
        one = known.get(broker)
        return f"{one['host']}:{one['port']} ({broker})" if one else f"({broker})"

    def describe(self, group: str, members: Iterable[MemberRow]) -> list[GroupRow]:
        """Each partition that the group has committed or is assigned, and members without one."""
        committed = self.committed(group)
        owners = {one: member for member in members for one in member.partitions}
        partitions = sorted({*committed, *owners})
        ends = self.offsets(partitions, "LATEST")
        rows = [
            _row(group, one, committed.get(one), ends.get(one), owners.get(one))
            for one in partitions
        ]
        return rows + [
            GroupRow(group, consumer_id=one.consumer_id, host=one.host, client_id=one.client_id)
            for one in sorted(members, key=lambda one: one.consumer_id)
            if not one.partitions
        ]

    def describe_share(self, group: str, members: Iterable[MemberRow]) -> list[ShareRow]:
        """Each partition of which a share group has a start, or that a member has."""
        starts: dict[Partition, ShareStart] = self._patiently(share_starts, self.admin, group)
        readers = Counter(one for member in members for one in member.partitions)
        found = ((one, starts.get(one, ShareStart())) for one in sorted({*starts, *readers}))
        return [ShareRow(group, *one, at.offset, at.lag, readers[one]) for one, at in found]

    def committed(self, group: str) -> dict[Partition, int]:
        """A group's offsets."""
        found: Any = self._patiently(self.admin.list_group_offsets, group)[group]
        return {tuple(one): of.offset for one, of in found.items() if of.offset >= 0}

    def offsets(self, partitions: Iterable[Partition], spec: str | int) -> dict[Partition, int]:
        """Offsets by `EARLIEST`, `LATEST` or a time in ms; none where there is no such record.

        A partition that is gone or has no leader has none.
        """
        asked = {library("kafka").TopicPartition(*one): _spec(spec) for one in partitions}
        errors = library("kafka.errors")
        try:
            return self._listed(asked)
        except errors.KafkaError:
            found: dict[Partition, int] = {}
            for one, of in asked.items():
                try:
                    found |= self._listed({one: of})
                except errors.KafkaError:
                    continue
            return found

    def partitions(self, topic: str) -> list[Partition]:
        """The partitions of a topic."""
        (found,) = self.admin.describe_topics([topic])
        if found["error_code"]:
            raise refused(f"topic {topic}", found["error_code"])
        return [
            (topic, number) for number in sorted(p["partition_index"] for p in found["partitions"])
        ]

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Set a group's offsets; CommandRefused unless each was taken."""
        kafka = library("kafka")
        wanted = {
            kafka.TopicPartition(*one): library("kafka.structs").OffsetAndMetadata(offset, "", -1)
            for one, offset in offsets.items()
        }
        _all_well(group, self._patiently(self.admin.alter_group_offsets, group, wanted))

    def forget(self, group: str, partitions: Iterable[Partition]) -> None:
        """Delete a group's offsets; CommandRefused unless each is gone."""
        asked = [library("kafka").TopicPartition(*one) for one in partitions]
        _all_well(group, self._patiently(self.admin.delete_group_offsets, group, asked))

    def delete(self, group: str) -> None:
        """Delete a group."""
        self.idle(group, "deleted")
        answer: Any = self._patiently(self.admin.delete_groups, [group])
        if answer[group] != "OK":
            raise CommandRefused(f"group {group}: {answer[group]}")

    def idle(self, group: str, what: str) -> None:
        """Refuse where a group has members: they would go on and commit again."""
        found = _of_consumers(group, self._found(group), what)
        if found.state not in IDLE:
            raise CommandRefused(
                f"group {group} is {found.state} and cannot be {what}: stop its members first"
            )

    def _found(self, group: str) -> DescribedGroup:
        return self._patiently(described, self.admin, group)

    def _listed(self, asked: Mapping[Any, Any]) -> dict[Partition, int]:
        more = {"timeout_ms": LEADERLESS_MS} if len(asked) == 1 else {}
        found: Any = self.admin.list_partition_offsets(asked, **more) if asked else {}
        return {tuple(one): at.offset for one, at in found.items() if at.offset >= 0}

    def _patiently(self, ask: Callable[..., T], *arguments: Any) -> T:
        """Ask again while the coordinator is made, loads, or moves."""
        errors = library("kafka.errors")
        until = time.monotonic() + self.timeout_s
        while True:
            try:
                return ask(*arguments)
            except (errors.CoordinatorNotAvailableError, errors.CoordinatorLoadInProgressError):
                if time.monotonic() > until:
                    raise
                time.sleep(AGAIN_S)


def _spec(spec: str | int) -> Any:
    kinds = library("kafka.admin")
    return kinds.OffsetTimestamp(spec) if isinstance(spec, int) else kinds.OffsetSpec[spec]


def _of_consumers(group: str, found: DescribedGroup, what: str) -> DescribedGroup:
    if found.is_share:
        raise CommandRefused(f"group {group} is a share group and cannot be {what} here")
    return found


def _all_well(group: str, answers: Mapping[Any, Any]) -> None:
    for (topic, number), error in answers.items():
        if error.errno:
            raise refused(f"group {group}, {topic}-{number}", error.errno)


def _row(
    group: str, partition: Partition, offset: int | None, end: int | None, member: MemberRow | None
) -> GroupRow:
    lag = None if offset is None or end is None else max(0, end - offset)
    if member is None:
        return GroupRow(group, *partition, offset, end, lag)
    who = member.consumer_id, member.host, member.client_id
    return GroupRow(group, *partition, offset, end, lag, *who)
