"""What `highwater groups` asks a cluster, through confluent-kafka's AdminClient.

Works with any Kafka: members, committed offsets and log ends come from the cluster's own APIs.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from attrs import define, field

T = TypeVar("T")
Partition = tuple[str, int]


class NoLibraryError(Exception):
    """confluent-kafka is not installed."""


class ClusterError(Exception):
    """The cluster does not answer, or refuses what it is asked for."""


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


class Listed(NamedTuple):
    """A group: its type (classic or consumer) and its state, as the cluster names them."""

    group: str
    type: str
    state: str


@define(eq=False)
class GroupAdmin:
    """A connection to a cluster; every answer is waited for so many seconds."""

    bootstrap: str
    conf: Mapping[str, str] = field(factory=dict[str, str])
    timeout_s: float = 30.0
    _ck: Any = field(init=False)
    _admin: Any = field(init=False)
    _client: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        try:
            self._ck = import_module("confluent_kafka")
            self._admin = import_module("confluent_kafka.admin")
        except ModuleNotFoundError as missing:
            raise NoLibraryError from missing
        quiet: dict[str, Any] = {"log_level": 0, "error_cb": _say_nothing}
        settings = {"bootstrap.servers": self.bootstrap, "client.id": "highwater-groups"}
        try:
            self._client = self._admin.AdminClient({**settings, **quiet, **self.conf})
            self._client.list_topics(timeout=self.timeout_s)
        except self._ck.KafkaException as refused:
            raise self._error("the cluster", refused) from None

    def groups(self) -> list[Listed]:
        """All groups of consumers, by name."""
        answer = self._wait(
            "the list of groups",
            self._client.list_consumer_groups(request_timeout=self.timeout_s),
        )
        if answer.errors:
            raise self._error("the list of groups", answer.errors[0])
        return sorted(
            Listed(one.group_id, _name(one.type), _name(one.state)) for one in answer.valid
        )

    def describe(self, group: str) -> list[GroupRow]:
        """Each partition that the group has committed or is assigned, and members without one.

        Raises ClusterError for a group that the cluster does not know.
        """
        asked = self._client.describe_consumer_groups([group], request_timeout=self.timeout_s)
        described = self._wait(f"group {group}", asked[group])
        committed = self._committed(group)
        if _name(described.state) == "dead" and not committed:
            raise ClusterError(f"the cluster has no group {group}")
        owners = {
            (one.topic, one.partition): member
            for member in described.members
            for one in _assigned(member)
        }
        partitions = sorted({*committed, *owners})
        ends = self._ends(partitions)
        rows = [
            _row(group, one, committed.get(one), ends.get(one), owners.get(one))
            for one in partitions
        ]
        idle = [member for member in described.members if not _assigned(member)]
        return rows + [
            GroupRow(group, consumer_id=one.member_id, host=one.host, client_id=one.client_id)
            for one in sorted(idle, key=lambda one: one.member_id)
        ]

    def _committed(self, group: str) -> dict[Partition, int]:
        asked = [self._ck.ConsumerGroupTopicPartitions(group)]
        answers = self._client.list_consumer_group_offsets(asked, request_timeout=self.timeout_s)
        answer = self._wait(f"the offsets of group {group}", answers[group])
        return {
            (one.topic, one.partition): one.offset
            for one in answer.topic_partitions
            if one.offset >= 0
        }

    def _ends(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """The end of each log; a partition that is gone or has no leader has none."""
        if not partitions:
            return {}
        latest = self._admin.OffsetSpec.latest()
        asked = {self._ck.TopicPartition(*one): latest for one in partitions}
        answers = self._client.list_offsets(asked, request_timeout=self.timeout_s)
        found: dict[Partition, int] = {}
        for one, future in answers.items():
            try:
                found[one.topic, one.partition] = future.result(self.timeout_s).offset
            except self._ck.KafkaException:
                continue
        return found

    def _wait(self, what: str, future: "Future[T]") -> T:
        try:
            return future.result(self.timeout_s)
        except (self._ck.KafkaException, TimeoutError) as refused:
            raise self._error(what, refused) from None

    def _error(self, what: str, refused: Exception) -> ClusterError:
        """What went wrong, with Kafka's name for it."""
        if isinstance(refused, TimeoutError):
            return ClusterError(f"{what}: no answer from {self.bootstrap} in {self.timeout_s:g} s")
        error: Any = refused.args[0]
        if error.code() in (self._ck.KafkaError._TRANSPORT, self._ck.KafkaError._TIMED_OUT):
            return ClusterError(f"{what}: no answer from {self.bootstrap} in {self.timeout_s:g} s")
        return ClusterError(f"{what}: {error.name()}: {error.str()}")


def _say_nothing(error: object) -> None:
    """What librdkafka reports is in the answers as well."""


def _row(
    group: str, partition: Partition, offset: int | None, end: int | None, member: Any
) -> GroupRow:
    lag = None if offset is None or end is None else max(0, end - offset)
    if member is None:
        return GroupRow(group, *partition, offset, end, lag)
    who = member.member_id, member.host, member.client_id
    return GroupRow(group, *partition, offset, end, lag, *who)


def _assigned(member: Any) -> Iterable[Any]:
    return member.assignment.topic_partitions if member.assignment else ()


def _name(value: Any) -> str:
    return str(getattr(value, "name", value)).lower()
