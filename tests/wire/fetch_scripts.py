"""Scripts for Fetch: positions, limits, epochs, sessions and topics by id."""

from typing import Any
from uuid import UUID

from tests.wire.asking import Ask, create, produce, topic

BY_NAME, BY_ID = range(4, 13), range(13, 19)


def _fetch(
    ask: Ask, version: int, named: dict[str, Any], *partitions: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """One topic, without waiting; a session only where one is named."""
    known = {"current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
    wanted = [{**known, "partition_max_bytes": 1 << 20, **one} for one in partitions]
    asked = {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20}
    topics = [{**named, "partitions": wanted}] if named else []
    asked |= {"session_id": 0, "session_epoch": -1, "topics": topics, "rack_id": ""}
    return ask("Fetch", version, **{**asked, "forgotten_topics_data": [], **more})


def fetches(ask: Ask) -> None:
    """Fetch in every version: where to read, how much, and what has no answer."""
    made = create(ask, topic("t", 2))
    by_id = {"topic_id": UUID(made["topics"][0]["topic_id"])}
    for _ in range(3):
        produce(ask, "t", 10)
    for version in (*BY_NAME, *BY_ID):
        named = {"topic": "t"} if version in BY_NAME else by_id
        for partition, offset in ((0, 0), (0, 15), (0, 30), (0, 31), (0, -1), (1, 0), (7, 0)):
            _fetch(ask, version, named, {"partition": partition, "fetch_offset": offset})
        both = [{"partition": number, "fetch_offset": 0} for number in (1, 0)]
        _fetch(ask, version, named, *both, isolation_level=1)
    for limits in ((1, 1 << 20), (1 << 20, 1), (300, 1 << 20), (1 << 20, 300), (0, 0)):
        of_all, of_one = limits
        one = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": of_one}
        _fetch(ask, 12, {"topic": "t"}, one, max_bytes=of_all)
    for name in ("missing", "bad name"):
        _fetch(ask, 12, {"topic": name}, {"partition": 0, "fetch_offset": 0})
    nobody = {"topic_id": UUID(int=1)}
    _fetch(ask, 13, nobody, {"partition": 0, "fetch_offset": 0})
    _epochs(ask)
    for version in (7, 12, 13, 17):
        _session(ask, version, {"topic": "t"} if version in BY_NAME else by_id)


def _epochs(ask: Ask) -> None:
    """Leader epochs that are not the leader's (KIP-320)."""
    end = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": "t", "topic": "t", "partitions": [end]}]
    listed = ask("ListOffsets", 7, replica_id=-1, topics=topics)
    now = listed["topics"][0]["partitions"][0]["leader_epoch"]
    for version in (9, 12):
        for epoch in (now, now + 1):
            one = {"partition": 0, "fetch_offset": 5, "current_leader_epoch": epoch}
            _fetch(ask, version, {"topic": "t"}, one)


def _session(ask: Ask, version: int, named: dict[str, Any]) -> None:
    """A session's life: only news are answered, and what is not its next request is refused."""
    first, second = ({"partition": number, "fetch_offset": 0} for number in (0, 1))
    at_end = {**first, "fetch_offset": 30}
    whole = _fetch(ask, version, named, first, second, session_epoch=0)
    id = whole["session_id"]
    _fetch(ask, version, {}, session_id=id, session_epoch=1)
    _fetch(ask, version, named, at_end, session_id=id, session_epoch=2)
    _fetch(ask, version, {}, session_id=id, session_epoch=3)
    _fetch(ask, version, {}, session_id=id, session_epoch=9)
    gone = {**named, "partitions": [1]}
    more = {"forgotten_topics_data": [gone], "session_id": id}
    _fetch(ask, version, {}, session_epoch=4, **more)
    _fetch(ask, version, named, {**first, "fetch_offset": 99}, session_id=id, session_epoch=5)
    _fetch(ask, version, {}, session_id=id, session_epoch=6)
    _fetch(ask, version, {}, session_id=id, session_epoch=-1)
    _fetch(ask, version, {}, session_id=id, session_epoch=7)
    _fetch(ask, version, {}, session_id=123456789, session_epoch=1)


def quorum(ask: Ask) -> None:
    """DescribeQuorum, of the metadata and of what has no quorum."""
    metadata = "__cluster_metadata"
    other: dict[str, Any] = {"topic_name": "t", "partitions": []}
    zero, one = {"partition_index": 0}, {"partition_index": 1}
    for version in range(3):
        ask("DescribeQuorum", version, topics=[{"topic_name": metadata, "partitions": [zero]}])
    for partitions in ([], [one], [zero, one], [zero, zero]):
        ask("DescribeQuorum", 2, topics=[{"topic_name": metadata, "partitions": partitions}])
    ask("DescribeQuorum", 2, topics=[])
    ask("DescribeQuorum", 2, topics=[{"topic_name": "t", "partitions": [zero]}])
    ask("DescribeQuorum", 2, topics=[{"topic_name": metadata, "partitions": [zero]}, other])


def config_resources(ask: Ask) -> None:
    """ListConfigResources: what there are configurations of (KIP-1142)."""
    create(ask, topic("t"), topic("u"))
    ask("ListConfigResources", 0)
    for types in ([], [2], [4], [8], [16], [32], [2, 4], [1], [2, 77]):
        ask("ListConfigResources", 1, resource_types=types)
