"""An administrator's client, recorded: what it does to groups, and to topics and their settings.

Each group and each topic of a request is a call of its own, for each is answered by itself.
"""

from collections.abc import Mapping
from typing import Any

from traces.record.errors import FIRST_ATTEMPT_NS
from traces.record.process import now
from traces.record.topic_settings import in_our_words
from traces.record.wrapper import RecordedClient

#: An administrator's request that a broker refused, where it was the first attempt.
REFUSED = frozenset(
    (
        *("NON_EMPTY_GROUP", "GROUP_ID_NOT_FOUND", "INVALID_GROUP_ID", "UNKNOWN_MEMBER_ID"),
        *("GROUP_SUBSCRIBED_TO_TOPIC", "GROUP_AUTHORIZATION_FAILED", "INVALID_PARTITIONS"),
        *("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "INVALID_REQUEST"),
        *("UNKNOWN_TOPIC_OR_PARTITION", "INVALID_REPLICA_ASSIGNMENT", "POLICY_VIOLATION"),
        *("TOPIC_ALREADY_EXISTS", "INVALID_TOPIC_EXCEPTION", "INVALID_REPLICATION_FACTOR"),
        *("INVALID_CONFIG", "TOPIC_DELETION_DISABLED", "UNKNOWN_TOPIC_ID"),
    )
)

Call = tuple[int, int]  # its place in the program, and when it was made


class RecordedAdmin(RecordedClient):
    """The common part of the administrators of both libraries."""

    def name_of(self, error: Any) -> str:
        """Kafka's name of an error."""
        raise NotImplementedError

    def _asked(self, op: str, **fields: Any) -> Call:
        return self._process.call(op, **fields), now()

    def _answered(self, call: Call, error: Any) -> None:
        """Note what became of a call."""
        if error is None:
            self._process.answer(call[0], "ok")
        else:
            self._refused(call, self.name_of(error))

    def _refused(self, call: Call, name: str) -> None:
        """Note an error; a client that waited long may have asked twice."""
        seq, asked = call
        certain = name in REFUSED and now() - asked < FIRST_ATTEMPT_NS
        self._process.answer(seq, "fail" if certain else "info", error=name)

    def _note_found(self, invoked: int, topics: Mapping[str, Mapping[str, Any]]) -> None:
        """Note the settings that topics have."""
        found = {topic: in_our_words(values) for topic, values in topics.items()}
        if found := {topic: settings for topic, settings in found.items() if settings}:
            self._process.note("metadata", invoked, topic_settings=found)

    def close(self, *args: Any, **more: Any) -> Any:
        """Close the client, where it can be, and end the recording."""
        self._ids.leave()
        invoked = now()
        close: Any = getattr(self._client, "close", None)
        closed = close(*args, **more) if close is not None else None
        self._process.end("close", invoked)
        return closed


def of_topic(resource: Any) -> bool:
    """True if settings are those of a topic."""
    kind = getattr(resource, "restype", None) or getattr(resource, "resource_type", None)
    return getattr(kind, "name", "") == "TOPIC"
