"""Scripts of members of share groups, of their administrators, and of leaders that keep their state
(KIP-932): every API in every version.

All requests come from one connection. `me` is the member, and the group begins at the log's start.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from tests.wire.asking import Ask, create, produce, topic
from tests.wire.group_scripts import find, ids

GROUP_RESOURCE, SHARES = 32, 2
ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0
FIRST, LAST = 0, -1
NOBODY = UUID(int=77)
#: The state of a topic's partition, by an id as Kafka writes it.
KEY = "g:AAAAAAAAAAAAAAAAAAAATQ:0"
WAITS: dict[str, Any] = {"max_wait": 2000, "min_bytes": 1}


def heartbeat(ask: Ask, group: str = "g", member: str = "me", epoch: int = 0, **more: Any) -> Any:
    """ShareGroupHeartbeat."""
    asked = {"group_id": group, "member_id": member, "member_epoch": epoch, **more}
    return ask("ShareGroupHeartbeat", 1, **{"subscribed_topic_names": None, **asked})


def acks(first: int, last: int, *types: int) -> dict[str, Any]:
    """One batch of acknowledgements."""
    return {"first_offset": first, "last_offset": last, "acknowledge_types": types}


def of(id: UUID, *batches: Mapping[str, Any], partition: int = 0) -> list[dict[str, Any]]:
    """One partition of a ShareFetch or a ShareAcknowledge."""
    asked = {"partition_index": partition, "acknowledgement_batches": batches}
    return [{"topic_id": id, "partitions": [asked]}]


def share_fetch(ask: Ask, version: int, epoch: int, topics: Any, **more: Any) -> Any:
    """ShareFetch, for at most so many records."""
    asked: dict[str, Any] = {
        **{"group_id": "g", "member_id": "me", "share_session_epoch": epoch, "topics": topics},
        **{"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20, "max_records": 4, "batch_size": 4},
        **{"forgotten_topics_data": [], **more},
    }
    return ask("ShareFetch", version, **asked)


def acknowledge(ask: Ask, version: int, epoch: int, topics: Any, **more: Any) -> Any:
    """ShareAcknowledge."""
    asked = {"group_id": "g", "member_id": "me", "share_session_epoch": epoch, "topics": topics}
    return ask("ShareAcknowledge", version, **{**asked, **more})


def earliest(ask: Ask, *groups: str) -> None:
    """Let these groups begin at the start of the log."""
    value = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
    for group in groups:
        one = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": [value]}
        ask("IncrementalAlterConfigs", 1, resources=[one], validate_only=False)


def share_groups(ask: Ask) -> None:
    """ShareGroupHeartbeat and ShareGroupDescribe."""
    create(ask, topic("t", 2))
    find(ask, 4, "g")
    heartbeat(ask, group="")
    heartbeat(ask, member="", subscribed_topic_names=["t"])
    heartbeat(ask, subscribed_topic_names=None)
    heartbeat(ask, subscribed_topic_names=[])
    heartbeat(ask, epoch=3)
    heartbeat(ask, epoch=-1)
    heartbeat(ask, epoch=-2, subscribed_topic_names=["t"])
    heartbeat(ask, rack_id="", subscribed_topic_names=["t"])
    heartbeat(ask, epoch=1, until=_is_assigned)
    heartbeat(ask, subscribed_topic_names=["missing"])
    heartbeat(ask, member="nobody", epoch=2)
    heartbeat(ask, epoch=9)
    heartbeat(ask, epoch=-1)
    for groups in (["g"], ["absent"], [""], ["g", "absent"]):
        for operations in (False, True):
            more = {"include_authorized_operations": operations}
            ask("ShareGroupDescribe", 1, group_ids=groups, **more)
    ask("ListGroups", 5, states_filter=[], types_filter=["share"])
    ask("ConsumerGroupDescribe", 0, group_ids=["g"], include_authorized_operations=False)
    ask("DescribeGroups", 5, groups=["g"], include_authorized_operations=False)
    ask("DeleteGroups", 2, groups_names=["g"])
    ask("ShareGroupDescribe", 1, group_ids=["g"], include_authorized_operations=False)


def share_sessions(ask: Ask) -> None:
    """ShareFetch and ShareAcknowledge, with their refusals."""
    create(ask, topic("t"))
    id = ids(ask)["t"]
    earliest(ask, "g")
    find(ask, 6, KEY, key_type=SHARES)
    state(ask, "Initialize", id, state_epoch=1, start_offset=0)
    produce(ask, "t", 4)
    produce(ask, "t", 4)
    for version in (1, 2):
        share_fetch(ask, version, FIRST, of(id), group_id=None)
        share_fetch(ask, version, FIRST, of(id), member_id=None)
        share_fetch(ask, version, FIRST, of(id, acks(0, 0, ACCEPT)))
        share_fetch(ask, version, 3, of(id))
        share_fetch(ask, version, LAST, of(id))
        acknowledge(ask, version, FIRST, of(id, acks(0, 0, ACCEPT)))
        acknowledge(ask, version, 1, of(id, acks(0, 0, ACCEPT)))
        acknowledge(ask, version, LAST, of(id, acks(0, 0, ACCEPT)))
        acknowledge(ask, version, FIRST, of(id), group_id=None)
    share_fetch(ask, 2, FIRST, of(NOBODY))
    share_fetch(ask, 2, LAST, [])
    share_fetch(ask, 2, FIRST, of(id, partition=7))
    share_fetch(ask, 2, LAST, [])
    share_fetch(ask, 1, FIRST, of(id), **WAITS)
    share_fetch(ask, 1, 5, of(id))
    acknowledge(ask, 1, 1, of(id, acks(0, 0, ACCEPT)))
    acknowledge(ask, 1, 2, of(id, acks(1, 1, RELEASE)))
    acknowledge(ask, 1, 3, of(id, acks(3, 2, ACCEPT)))
    acknowledge(ask, 1, 4, of(id, acks(2, 3)))
    acknowledge(ask, 1, 5, of(id, acks(2, 3, ACCEPT, ACCEPT, ACCEPT)))
    acknowledge(ask, 1, 6, of(id, acks(2, 3, RENEW)))
    acknowledge(ask, 1, 7, of(id, acks(2, 3, 9)))
    acknowledge(ask, 1, 8, of(id, acks(2, 3, ACCEPT), acks(3, 3, ACCEPT)))
    acknowledge(ask, 1, 9, of(id, acks(6, 7, ACCEPT)))
    acknowledge(ask, 1, 10, of(id, acks(100, 101, ACCEPT)))
    acknowledge(ask, 1, 11, of(NOBODY, acks(2, 3, ACCEPT)))
    acknowledge(ask, 1, 12, of(id, acks(2, 2, ACCEPT), partition=7))
    acknowledge(ask, 2, 13, of(id, acks(2, 3, RENEW)), is_renew_ack=True)
    acknowledge(ask, 2, 14, of(id, acks(2, 3, RENEW)), is_renew_ack=False)
    acknowledge(ask, 2, 15, of(id, acks(2, 3, REJECT, GAP)))
    acknowledge(ask, 2, 16, of(id, acks(2, 3, ACCEPT)))
    share_fetch(ask, 2, 17, [], max_records=1, batch_size=1, share_acquire_mode=1, **WAITS)
    more: dict[str, Any] = {**WAITS, "max_records": 2, "share_acquire_mode": 1}
    share_fetch(ask, 2, 18, of(id, acks(1, 1, ACCEPT)), **more)
    share_fetch(ask, 2, 19, of(id, acks(4, 4, RENEW)), is_renew_ack=True)
    still: dict[str, Any] = {"max_bytes": 0, "max_records": 0, "batch_size": 0}
    share_fetch(ask, 2, 19, of(id, acks(4, 4, RENEW)), is_renew_ack=True, **still)
    share_fetch(ask, 2, LAST, of(id, acks(4, 5, ACCEPT)))


def state(
    ask: Ask, what: str, id: UUID, version: int = 0, group: Any = "g", suffix: Any = "", **of: Any
) -> None:
    """One of the APIs of a group's state, about one partition."""
    one = {"topic_id": id, "partitions": [{"partition": 0, **of}]}
    ask(f"{what}ShareGroupState{suffix}", version, group_id=group, topics=[one])


def stored(first: int, last: int, state: int, count: int) -> dict[str, Any]:
    """A batch of a WriteShareGroupState."""
    batch = {"first_offset": first, "last_offset": last, "delivery_state": state}
    return {**batch, "delivery_count": count}


def share_states(ask: Ask) -> None:
    """Initialize, Read, Write, Delete and ReadSummary of a group's state."""
    create(ask, topic("t"))
    id = ids(ask)["t"]
    find(ask, 6, KEY, key_type=SHARES)
    find(ask, 6, "g", key_type=SHARES)
    find(ask, 6, f"g:{KEY}", key_type=SHARES)
    find(ask, 5, KEY, key_type=SHARES)
    state(ask, "Read", id, leader_epoch=0)
    state(ask, "Write", id, state_epoch=1, leader_epoch=0, start_offset=0, state_batches=[])
    for version in (0, 1):
        state(ask, "Read", id, version, suffix="Summary", leader_epoch=0)
    state(ask, "Delete", id)
    state(ask, "Initialize", NOBODY, state_epoch=1, start_offset=0)
    state(ask, "Initialize", id, group="", state_epoch=1, start_offset=0)
    state(ask, "Initialize", id, state_epoch=-1, start_offset=0)
    state(ask, "Initialize", id, state_epoch=2, start_offset=3)
    state(ask, "Initialize", id, state_epoch=1, start_offset=9)
    state(ask, "Read", id, leader_epoch=4)
    state(ask, "Read", id, leader_epoch=3)
    state(ask, "Read", id, leader_epoch=-1)
    written: dict[str, Any] = {"state_epoch": 2, "leader_epoch": 4, "start_offset": 3}
    for version in (0, 1):
        batches = [stored(3, 5, 2, 1), stored(6, 6, 0, 2), stored(8, 9, 4, 5)]
        state(ask, "Write", id, version, **written, state_batches=batches)
    state(ask, "Read", id, leader_epoch=4)
    wrong: dict[str, Any]
    for wrong in ({"state_epoch": 1}, {"leader_epoch": 3}, {"state_epoch": 3}):
        state(ask, "Write", id, **{**written, **wrong}, state_batches=[])
    state(ask, "Write", id, **{**written, "start_offset": 6}, state_batches=[stored(6, 7, 2, 3)])
    state(ask, "Write", id, **{**written, "start_offset": -1}, state_batches=[])
    state(ask, "Write", NOBODY, **written, state_batches=[])
    state(ask, "Read", id, leader_epoch=5)
    state(ask, "Read", NOBODY, leader_epoch=5)
    for version in (0, 1):
        for epoch in (5, 4, -1):
            state(ask, "Read", id, version, suffix="Summary", leader_epoch=epoch)
        state(ask, "Read", NOBODY, version, suffix="Summary", leader_epoch=5)
    for what in ("Initialize", "Read", "Write", "Delete"):
        ask(f"{what}ShareGroupState", 0, group_id="g", topics=[])
    state(ask, "Delete", NOBODY)
    state(ask, "Delete", id)
    state(ask, "Delete", id)
    state(ask, "Read", id, leader_epoch=0)


def share_offsets(ask: Ask) -> None:
    """Describe, Alter and DeleteShareGroupOffsets."""
    create(ask, topic("t", 2))
    produce(ask, "t", 5)

    def describe(version: int, group: str, *topics: str, all: bool = False) -> None:
        named = [{"topic_name": name, "partitions": [0, 1]} for name in topics]
        wanted = {"group_id": group, "topics": None if all else named}
        ask("DescribeShareGroupOffsets", version, groups=[wanted])

    def alter(group: str, name: str, *offsets: tuple[int, int]) -> None:
        partitions = [{"partition_index": n, "start_offset": offset} for n, offset in offsets]
        one = {"topic_name": name, "partitions": partitions}
        ask("AlterShareGroupOffsets", 0, group_id=group, topics=[one])

    def delete(group: str, *names: str) -> None:
        topics = [{"topic_name": name} for name in names]
        ask("DeleteShareGroupOffsets", 0, group_id=group, topics=topics)

    earliest(ask, "g")
    find(ask, 4, "g")
    for version in (0, 1):
        describe(version, "absent", all=True)
        describe(version, "absent", "t")
    delete("absent", "t")
    joined = heartbeat(ask, subscribed_topic_names=["t"])
    heartbeat(ask, epoch=joined["member_epoch"], until=_is_assigned)
    alter("g", "t", (0, 3))
    delete("g", "t")
    for version in (0, 1):
        describe(version, "g", "t", "missing")
    heartbeat(ask, epoch=-1)
    alter("g", "t", (0, 3), (1, 0), (7, 0))
    alter("g", "missing", (0, 3))
    for version in (0, 1):
        describe(version, "g", all=True)
    delete("g", "missing")
    delete("g", "t")
    delete("g", "t")
    for version in (0, 1):
        describe(version, "g", "t")
    delete("")
    alter("", "t", (0, 1))
    ask("DeleteGroups", 2, groups_names=["g"])
    describe(1, "g", all=True)


def _is_assigned(answer: Mapping[str, Any]) -> bool:
    """True once a member has partitions, or is refused."""
    told = answer["assignment"]
    return answer["error_code"] != "NONE" or bool(told and told["topic_partitions"])
