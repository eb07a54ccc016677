"""Calls of administrators, and answers about topics: ids, numbers of partitions, settings."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import define

from chaos.real.proxy.recording.links import INTERNAL, Link, Topics, code_of, name_of, placed
from traces.record.admin import REFUSED
from traces.record.entries import Line
from traces.record.process import Process, now
from traces.record.topic_ids import in_our_words
from traces.record.topic_settings import in_our_words as settings_in_our_words

Answer = Callable[[Any], None]
_TOPIC, _SET = 2, 0


@define
class Administrators:
    """Requests about topics, their settings, and whole groups."""

    topics: Topics
    #: A process for answers that any client may get
    told: Process

    def metadata(self, link: Link, request: Any) -> Answer:
        """Metadata: ids and numbers of partitions."""
        invoked = now()

        def answered(answer: Any) -> None:
            counts: dict[str, int] = {}
            ids: dict[str, str] = {}
            for one in answer.topics:
                if code_of(one) or not one.name or one.name in INTERNAL:
                    continue
                counts[one.name] = len(one.partitions)
                if (id := getattr(one, "topic_id", None)) is not None:
                    self.topics.names[id] = one.name
                    ids[one.name] = in_our_words(id)
            if counts:
                more = {"topic_ids": ids} if ids else {}
                self.told.note("metadata", invoked, partition_counts=counts, **more)

        return answered

    def describe_configs(self, link: Link, request: Any) -> Answer:
        """DescribeConfigs: the settings of topics."""
        invoked = now()

        def answered(answer: Any) -> None:
            found = {
                one.resource_name: {entry.name: entry.value for entry in one.configs}
                for one in answer.results
                if one.resource_type == _TOPIC and not code_of(one)
            }
            self._settings(invoked, found)

        return answered

    def _settings(self, invoked: int, found: Mapping[str, Mapping[str, Any]]) -> None:
        told = {topic: settings_in_our_words(values) for topic, values in found.items()}
        told = {name: values for name, values in told.items() if values and name not in INTERNAL}
        if told:
            self.told.note("metadata", invoked, topic_settings=told)

    def alter_configs(self, link: Link, request: Any) -> Answer | None:
        """AlterConfigs and IncrementalAlterConfigs: settings that topics are given."""
        if request.validate_only:
            return None
        calls: dict[str, int] = {}
        process = self._process(link)
        for one in request.resources:
            given = {
                entry.name: entry.value
                for entry in one.configs
                if getattr(entry, "config_operation", _SET) == _SET
            }
            settings = settings_in_our_words(given)
            if one.resource_type == _TOPIC and settings:
                told = {one.resource_name: settings}
                calls[one.resource_name] = process.call("alter_configs", topic_settings=told)
        return lambda answer: _answered(
            process, calls, ((one.resource_name, code_of(one), {}) for one in answer.responses)
        )

    def create_topics(self, link: Link, request: Any) -> Answer | None:
        """CreateTopics."""
        if request.validate_only:
            return None
        process, invoked = self._process(link), now()
        calls = {o.name: process.call("create_topics", topics=[o.name]) for o in request.topics}

        def answered(answer: Any) -> None:
            _answered(process, calls, ((o.name, code_of(o), self._made(o)) for o in answer.topics))
            self._settings(
                invoked,
                {
                    one.name: {entry.name: entry.value for entry in one.configs}
                    for one in answer.topics
                    if not code_of(one) and getattr(one, "configs", None)
                },
            )

        return answered

    def _made(self, one: Any) -> Line:
        id = getattr(one, "topic_id", None)
        if id is None or code_of(one):
            return {}
        self.topics.names[id] = one.name
        more: Line = {"topic_ids": {one.name: in_our_words(id)}}
        if one.num_partitions > 0:
            more["partition_counts"] = {one.name: one.num_partitions}
        return more

    def delete_topics(self, link: Link, request: Any) -> Answer:
        """DeleteTopics, by names or ids."""
        process = self._process(link)
        calls: dict[str, int] = {}
        named = getattr(request, "topics", None)
        for one in named if named is not None else request.topic_names:
            name = one if isinstance(one, str) else self.topics.name_of(one)
            if name is not None:
                id = getattr(one, "topic_id", None)
                more = {"topic_ids": {name: in_our_words(id)}} if id is not None else {}
                calls[name] = process.call("delete_topics", topics=[name], **more)

        def answered(answer: Any) -> None:
            _answered(
                process, calls, ((self._deleted(o), code_of(o), {}) for o in answer.responses)
            )

        return answered

    def _deleted(self, one: Any) -> str:
        id = getattr(one, "topic_id", None)
        return one.name or (self.topics.names.get(id, "") if id is not None else "")

    def create_partitions(self, link: Link, request: Any) -> Answer | None:
        """CreatePartitions."""
        if request.validate_only:
            return None
        process = self._process(link)
        calls = {
            one.name: process.call("create_partitions", partition_counts={one.name: one.count})
            for one in request.topics
        }
        return lambda answer: _answered(
            process, calls, ((one.name, code_of(one), {}) for one in answer.results)
        )

    def delete_records(self, link: Link, request: Any) -> Answer:
        """DeleteRecords: the new starts of logs, where it was answered."""
        invoked = now()

        def answered(answer: Any) -> None:
            offsets = {
                placed(topic.name, one.partition_index): one.low_watermark
                for topic in answer.topics
                for one in topic.partitions
                if not code_of(one) and one.low_watermark >= 0
            }
            if offsets:
                self._process(link).note("delete_records", invoked, offsets=offsets)

        return answered

    def delete_groups(self, link: Link, request: Any) -> Answer:
        """DeleteGroups."""
        process = self._process(link)
        calls = {name: process.call("delete_groups", group=name) for name in request.groups_names}
        return lambda answer: _answered(
            process, calls, ((one.group_id, code_of(one), {}) for one in answer.results)
        )

    def delete_offsets(self, link: Link, request: Any) -> Answer:
        """OffsetDelete, for each partition by itself."""
        process, group = self._process(link), request.group_id
        calls = {
            name: process.call("delete_offsets", group=group, partitions=[name])
            for topic in request.topics
            for one in topic.partitions
            for name in (placed(topic.name, one.partition_index),)
        }

        def answered(answer: Any) -> None:
            whole = code_of(answer)
            codes = {
                placed(topic.name, one.partition_index): code_of(one)
                for topic in answer.topics
                for one in topic.partitions
            }
            _answered(process, calls, ((name, whole or codes.get(name, -1), {}) for name in calls))

        return answered

    def _process(self, link: Link) -> Process:
        return link.process("admin", "admin", {})


def _answered(
    process: Process, calls: Mapping[str, int], found: Iterable[tuple[str, int, Line]]
) -> None:
    """Each call by itself; a refusal is certain, for a request is a call of its own."""
    for name, code, more in found:
        seq = calls.get(name)
        if seq is None:
            continue
        if not code:
            process.answer(seq, "ok", **more)
        else:
            error = name_of(code)
            process.answer(seq, "fail" if error in REFUSED else "info", error=error)
