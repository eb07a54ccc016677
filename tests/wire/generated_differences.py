"""The differences between our answers and Kafka's to generated requests.

A row has a reason, and must still describe a difference. A difference without a row is open: it is
pinned with both values in a file beside Kafka's answers until somebody mends it or gives it a row.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from tests.wire.generated import FOLDER, HUNG, Answer, Answers
from tests.wire.recording import differences, is_same_class

OPEN = FOLDER / "open.json"
_NAMES = re.compile(r"k\d+v\d+b\d+(-\d+)?")
_BLANKS, _LONG = re.compile(" {2,}"), re.compile("x{20,}")
_SHOWN = 160

Pin = tuple[str, str, str, str]
"""A request's label, the path of a field, and both values, without what belongs to a version."""


@frozen
class Row:
    """Requests whose answers differ, and the reason.

    All but the reason are regular expressions: of the API, the label, the path, and both values as
    JSON. `where` says the path for people.
    """

    api: str
    label: str
    path: str
    where: str
    reason: str
    theirs: str = ".*"
    ours: str = ".*"

    def covers(self, api: str, label: str, path: str, theirs: Any, ours: Any) -> bool:
        """True if this difference is one of these."""
        return (
            re.fullmatch(self.api, api) is not None
            and re.search(self.label, label) is not None
            and re.search(self.path, path) is not None
            and is_same_class(path, theirs, ours)
            and re.fullmatch(self.theirs, json.dumps(theirs), re.DOTALL) is not None
            and re.fullmatch(self.ours, json.dumps(ours), re.DOTALL) is not None
        )


def _never(api: str, label: str, where: str, reason: str) -> Row:
    return Row(api, label, "^$", where, f"Kafka 4.3.1 never answers; we {reason}", f'"{HUNG}"')


def _fails(api: str, label: str, path: str, where: str, ours: str) -> Row:
    reason = f"Kafka fails with `UNKNOWN_SERVER_ERROR`; we {ours}"
    return Row(api, label, path, where, reason)


ROWS: tuple[Row, ...] = (
    Row(
        "DescribeQuorum",
        "",
        r"\.(leader_id|replica_id|node_id|observers\[0\]|listeners\[CONTROLLER\])$",
        "voters",
        "there is no quorum: the one voter is the controller, 0 in a process that has one for all "
        "brokers, and the broker that is asked observes it",
    ),
    _never("Produce", "records (null|of negative length)$", "null instead of records", "refuse it"),
    _never("JoinGroup", "protocols twice$", "a protocol twice", "take it for one"),
    _never("AddPartitionsToTxn", "transactions empty$", "no transactions", "answer about none"),
    _never(
        "WriteTxnMarkers",
        "(topics|partition_indexes) twice$",
        "a partition twice",
        "answer about it once",
    ),
    _never("AlterConfigs", "resources twice$", "a resource twice", "refuse it"),
    _never(
        "DescribeShareGroupOffsets",
        "partitions (and|of) 2147483647$",
        "a partition that does not exist",
        "say that nothing is known of it",
    ),
    Row(
        "Fetch|ListOffsets|OffsetForLeaderEpoch",
        "(current_leader|last_fetched|leader)_epoch [01]$",
        "",
        "leader epochs",
        "those of a partition begin with 0 in Kafka and with 1 here, as in the spec",
    ),
    _fails(
        "Fetch",
        r"session_id (2147483647|-2147483648)$",
        "",
        "the last request of a session that is not there",
        "answer it as one without a session",
    ),
    Row(
        "CreateTopics|DescribeConfigs",
        "",
        r"configs\[min\.insync\.replicas\]",
        "`min.insync.replicas`",
        "a cluster that Kafka 4.1 or newer has laid out keeps `min.insync.replicas` as a dynamic "
        "default of all brokers (KIP-966); ours has it from the file, or by default",
    ),
    Row(
        "ApiVersions",
        "",
        r"^\.api_keys\.\d+$",
        "`api_keys`",
        "announced is what is served",
        ours="null",
    ),
    Row(
        "ApiVersions",
        "",
        r"^\.(supported|finalized)_features\[(?!transaction)[^]]*\]$",
        "features",
        "there are levels of `transaction.version` alone",
        ours="null",
    ),
    Row(
        "ApiVersions",
        r" v(-1|5)$",
        "^$",
        "a version that does not exist",
        "the answer lists the versions of all APIs, and not those of ApiVersions alone",
    ),
    Row(
        "CreateAcls",
        r" 1$",
        r"error_(code|message)$",
        "ANY",
        "an ACL of ANY: Kafka fails with `UNKNOWN_SERVER_ERROR`; we say what is wrong with it",
    ),
    Row(
        "IncrementalAlterConfigs",
        "config_operation",
        r"error_(code|message)$",
        "operations",
        "an operation that does not exist: Kafka fails with `UNKNOWN_SERVER_ERROR`; we say what "
        "is wrong with it",
    ),
    Row(
        "DescribeConfigs",
        "include_documentation True$",
        r"\.documentation$",
        "`documentation`",
        "in our own words, of what is supported",
    ),
    Row(
        "DescribeLogDirs",
        "",
        r"\.(total|usable)_bytes$",
        "`total_bytes`, `usable_bytes`",
        "without `--data` nobody knows how much room there is",
        ours="-1",
    ),
    Row(
        "DescribeLogDirs",
        "topics (null|of negative length)$|as v1$",
        r"\.topics\[__\w+\]\.partitions\[\d\]\.partition_size$",
        "internal topics",
        "their sizes are those of all that was written before",
    ),
    Row(
        "Produce",
        "",
        r"error_message$",
        "`error_message`",
        "a batch that is refused: Kafka gives a reason with few errors; we give one with each",
        theirs='null|"Record size .*',
        ours='"[A-Z_]+: .*"',
    ),
    Row(
        "FindCoordinator",
        "key_type 2$",
        r"error_message$",
        "`error_message`",
        "a key that names no share partition: Kafka gives no reason",
        theirs='""',
    ),
    Row(
        "OffsetCommit",
        r"retention_time -?9223372036854775\d+$",
        "^$",
        "`retention_time`",
        "a time that no calendar holds is a request that cannot be read",
        ours='"closed"',
    ),
    Row(
        "WriteTxnMarkers",
        r"producer_(id|epoch) -\d+$",
        r"error_code$",
        "negative producer ids and epochs",
        "Kafka writes markers of some, and fails with `UNKNOWN_SERVER_ERROR` with others; we "
        "refuse them, for no producer has them",
        ours='"INVALID_REQUEST"',
    ),
    Row(
        "CreatePartitions",
        "count 2147483647$",
        r"error_(code|message)$",
        "more than 10,000 at once",
        "both refuse them: Kafka looks at the assignment first, we at the number",
        ours='"(POLICY_VIOLATION|Unable to perform excessively large batch operation.)"',
    ),
    Row(
        "UpdateFeatures",
        "feature_updates",
        r"^\.error_message$",
        "`error_message`",
        "names the controller, which is 0 in a process that has one for all brokers",
        theirs=".* Local controller 1 .*",
        ours=".* Local controller 0 .*",
    ),
    _fails(
        "AlterUserScramCredentials",
        "salted_password empty$",
        r"error_(code|message)$",
        "an empty password",
        "refuse it with `UNACCEPTABLE_CREDENTIAL`",
    ),
    Row(
        "AlterPartitionReassignments",
        "topics empty$",
        r"^\.error_message$",
        "no topics",
        "Kafka's message of no error is empty; ours is null",
        '""',
        "null",
    ),
    Row(
        "DescribeTopicPartitions",
        "partition_index 2147483647$",
        r"^\.next_cursor$",
        "a cursor behind the last partition",
        "Kafka counts on, and over; with us there is no next one",
        ours="null",
    ),
    Row(
        "DescribeTopicPartitions",
        "topics.name empty$",
        r"error_code$|topic_authorized_operations$",
        "a topic without a name",
        "Kafka fails with `UNKNOWN_SERVER_ERROR`; we say that the name is none",
    ),
    Row(
        "ShareGroupHeartbeat|ShareGroupDescribe",
        "",
        r"(member|group|assignment)_epoch$",
        "epochs",
        "the first epoch of a share group: 2 with Kafka, which counts its creation; 1 with us",
        theirs="[23]",
        ours="[12]",
    ),
    Row(
        "DescribeShareGroupOffsets",
        r"partitions (and|of) -\d+$|partitions empty$|group_id empty$",
        r"^\.groups\[0\]\.(error_(code|message)|topics\[\d\])$",
        "negative partitions, no partitions, no group id",
        "Kafka fails with `UNKNOWN_SERVER_ERROR`; we answer about each partition, or say what is "
        "wrong",
    ),
    _fails(
        "AlterShareGroupOffsets",
        r"partition_index -\d+$",
        r"^\.(error_(code|message)|responses\[0\])$",
        "negative partitions",
        "say that they do not exist",
    ),
    Row(
        "(Initialize|Read|Write)ShareGroupState",
        r"(leader|state)_epoch -1$",
        r"partitions\[0\]\.(error_(code|message)|start_offset|state_epoch)$",
        "an epoch of -1",
        "Kafka compares it with none; to us it is a lower one",
    ),
    Row(
        "WriteShareGroupState",
        r"delivery_state (-\d+|127)$",
        r"partitions\[0\]\.error_(code|message)$",
        "delivery states that do not exist",
        "Kafka keeps them; we refuse them",
        ours='"INVALID_REQUEST"|"delivery state .*"',
    ),
    Row(
        "(Initialize|Read|Write)ShareGroupState",
        "",
        r"partitions\[0\]\.error_message$",
        "`error_message`",
        "a refusal of share groups: in our own words",
        theirs='"(The|This|Read|Write) .*"',
        ours='".*"',
    ),
)


def unexplained(
    api: str, theirs: Mapping[str, Answers], ours: Mapping[str, Answers], used: set[Row]
) -> Iterator[tuple[str, str, str, Any, Any]]:
    """The chunk, label, path and both values of each difference of which no row speaks."""
    for chunk, answers in theirs.items():
        assert answers.keys() == ours[chunk].keys(), chunk
        for label, answer in answers.items():
            for path, one, other in differences_of(answer, ours[chunk][label]):
                rows = [row for row in ROWS if row.covers(api, label, path, one, other)]
                used.update(rows)
                if not rows:
                    yield chunk, label, path, one, other


def differences_of(theirs: Answer, ours: Answer) -> Iterator[tuple[str, Any, Any]]:
    """The differences of two answers; as a whole where one of them is none."""
    if isinstance(theirs, str) or isinstance(ours, str):
        if theirs != ours:
            yield "", theirs, ours
        return
    yield from differences(_by_key(theirs), _by_key(ours))


def _by_key(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer of ApiVersions with its APIs by their keys; any other as it is."""
    if "api_keys" not in answer:
        return answer
    return {**answer, "api_keys": {str(one["api_key"]): one for one in answer["api_keys"]}}


def pinned(label: str, path: str, theirs: Any, ours: Any) -> Pin:
    """A difference as it is pinned: one for all versions in which it is the same."""
    return label, _shown(path), _shown(json.dumps(theirs)), _shown(json.dumps(ours))


def _shown(text: str) -> str:
    text = _NAMES.sub("<name>", text)
    text = _LONG.sub("x…", _BLANKS.sub("  ", text))
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def still_open() -> dict[str, list[Pin]]:
    """The pinned differences, by API."""
    kept = json.loads(OPEN.read_text())
    return {api: [(a, b, c, d) for a, b, c, d in pins] for api, pins in kept.items()}


def keep_open(pins: Mapping[str, Sequence[Pin]]) -> None:
    """Write them anew, a difference a line."""
    of = {api: ",\n".join(json.dumps(one) for one in many) for api, many in pins.items() if many}
    listed = ",\n".join(f"{json.dumps(api)}: [\n{lines}\n]" for api, lines in of.items())
    OPEN.write_text(f"{{\n{listed}\n}}\n" if listed else "{}\n")
