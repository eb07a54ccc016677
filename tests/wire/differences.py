"""The differences between our answers and Kafka's, and their reasons.

Every row must still describe a difference, or the test fails: one that has disappeared goes.
"""

import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from tests.wire.recording import is_same_class

ANY = object()


@frozen
class Row:
    """Requests whose answers differ in some fields, and the reason.

    `api` and `path` are regular expressions, `where` says the path for people; `theirs` and `ours`
    are the values, where they are always the same ones.
    """

    api: str
    path: str
    where: str
    reason: str
    theirs: Any = ANY
    ours: Any = ANY

    def covers(self, step: Mapping[str, Any], path: str, theirs: Any, ours: Any) -> bool:
        """True if this difference is one of these."""
        return (
            re.fullmatch(self.api, step["api"]) is not None
            and re.search(self.path, path) is not None
            and is_same_class(path, theirs, ours)
            and (self.theirs is ANY or self.theirs == theirs)
            and (self.ours is ANY or self.ours == ours)
        )


ROWS: tuple[Row, ...] = (
    Row(
        "DescribeQuorum",
        r"\.(leader_id|replica_id|node_id|observers\[0\]|listeners\[CONTROLLER\])$",
        "voters",
        "there is no quorum: the one voter is the controller, 0 in a process that has one for all "
        "brokers, and the broker that is asked observes it",
    ),
    Row(
        "CreateTopics|DescribeConfigs",
        r"configs\[min\.insync\.replicas\]",
        "`min.insync.replicas`",
        "a cluster that Kafka 4.1 or newer has laid out keeps `min.insync.replicas` as a dynamic "
        "default of all brokers (KIP-966); ours has it from the file, or by default",
    ),
    Row(
        "CreateTopics",
        r"^\.answer\.topics\[a[._]b\]",
        "colliding names",
        "two topics of one request whose names collide as metrics (`a.b`, `a_b`): Kafka looks for "
        "collisions with topics that exist, and makes both; we refuse the second",
    ),
    Row(
        "DescribeConfigs",
        r"configs\[\w+\]\.documentation$",
        "`documentation`",
        "in our own words",
    ),
    Row(
        "IncrementalAlterConfigs",
        r"responses\[0\]\.error_(code|message)$",
        "operations",
        "an operation that does not exist: Kafka fails with `UNKNOWN_SERVER_ERROR`; we say what is "
        "wrong with the request",
    ),
    Row(
        "DescribeClientQuotas",
        r"entries\[\d\]\.values",
        "quotas",
        "an entity that a request names twice: Kafka answers `INVALID_REQUEST` and has changed it; "
        "we answer the same and have not",
    ),
    Row(
        "ListOffsets",
        r"partitions\[0\]\.offset$",
        "the newest timestamp",
        "the offset of the newest timestamp: Kafka may name a record that DeleteRecords has "
        "deleted; we name the first that is there",
        9,
        39,
    ),
    Row(
        "Produce",
        r"partition_responses\[\d\]\.(error_message|log_start_offset)$",
        "`error_message`, `log_start_offset`",
        "a batch that is refused: Kafka gives a reason with few errors; we give one with each, and "
        "no log start",
    ),
    Row(
        "Produce",
        r"record_errors\[\d\]\.batch_index_error_message$",
        "`batch_index_error_message`",
        "a record without a key for a compacted topic: in our own words; a timestamp that is out "
        "of range: the range depends on the time",
    ),
    Row(
        "ConsumerGroupHeartbeat",
        r"error_message$",
        "`error_message`",
        "a regular expression that is none: RE2 and RE2/J find other words for it",
        "SubscribedTopicRegex `(` is not a valid regular expression: missing closing ).",
    ),
    Row(
        "DescribeLogDirs",
        r"\.(total|usable)_bytes$",
        "`total_bytes`, `usable_bytes`",
        "without `--data` nobody knows how much room there is",
    ),
    Row(
        ".*Share.*",
        r"error_message$",
        "`error_message`",
        "a refusal of share groups: in our own words",
    ),
    Row(
        "ShareGroupHeartbeat|ShareGroupDescribe",
        r"(member|group|assignment)_epoch$",
        "epochs",
        "the first epoch of a share group: 2 with Kafka, which counts its creation; 1 with us",
    ),
    Row(
        "ShareFetch",
        r"^\.answer\.error_code$",
        "a topic that does not exist",
        "a first fetch of an unknown topic id alone: Kafka fails with `UNKNOWN_SERVER_ERROR`; we "
        "name the topic",
        "UNKNOWN_SERVER_ERROR",
        "NONE",
    ),
    Row(
        "ShareFetch",
        r"^\.answer\.acquisition_lock_timeout$",
        "a topic that does not exist",
        "a first fetch of an unknown topic id alone: Kafka fails with `UNKNOWN_SERVER_ERROR`; we "
        "name the topic",
        0,
        30_000,
    ),
    Row(
        "ShareFetch",
        r"^\.answer\.responses\[0\]$",
        "a topic that does not exist",
        "a first fetch of an unknown topic id alone: Kafka fails with `UNKNOWN_SERVER_ERROR`; we "
        "name the topic",
        None,
    ),
    Row(
        "ShareAcknowledge",
        r"partitions\[0\]\.error_code$",
        "offsets beyond all that was given",
        "`INVALID_REQUEST` with Kafka, `INVALID_RECORD_STATE` with us, as for all that a member "
        "does not hold",
        "INVALID_REQUEST",
        "INVALID_RECORD_STATE",
    ),
    Row(
        "(Initialize|Read|Write|Delete)ShareGroupState(Summary)?",
        r"partitions\[0\]\.(error_code|start_offset|state_epoch)$",
        "an epoch of -1",
        "requests that only brokers send: Kafka compares an epoch of -1 with none; to us it is a "
        "lower one",
    ),
    Row(
        "FindCoordinator",
        r"coordinators\[0\]\.error_message$",
        "`error_message`",
        "a key that names no share partition: Kafka gives no reason",
        "",
    ),
)
