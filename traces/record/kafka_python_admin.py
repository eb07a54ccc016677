"""kafka-python's administrator, recorded. Its calls return with their answer."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast
from uuid import UUID

from traces.record import python_words
from traces.record.admin import Call, RecordedAdmin, of_topic
from traces.record.errors import NAMES
from traces.record.process import now
from traces.record.topic_ids import in_our_words as id_text
from traces.record.topic_ids import known
from traces.record.topic_settings import in_our_words
from traces.record.wrapper import Fields


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

    def create_topics(self, new_topics: Any, *args: Any, **more: Any) -> Any:
        """As the client's own; ids and numbers of partitions are those of the answer."""
        act = partial(self._client.create_topics, new_topics, *args, **more)
        if _validates(args, more):
            return act()
        names = [getattr(one, "name", one) for one in new_topics]
        calls = {name: self._asked("create_topics", topics=[name]) for name in names}
        return self._of_topics(calls, act, raises=more.get("raise_errors", True))

    def delete_topics(self, topics: Iterable[Any], *args: Any, **more: Any) -> Any:
        """As the client's own; the ids that the topics have are asked before."""
        asked = list(topics)
        invoked = now()
        ids = known({one["name"]: one.get("topic_id") for one in self._described(asked)})
        if ids:
            self._process.note("describe_topics", invoked, topics=sorted(ids), topic_ids=ids)
        name_of = {id: name for name, id in ids.items()}
        names = [name_of.get(id_text(one)) if isinstance(one, UUID) else one for one in asked]
        calls = {n: self._asked("delete_topics", topics=[n]) for n in names if n is not None}
        act = partial(self._client.delete_topics, asked, *args, **more)
        return self._of_topics(calls, act, raises=more.get("raise_errors", True))

    def create_partitions(self, topic_partitions: Any, *args: Any, **more: Any) -> Any:
        """As the client's own; how many there were is asked before."""
        act = partial(self._client.create_partitions, topic_partitions, *args, **more)
        if _validates(args, more):
            return act()
        invoked = now()
        found = self._described(topic_partitions)
        if counts := {one["name"]: len(one["partitions"]) for one in found if one["partitions"]}:
            self._process.note("metadata", invoked, partition_counts=counts)
        calls: dict[str, Call] = {}
        for topic, new in topic_partitions.items():
            counts = {topic: _total(new)}
            calls[topic] = self._asked("create_partitions", partition_counts=counts)
        return self._of_topics(calls, act, raises=more.get("raise_errors", True))

    def _described(self, topics: Iterable[Any]) -> list[Any]:
        """The topics as the cluster describes them, of those that are there."""
        with suppress(Exception):  # who may alter topics need not be allowed to read them
            found = self._client.describe_topics(list(topics))
            return [one for one in found if not one["error_code"]]
        return []

    def _of_topics(self, calls: Mapping[str, Call], act: Callable[[], Any], raises: bool) -> Any:
        """Make a request about topics, of each of which the answer tells by itself."""
        try:
            answer = act()
        except Exception as refusal:
            self._failed([*calls.values()], refusal)
            raise
        found = {one["name"]: one for one in _answers(answer)}
        for name, call in calls.items():
            one = found.get(name, {"error_code": 0} if raises else None)
            if one is None:
                self._process.answer(call[0], "info")
            elif one["error_code"]:
                self._refused(call, NAMES.get(one["error_code"], str(one["error_code"])))
            else:
                self._process.answer(call[0], "ok", **_made(name, one))
        return answer

    def alter_configs(self, config_resources: Any, *args: Any, **more: Any) -> Any:
        """As the client's own; the settings that there were are asked before."""
        asked = list(config_resources)
        topics = [resource for resource in asked if of_topic(resource)]
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

    def _awaited(self, calls: Iterable[Call], act: Callable[[], Any]) -> Any:
        """Make the calls; of an answer that tells of errors nobody knows which call it is about."""
        several = [*calls]
        try:
            answer = act()
        except Exception as refusal:
            self._failed(several, refusal)
            raise
        doubtful = _tells_of_errors(answer)
        for call in several:
            if doubtful:
                self._process.answer(call[0], "info")
            else:
                self._answered(call, None)
        return answer

    def _failed(self, calls: Sequence[Call], refusal: Exception) -> None:
        """An exception tells of one call. Of several, nobody knows of which."""
        for call in calls:
            if len(calls) == 1:
                self._answered(call, refusal)
            else:
                self._process.answer(call[0], "info", error=self.name_of(refusal))


def _validates(args: tuple[Any, ...], more: Fields) -> bool:
    """True if a request is only to be validated; before that option stands a time."""
    return bool(more.get("validate_only") or args[1:2] == (True,))


def _total(new: Any) -> Any:
    """The number of partitions that a topic shall have, in any of the library's three ways."""
    count: Any = cast("Mapping[str, Any]", new)["count"] if isinstance(new, Mapping) else new
    return getattr(count, "total_count", count)


def _answers(answer: Any) -> list[Any]:
    """The part of an answer about each topic, if it has one."""
    if isinstance(answer, Mapping):
        topics: list[Any] = cast("Mapping[str, Any]", answer).get("topics") or []
        return topics
    results: list[Any] = getattr(answer, "results", [])
    return [{"name": one.name, "error_code": one.error_code} for one in results]


def _made(topic: str, answer: Mapping[str, Any]) -> Fields:
    """The id and the number of partitions of a topic that was created, where they are told."""
    ids, number = known({topic: answer.get("topic_id")}), answer.get("num_partitions", -1)
    made: Fields = {"topic_ids": ids} if ids else {}
    return made | ({"partition_counts": {topic: number}} if number > 0 else {})


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
