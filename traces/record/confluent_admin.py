"""confluent-kafka's administrator, recorded. Its answers are futures."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

from traces.record import confluent_words
from traces.record.admin import Call, RecordedAdmin, of_topic
from traces.record.confluent_ids import ids_of
from traces.record.process import now
from traces.record.topic_ids import TopicIds
from traces.record.topic_settings import in_our_words
from traces.record.wrapper import ClientOptions, Fields

PATIENCE_S = 5


class ConfluentAdmin(RecordedAdmin):
    """An AdminClient of confluent-kafka, whose answers are futures."""

    def __init__(self, client: Any, options: ClientOptions) -> None:
        super().__init__(client, options)
        self._ids = TopicIds(options.process, lambda topics: ids_of(client, topics, PATIENCE_S))

    def name_of(self, error: Any) -> str:
        """As librdkafka has it."""
        return confluent_words.error_of(error)[1]

    def create_topics(self, new_topics: Iterable[Any], **more: Any) -> Any:
        """As the client's own; when a topic is there its id is asked for."""
        asked = list(new_topics)
        if more.get("validate_only"):
            return self._client.create_topics(asked, **more)
        calls: dict[str, Call] = {}
        for one in asked:
            counts = {one.topic: one.num_partitions} if one.num_partitions > 0 else {}
            about: Fields = {"partition_counts": counts} if counts else {}
            calls[one.topic] = self._asked("create_topics", topics=[one.topic], **about)
        futures = self._following(self._client.create_topics(asked, **more), calls)
        for topic, future in futures.items():
            future.add_done_callback(partial(self._made, topic))
        return futures

    def _made(self, topic: str, future: Any) -> None:
        if future.exception() is None:
            self._ids.made(topic)

    def delete_topics(self, topics: Iterable[str], **more: Any) -> Any:
        """As the client's own; the ids that the topics have are asked before."""
        names = list(topics)
        self._ids.ask_now(names)
        calls = {name: self._asked("delete_topics", topics=[name]) for name in names}
        return self._following(self._client.delete_topics(names, **more), calls)

    def delete_consumer_groups(self, group_ids: Iterable[str], **more: Any) -> Any:
        """As the client's own."""
        names = list(group_ids)
        calls = {name: self._asked("delete_groups", group=name) for name in names}
        return self._following(self._client.delete_consumer_groups(names, **more), calls)

    def alter_consumer_group_offsets(self, request: Iterable[Any], **more: Any) -> Any:
        """As the client's own."""
        asked = list(request)
        calls: dict[str, Call] = {}
        for one in asked:
            offsets = {f"{p.topic}:{p.partition}": p.offset for p in one.topic_partitions}
            reported = {name: at for name, at in offsets.items() if at >= 0}
            calls[one.group_id] = self._asked("alter_offsets", group=one.group_id, offsets=reported)
        return self._following(self._client.alter_consumer_group_offsets(asked, **more), calls)

    def create_partitions(self, new_partitions: Iterable[Any], **more: Any) -> Any:
        """As the client's own; how many there were is asked before."""
        asked = list(new_partitions)
        if more.get("validate_only"):
            return self._client.create_partitions(asked, **more)
        calls: dict[str, Call] = {}
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
        answers = self._altering({r.name: r.set_config_dict for r in asked if of_topic(r)}, more)
        return self._following(self._client.alter_configs(asked, **more), answers)

    def incremental_alter_configs(self, resources: Iterable[Any], **more: Any) -> Any:
        """As the client's own; the settings that there were are asked before."""
        asked = list(resources)
        entries = {r.name: r.incremental_configs for r in asked if of_topic(r)}
        set_to = {
            topic: {e.name: e.value for e in several if e.incremental_operation.name == "SET"}
            for topic, several in entries.items()
        }
        answers = self._altering(set_to, more)
        return self._following(self._client.incremental_alter_configs(asked, **more), answers)

    def _altering(self, topics: Mapping[str, Mapping[str, Any]], more: Fields) -> dict[str, Call]:
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

    def _settled(self, call: Call, future: Any) -> None:
        self._answered(call, future.exception())

    def _following(self, futures: Any, calls: Mapping[str, Call]) -> Any:
        for key, future in futures.items():
            name = getattr(key, "name", key)
            if name in calls:
                future.add_done_callback(partial(self._settled, calls[name]))
        return futures
