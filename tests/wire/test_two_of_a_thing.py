"""Requests with lists: each of many things is answered as if it were alone, and so if repeated."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import pytest
from attrs import field, frozen

from refimpl.edge.testing.blocking import BlockingCluster
from tests.wire.asking import TIMEOUT, Ask, create, produce, topic
from tests.wire.client import Client
from tests.wire.group_scripts import committed, ids
from tests.wire.recording import NOT_YET

TOPICS = {"t": 3, "u": 5, "v": 0}
LATEST = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
OF_G = {"group_id": "g", "require_stable": False}
END = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 1}


ONLY_NAMES = {
    *("name", "topic", "topic_name", "resource_type", "resource_name"),
    *("error_code", "error_message"),
}


@frozen
class Question:
    """A request whose list may hold any number of these entries."""

    api: str
    version: int
    #: The field of the list, and that of the list in the answer
    asked: str
    answered: str
    entries: Sequence[Mapping[str, Any]] | Sequence[str] | Sequence[int]
    more: Mapping[str, Any] = field(factory=dict[str, Any])
    #: The field of a topic, or group, that holds the entries; they are the list itself if None
    within: tuple[str, Mapping[str, Any]] | None = None

    def __str__(self) -> str:
        """The request, its list, and what the first entry is."""
        inner = self.within[0] if self.within else f"{self.entries[0]}"
        return f"{self.api} {self.asked} {inner}"

    def answers(self, ask: Ask, entries: Sequence[Any]) -> list[Any]:
        """The entries of the answer, each partition on its own."""
        if self.within:
            name, outer = self.within
            entries = [{**outer, name: entries}]
        answer = ask(self.api, self.version, **{self.asked: entries}, **self.more)
        return [one for entry in answer[self.answered] for one in _single(entry)]


def _single(entry: Mapping[str, Any]) -> Iterator[Any]:
    """An entry of an answer; of one that has only partitions or settings, each with its name."""
    inner = next((one for one in ("partitions", "configs") if one in entry), None)
    if inner and (entry[inner] or "error_code" not in entry) and set(entry) - {inner} <= ONLY_NAMES:
        for one in entry[inner]:
            yield {**entry, inner: one}
    else:
        yield entry


def _topics(field: str, *partitions: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{field: name, "partitions": partitions} for name in (*TOPICS, "missing")]


QUESTIONS = [
    Question("ListOffsets", 7, "topics", "topics", _topics("name", LATEST), {"replica_id": -1}),
    Question(
        *("OffsetForLeaderEpoch", 4, "topics", "topics", _topics("topic", END)),
        {"replica_id": -1},
    ),
    Question(
        *("Metadata", 9, "topics", "topics", [{"name": name} for name in (*TOPICS, "missing")]),
        {"allow_auto_topic_creation": False},
    ),
    Question(
        *("DescribeTopicPartitions", 0, "topics", "topics", [{"name": name} for name in TOPICS]),
        {"response_partition_limit": 100, "cursor": None},
    ),
    Question(
        *("FindCoordinator", 4, "coordinator_keys", "coordinators", ["g", "h", "i"]),
        {"key_type": 0},
    ),
    Question(
        *("DescribeGroups", 5, "groups", "groups", ["g", "h", "nobody's"]),
        {"include_authorized_operations": False},
    ),
    Question(
        *("ConsumerGroupDescribe", 0, "group_ids", "groups", ["g", "h", "nobody's"]),
        {"include_authorized_operations": False},
    ),
    Question(
        *("OffsetFetch", 8, "groups", "groups"),
        [{"group_id": group, "topics": None} for group in ("g", "h", "nobody's")],
        {"require_stable": False},
    ),
    Question(
        *("DescribeConfigs", 4, "resources", "results"),
        [
            {"resource_type": 2, "resource_name": name, "configuration_keys": ["retention.ms"]}
            for name in (*TOPICS, "missing")
        ],
        {"include_synonyms": False, "include_documentation": False},
    ),
    Question(
        *("DescribeProducers", 0, "topics", "topics"),
        [{"name": name, "partition_indexes": [0, 1]} for name in (*TOPICS, "missing")],
    ),
    Question("DescribeTransactions", 0, "transactional_ids", "transaction_states", ["x", "y"]),
    Question(
        *("DeleteRecords", 2, "topics", "topics"),
        _topics("name", {"partition_index": 0, "offset": 0}),
        {"timeout": TIMEOUT},
    ),
]


T: Mapping[str, Any] = {"name": "t"}
WITHIN = [
    Question(
        *("ListOffsets", 7, "topics", "topics"),
        [{**LATEST, "partition_index": number} for number in (0, 1, 7)],
        {"replica_id": -1},
        ("partitions", T),
    ),
    Question(
        *("OffsetForLeaderEpoch", 4, "topics", "topics"),
        [{**END, "partition": number} for number in (0, 1, 7)],
        {"replica_id": -1},
        ("partitions", {"topic": "t"}),
    ),
    Question("OffsetFetch", 7, "topics", "topics", [0, 1, 7], OF_G, ("partition_indexes", T)),
    Question(
        *("OffsetFetch", 7, "topics", "topics"),
        [{"name": name, "partition_indexes": [0, 1]} for name in (*TOPICS, "missing")],
        OF_G,
    ),
    Question(
        *("DescribeProducers", 0, "topics", "topics", [0, 1, 7]),
        within=("partition_indexes", T),
    ),
    Question(
        *("ShareGroupDescribe", 1, "group_ids", "groups", ["g", "h", "nobody's"]),
        {"include_authorized_operations": False},
    ),
    Question(
        *("DescribeShareGroupOffsets", 0, "groups", "groups"),
        [{"group_id": group, "topics": None} for group in ("g", "h", "nobody's")],
    ),
    Question(
        *(
            "DescribeConfigs",
            4,
            "resources",
            "results",
            ["retention.ms", "segment.ms", "cleanup.policy"],
        ),
        {"include_synonyms": False, "include_documentation": False},
        ("configuration_keys", {"resource_type": 2, "resource_name": "t"}),
    ),
]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """A broker with topics of different lengths, and groups with different offsets."""
    with BlockingCluster(brokers=1) as cluster:
        first, _, _ = cluster.bootstrap.partition(",")
        with Client.connect(int(first.rpartition(":")[2])) as client:

            def asking(api: str, version: int, **values: Any) -> dict[str, Any]:
                return client.ask(api, version, values)

            create(asking, *(topic(name, 2) for name in TOPICS))
            for name, count in TOPICS.items():
                if count:
                    produce(asking, name, count)
            topic_id = ids(asking)["t"]
            for group, offset in (("g", 1), ("h", 2)):
                offsets = committed(8, topic_id, 0, committed_offset=offset)
                _commit(asking, group, offsets)
            yield asking


def _commit(ask: Ask, group: str, topics: list[dict[str, Any]]) -> None:
    """Commit as soon as the coordinator has loaded."""
    while True:
        ask("FindCoordinator", 4, key_type=0, coordinator_keys=[group])
        answer = ask(
            "OffsetCommit",
            8,
            group_id=group,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=topics,
        )
        error = answer["topics"][0]["partitions"][0]["error_code"]
        if error not in NOT_YET:
            assert error == "NONE"
            return


@pytest.mark.parametrize("question", [*QUESTIONS, *WITHIN], ids=str)
def test_each_of_many_is_answered_as_if_it_were_alone(question: Question, ask: Ask) -> None:
    alone = [question.answers(ask, [one]) for one in question.entries]
    assert all(alone)
    numbers = range(len(question.entries))
    for size in (2, len(question.entries)):
        for chosen in permutations(numbers, size):
            found = question.answers(ask, [question.entries[number] for number in chosen])
            expected = [one for number in chosen for one in alone[number]]
            assert sorted(map(str, found)) == sorted(map(str, expected))


@pytest.mark.parametrize("question", [*QUESTIONS, *WITHIN], ids=str)
def test_one_that_is_named_twice_changes_no_answer(question: Question, ask: Ask) -> None:
    """It is answered once or twice, by the request; only ListOffsets refuses it, as in Kafka."""
    first, *others = [question.answers(ask, [one]) for one in question.entries]
    found = question.answers(ask, [question.entries[0], *question.entries])
    rest = [one for answers in others for one in answers]
    assert all(one in found for one in rest)
    twice = [one for one in found if one not in rest]
    if question.api == "ListOffsets":
        assert {one["partitions"]["error_code"] for one in twice} == {"INVALID_REQUEST"}
    else:
        assert twice in (first, first * 2)


def test_an_error_of_a_group_is_each_partitions_in_a_version_that_has_no_other() -> None:
    topics = [{"name": "t", "partition_indexes": [0, 2]}, {"name": "u", "partition_indexes": [1]}]
    error = "NOT_COORDINATOR"
    with BlockingCluster(brokers=2) as cluster:
        first, second = (int(one.rpartition(":")[2]) for one in cluster.bootstrap.split(","))
        with Client.connect(first) as one, Client.connect(second) as two:
            while (found := one.ask("FindCoordinator", 3, {"key": "g", "key_type": 0}))[
                "error_code"
            ] in NOT_YET:
                pass
            other = two if found["port"] == first else one
            old, new = (
                other.ask("OffsetFetch", version, {"group_id": "g", "topics": topics})
                for version in (1, 2)
            )
    assert [
        [(one["partition_index"], one["error_code"]) for one in topic["partitions"]]
        for topic in old["topics"]
    ] == [[(0, error), (2, error)], [(1, error)]]
    assert (new["error_code"], new["topics"]) == (error, [])
