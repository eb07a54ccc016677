"""An administrator's client, recorded: what it does to groups and to the number of partitions.

Each group and each topic of a request is a call of its own, for each is answered by itself.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, cast

from traces.record import confluent_words, python_words
from traces.record.errors import FIRST_ATTEMPT_NS
from traces.record.process import now
from traces.record.wrapper import Fields, Recorded

#: An administrator's request that a broker refused, where it was the first attempt.
REFUSED = frozenset(
    (
        *("NON_EMPTY_GROUP", "GROUP_ID_NOT_FOUND", "INVALID_GROUP_ID", "UNKNOWN_MEMBER_ID"),
        *("GROUP_SUBSCRIBED_TO_TOPIC", "GROUP_AUTHORIZATION_FAILED", "INVALID_PARTITIONS"),
        *("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "INVALID_REQUEST"),
        *("UNKNOWN_TOPIC_OR_PARTITION", "INVALID_REPLICA_ASSIGNMENT", "POLICY_VIOLATION"),
    )
)


class RecordedAdmin(Recorded):
    """What administrators of both libraries share."""

    def name_of(self, error: Any) -> str:
        """Kafka's name of an error."""
        raise NotImplementedError

    def _asked(self, op: str, **fields: Any) -> tuple[int, int]:
        return self._process.call(op, **fields), now()

    def _answered(self, call: tuple[int, int], error: Any) -> None:
        """Note what became of a call; a client that waited long may have asked twice."""
        seq, asked = call
        if error is None:
            self._process.answer(seq, "ok")
            return
        name = self.name_of(error)
        certain = name in REFUSED and now() - asked < FIRST_ATTEMPT_NS
        self._process.answer(seq, "fail" if certain else "info", error=name)

    def _settled(self, call: tuple[int, int], future: Any) -> None:
        self._answered(call, future.exception())

    def close(self, *args: Any, **more: Any) -> Any:
        """Close the client, where it can be, and end the recording."""
        invoked = now()
        close: Any = getattr(self._client, "close", None)
        closed = close(*args, **more) if close is not None else None
        self._process.end("close", invoked)
        return closed


class ConfluentAdmin(RecordedAdmin):
    """An AdminClient of confluent-kafka, whose answers are futures."""

    def name_of(self, error: Any) -> str:
        """As librdkafka has it."""
        return confluent_words.error_of(error)[1]

    def delete_consumer_groups(self, group_ids: Iterable[str], **more: Any) -> Any:
        """As the client's own."""
        names = list(group_ids)
        calls = {name: self._asked("delete_groups", group=name) for name in names}
        return self._following(self._client.delete_consumer_groups(names, **more), calls)

    def alter_consumer_group_offsets(self, request: Iterable[Any], **more: Any) -> Any:
        """As the client's own."""
        asked = list(request)
        calls: dict[str, tuple[int, int]] = {}
        for one in asked:
            offsets = {f"{p.topic}:{p.partition}": p.offset for p in one.topic_partitions}
            reported = {name: at for name, at in offsets.items() if at >= 0}
            calls[one.group_id] = self._asked("alter_offsets", group=one.group_id, offsets=reported)
        return self._following(self._client.alter_consumer_group_offsets(asked, **more), calls)

    def create_partitions(self, new_partitions: Iterable[Any], **more: Any) -> Any:
        """As the client's own; how many there were is asked before."""
        asked = list(new_partitions)
        calls: dict[str, tuple[int, int]] = {}
        for one in asked:
            self._note_partitions(one.topic)
            counts = {one.topic: one.new_total_count}
            calls[one.topic] = self._asked("create_partitions", partition_counts=counts)
        return self._following(self._client.create_partitions(asked, **more), calls)

    def _note_partitions(self, topic: str) -> None:
        invoked = now()
        found = self._client.list_topics(topic, timeout=10).topics.get(topic)
        if found is not None and found.error is None and found.partitions:
            self._process.note("metadata", invoked, partition_counts={topic: len(found.partitions)})

    def _following(self, futures: Any, calls: Mapping[str, tuple[int, int]]) -> Any:
        for name, future in futures.items():
            if name in calls:
                future.add_done_callback(partial(self._settled, calls[name]))
        return futures


class KafkaPythonAdmin(RecordedAdmin):
    """A KafkaAdminClient of kafka-python, whose calls return with their answer."""

    def name_of(self, error: Any) -> str:
        """By the broker's code."""
        return python_words.error_of(error)[1]

    def delete_groups(self, group_ids: Iterable[str], **more: Any) -> Any:
        """As the client's own."""
        names = list(group_ids)
        calls = [self._asked("delete_groups", group=name) for name in names]
        return self._awaited(calls, partial(self._client.delete_groups, names, **more))

    def delete_consumer_groups(self, group_ids: Iterable[str], **more: Any) -> Any:
        """As `delete_groups`, by the name that it had before."""
        return self.delete_groups(group_ids, **more)

    def delete_group_offsets(self, group_id: str, partitions: Iterable[Any], **more: Any) -> Any:
        """As the client's own."""
        asked = list(partitions)
        names = [f"{p.topic}:{p.partition}" for p in asked]
        calls = [self._asked("delete_offsets", group=group_id, partitions=names)]
        act = partial(self._client.delete_group_offsets, group_id, asked, **more)
        return self._awaited(calls, act)

    def alter_group_offsets(self, group_id: str, offsets: Any, **more: Any) -> Any:
        """As the client's own."""
        reported: Fields = {
            f"{p.topic}:{p.partition}": getattr(at, "offset", at) for p, at in offsets.items()
        }
        calls = [self._asked("alter_offsets", group=group_id, offsets=reported)]
        act = partial(self._client.alter_group_offsets, group_id, offsets, **more)
        return self._awaited(calls, act)

    def create_partitions(self, topic_partitions: Any, *args: Any, **more: Any) -> Any:
        """As the client's own."""
        calls: list[tuple[int, int]] = []
        for topic, new in topic_partitions.items():
            total = getattr(new, "total_count", new)
            calls.append(self._asked("create_partitions", partition_counts={topic: total}))
        act = partial(self._client.create_partitions, topic_partitions, *args, **more)
        return self._awaited(calls, act)

    def _awaited(self, calls: Iterable[tuple[int, int]], act: Callable[[], Any]) -> Any:
        """Make the calls; of an answer that tells of errors nobody knows which call it is about."""
        try:
            answer = act()
        except Exception as refusal:
            for call in calls:
                self._answered(call, refusal)
            raise
        doubtful = _tells_of_errors(answer)
        for call in calls:
            if doubtful:
                self._process.answer(call[0], "info")
            else:
                self._answered(call, None)
        return answer


def _tells_of_errors(answer: Any) -> bool:
    """Whether some code or exception in an answer is not the one for success."""
    if isinstance(answer, Mapping):
        return any(map(_tells_of_errors, cast("Mapping[Any, Any]", answer).values()))
    if isinstance(answer, (list, tuple)):
        return any(map(_tells_of_errors, cast("list[Any]", answer)))
    if isinstance(answer, (type, Exception)):
        return getattr(answer, "errno", -1) != 0
    return type(answer) is str and answer not in ("OK", "NoError", "") and "Error" in answer
