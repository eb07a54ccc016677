"""An administrator's client, recorded: what it does to groups, to topics' settings and partitions.

Each group and each topic of a request is a call of its own, for each is answered by itself.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, cast

from traces.record import confluent_words, python_words
from traces.record.errors import FIRST_ATTEMPT_NS
from traces.record.process import now
from traces.record.topic_settings import in_our_words
from traces.record.wrapper import Fields, Recorded

PATIENCE_S = 5
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
    """The common part of the administrators of both libraries."""

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

    def _note_found(self, invoked: int, topics: Mapping[str, Mapping[str, Any]]) -> None:
        """Note the settings that topics have."""
        found = {topic: in_our_words(values) for topic, values in topics.items()}
        if found := {topic: settings for topic, settings in found.items() if settings}:
            self._process.note("metadata", invoked, topic_settings=found)

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

    def alter_configs(self, resources: Iterable[Any], **more: Any) -> Any:
        """As the client's own; the settings that there were are asked before."""
        asked = list(resources)
        answers = self._altering({r.name: r.set_config_dict for r in asked if _of_topic(r)}, more)
        return self._following(self._client.alter_configs(asked, **more), answers)

    def incremental_alter_configs(self, resources: Iterable[Any], **more: Any) -> Any:
        """As the client's own; the settings that there were are asked before."""
        asked = list(resources)
        entries = {r.name: r.incremental_configs for r in asked if _of_topic(r)}
        set_to = {
            topic: {e.name: e.value for e in several if e.incremental_operation.name == "SET"}
            for topic, several in entries.items()
        }
        answers = self._altering(set_to, more)
        return self._following(self._client.incremental_alter_configs(asked, **more), answers)

    def _altering(
        self, topics: Mapping[str, Mapping[str, Any]], more: Fields
    ) -> dict[str, tuple[int, int]]:
        if more.get("validate_only"):
            return {}
        self._note_settings(topics)
        return {
            topic: self._asked("alter_configs", topic_settings={topic: in_our_words(values)})
            for topic, values in topics.items()
        }

    def _note_settings(self, topics: Iterable[str]) -> None:
        kind, invoked = import_module("confluent_kafka.admin").ConfigResource, now()
        asked = [kind("topic", topic) for topic in topics]
        with suppress(Exception):  # who may alter topics need not be allowed to read them
            answers = self._client.describe_configs(asked, request_timeout=PATIENCE_S)
            topics = {r.name: future.result(PATIENCE_S) for r, future in answers.items()}
            found = {t: {n: e.value for n, e in entries.items()} for t, entries in topics.items()}
            self._note_found(invoked, found)

    def _following(self, futures: Any, calls: Mapping[str, tuple[int, int]]) -> Any:
        for key, future in futures.items():
            name = getattr(key, "name", key)
            if name in calls:
                future.add_done_callback(partial(self._settled, calls[name]))
        return futures


def _of_topic(resource: Any) -> bool:
    """True if settings are those of a topic."""
    kind = getattr(resource, "restype", None) or getattr(resource, "resource_type", None)
    return getattr(kind, "name", "") == "TOPIC"


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

    def alter_configs(self, config_resources: Any, *args: Any, **more: Any) -> Any:
        """As the client's own; the settings that there were are asked before."""
        asked = list(config_resources)
        topics = [resource for resource in asked if _of_topic(resource)]
        act = partial(self._client.alter_configs, asked, *args, **more)
        if more.get("validate_only") or any(args):
            return act()
        self._note_settings(topics)
        set_to = {r.name: _set_to(r.configs or {}) for r in topics}
        calls = [
            self._asked("alter_configs", topic_settings={topic: in_our_words(values)})
            for topic, values in set_to.items()
        ]
        return self._awaited(calls, act)

    def _note_settings(self, topics: list[Any]) -> None:
        invoked = now()
        with suppress(Exception):  # who may alter topics need not be allowed to read them
            asked = [type(one)(one.resource_type, one.name) for one in topics]
            answer = self._client.describe_configs(asked, config_filter="all")["topic"]
            found = {t: {n: c["value"] for n, c in of.items()} for t, of in answer.items()}
            self._note_found(invoked, found)

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


def _set_to(configs: Mapping[str, Any]) -> dict[str, Any]:
    """The values that settings are set to, by a bare value or by the operation of that name."""
    pairs: dict[str, tuple[Any, Any]] = {
        name: value if isinstance(value, tuple) else ("SET", value)
        for name, value in configs.items()
    }
    return {n: v for n, (op, v) in pairs.items() if getattr(op, "name", op) in ("SET", 0)}


def _tells_of_errors(answer: Any) -> bool:
    """True if some code or exception in an answer is not the one for success."""
    if isinstance(answer, Mapping):
        return any(map(_tells_of_errors, cast("Mapping[Any, Any]", answer).values()))
    if isinstance(answer, (list, tuple)):
        return any(map(_tells_of_errors, cast("list[Any]", answer)))
    if isinstance(answer, (type, Exception)):
        return getattr(answer, "errno", -1) != 0
    return type(answer) is str and answer not in ("OK", "NoError", "") and "Error" in answer
