"""Scripts of members of groups, and of their administrators, in every version.

All requests come from one connection, so that a group has one member, which waits for no other.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from refimpl.records.consumer_protocol import Subscription
from refimpl.records.schema import INT16, write
from tests.wire.asking import Ask, create, topic

SUBSCRIPTION = INT16.packing.pack(0) + write(Subscription(topics=("t",)), 0)
BYTES = b"assigned"
NEW_IDS = 10
"""The version of OffsetCommit and OffsetFetch from which on topics have ids."""


def ids(ask: Ask) -> Mapping[str, UUID]:
    """The id of the scripts' topic, by its name."""
    return ids_of(ask, "t")


def ids_of(ask: Ask, *names: str) -> Mapping[str, UUID]:
    """The ids of these topics by their names."""
    topics = [{"name": name} for name in names]
    found = ask("Metadata", 12, topics=topics, allow_auto_topic_creation=False)
    return {one["name"]: UUID(one["topic_id"]) for one in found["topics"]}


def committed(version: int, topic_id: UUID, *numbers: int, **of: Any) -> list[dict[str, Any]]:
    """The topics of an OffsetCommit."""
    name: dict[str, Any] = {"topic_id": topic_id} if version >= NEW_IDS else {"name": "t"}
    one = {"committed_offset": version, "committed_leader_epoch": -1, "committed_metadata": "m"}
    partitions = [{"partition_index": number, **one, **of} for number in numbers]
    return [{**name, "partitions": partitions}]


def commit(
    ask: Ask, version: int, group: str, topics: Any, generation: int = -1, member: str = ""
) -> None:
    """OffsetCommit."""
    ask(
        "OffsetCommit",
        version,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        retention_time=-1,
        topics=topics,
    )


def fetch(ask: Ask, version: int, group: str, topics: Any, **more: Any) -> None:
    """OffsetFetch, of one group."""
    if version < 8:
        ask("OffsetFetch", version, group_id=group, topics=topics, **more)
        return
    stable = {"require_stable": more.pop("require_stable", False)}
    groups = [{"group_id": group, "topics": topics, "member_epoch": -1, **more}]
    ask("OffsetFetch", version, groups=groups, **stable)


def wanted(version: int, topic_id: UUID, *numbers: int) -> list[dict[str, Any]]:
    """The topics of an OffsetFetch."""
    name: dict[str, Any] = {"topic_id": topic_id} if version >= NEW_IDS else {"name": "t"}
    return [{**name, "partition_indexes": numbers}]


def find(ask: Ask, version: int, *keys: str, key_type: int = 0) -> None:
    """FindCoordinator."""
    if version >= 4:
        ask("FindCoordinator", version, key_type=key_type, coordinator_keys=keys)
    else:
        ask("FindCoordinator", version, key=keys[0], key_type=key_type)


def offsets_of_groups(ask: Ask) -> None:
    """OffsetCommit, OffsetFetch, OffsetDelete, and groups that nobody ever joined."""
    create(ask, topic("t", 2))
    for version in range(7):
        find(ask, version, "s", "another")
    id = ids(ask)["t"]
    other = UUID(int=7)
    for version in range(2, 11):
        commit(ask, version, "s", committed(version, id, 0))
        commit(ask, version, "s", committed(version, id, 1, 2))
        commit(ask, version, "s", committed(version, id, 0, committed_metadata="x" * 5000))
        commit(ask, version, "s", committed(version, id, 0), 3, "nobody")
        commit(ask, version, "absent", committed(version, id, 0), 3, "nobody")
        commit(ask, version, "", committed(version, id, 0))
    commit(ask, 9, "s", [{"name": "none", "partitions": [{"partition_index": 0}]}])
    commit(ask, 10, "s", [{"topic_id": other, "partitions": [{"partition_index": 0}]}])
    for version in range(1, 11):
        fetch(ask, version, "s", wanted(version, id, 0, 1, 2))
        fetch(ask, version, "absent", wanted(version, id, 0))
        if version >= 2:
            fetch(ask, version, "s", None)
            fetch(ask, version, "absent", None)
        if version >= 7:
            fetch(ask, version, "s", wanted(version, id, 0), require_stable=True)
        if version >= 9:
            fetch(ask, version, "s", wanted(version, id, 0), member_id="nobody", member_epoch=1)
    fetch(ask, 10, "s", [{"topic_id": other, "partition_indexes": [0]}])
    for version in range(7):
        ask("DescribeGroups", version, groups=["s", "absent", ""])
    ask("DescribeGroups", 6, groups=["s"], include_authorized_operations=True)
    for version in range(6):
        ask("ListGroups", version)
    for states, types in ((["empty"], []), (["Stable"], []), ([], ["consumer"]), ([], ["Classic"])):
        ask("ListGroups", 5, states_filter=states, types_filter=types)
    partitions = [{"partition_index": number} for number in (0, 2)]
    deleted = [{"name": "t", "partitions": partitions}, {"name": "none", "partitions": partitions}]
    for group in ("s", "absent", ""):
        ask("OffsetDelete", 0, group_id=group, topics=deleted)
    fetch(ask, 9, "s", None)
    for version in range(3):
        ask("DeleteGroups", version, groups_names=["s", "absent", "s"])
        commit(ask, 9, "s", committed(9, id, 0))


def join(ask: Ask, version: int, group: str, member: str = "", **more: Any) -> dict[str, Any]:
    """JoinGroup."""
    values = {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 20_000,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
    }
    return ask("JoinGroup", version, **{**values, **more})


def classic_groups(ask: Ask) -> None:
    """The life of a member in each version, and what it is refused."""
    create(ask, topic("t", 2))
    find(ask, 6, "c0")
    id = ids(ask)["t"]
    for version in range(10):
        group = f"c{version}"
        joined = join(ask, version, group)
        if joined["error_code"] == "MEMBER_ID_REQUIRED":
            joined = join(ask, version, group, joined["member_id"])
        member, generation = joined["member_id"], joined["generation_id"]
        who = {"group_id": group, "generation_id": generation, "member_id": member}
        beat = {"Heartbeat": min(version, 4), "SyncGroup": min(version, 5)}
        commit(ask, 9, group, committed(9, id, 0), generation, member)
        ask("Heartbeat", beat["Heartbeat"], **who)
        assigned = [{"member_id": member, "assignment": BYTES}]
        protocol = {"protocol_type": "consumer", "protocol_name": "range"}
        ask("SyncGroup", beat["SyncGroup"], **who, **protocol, assignments=assigned)
        ask("SyncGroup", beat["SyncGroup"], **who, **protocol, assignments=[])
        ask("SyncGroup", 5, **who, protocol_type="consumer", protocol_name="other")
        for wrong in ({"generation_id": 7}, {"member_id": "nobody"}, {"group_id": "absent"}):
            ask("Heartbeat", beat["Heartbeat"], **{**who, **wrong})
            ask("SyncGroup", beat["SyncGroup"], **{**who, **protocol, **wrong})
        ask("Heartbeat", beat["Heartbeat"], **who)
        commit(ask, 9, group, committed(9, id, 0), generation, member)
        commit(ask, 9, group, committed(9, id, 0), generation + 1, member)
        commit(ask, 9, group, committed(9, id, 0), generation, "nobody")
        commit(ask, 9, group, committed(9, id, 0))
        ask("DescribeGroups", 6, groups=[group])
        ask("ListGroups", 5, states_filter=["stable"])
        ask("OffsetDelete", 0, group_id=group, topics=[_first("t")])
        ask("DeleteGroups", 2, groups_names=[group])
        join(ask, version, group, "nobody")
        join(ask, version, group, protocol_type="other")
        left = min(version, 5)
        if left < 3:
            ask("LeaveGroup", left, group_id=group, member_id="nobody")
            ask("LeaveGroup", left, group_id=group, member_id=member)
        else:
            members = [{"member_id": one, "group_instance_id": None} for one in ("nobody", member)]
            ask("LeaveGroup", left, group_id=group, members=members)
        ask("DescribeGroups", 6, groups=[group])
    join(ask, 9, "")
    join(ask, 9, "short", session_timeout=1)
    join(ask, 9, "none", protocols=[])
    join(ask, 9, "absent", "nobody")
    static = join(ask, 9, "static", group_instance_id="i")
    again = join(ask, 9, "static", static["member_id"], group_instance_id="i")
    members = [{"member_id": "", "group_instance_id": "i"}]
    ask("LeaveGroup", 5, group_id="static", members=members)
    join(ask, 9, "static", again["member_id"], group_instance_id="i")


def _first(name: str) -> dict[str, Any]:
    return {"name": name, "partitions": [{"partition_index": 0}]}


def consumer_groups(ask: Ask) -> None:
    """A member of a consumer group (KIP-848)."""
    create(ask, topic("t", 2))
    find(ask, 6, "k1")
    id = ids(ask)["t"]

    def beat(version: int, group: str, member: str, epoch: int, **more: Any) -> dict[str, Any]:
        values = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}
        who = {"group_id": group, "member_id": member, "member_epoch": epoch}
        return ask("ConsumerGroupHeartbeat", version, **{**who, **values, **more})

    first = {"rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    for version in (0, 1):
        group = f"k{version}"
        joined = beat(version, group, "" if version == 0 else "me", 0, **first)
        member, epoch = joined["member_id"], joined["member_epoch"]
        owned = [{"topic_id": id, "partitions": [0, 1]}]
        beat(version, group, member, epoch, topic_partitions=owned)
        beat(version, group, member, epoch)
        beat(version, group, member, epoch + 1)
        beat(version, group, "nobody", epoch)
        for of in ((epoch, member), (epoch - 1, member), (epoch + 1, member), (epoch, "nobody")):
            commit(ask, 9, group, committed(9, id, 0), *of)
        commit(ask, 8, group, committed(8, id, 0), epoch, member)
        commit(ask, 9, group, committed(9, id, 0))
        fetch(ask, 9, group, wanted(9, id, 0), member_id=member, member_epoch=epoch)
        fetch(ask, 9, group, wanted(9, id, 0), member_id=member, member_epoch=epoch + 1)
        fetch(ask, 9, group, wanted(9, id, 0), member_id="nobody", member_epoch=epoch)
        ask("ConsumerGroupDescribe", version, group_ids=[group, "absent"])
        ask("DescribeGroups", 6, groups=[group])
        ask("ListGroups", 5, types_filter=["consumer"])
        ask("OffsetDelete", 0, group_id=group, topics=[_first("t")])
        ask("DeleteGroups", 2, groups_names=[group])
        beat(version, group, member, -1)
        beat(version, group, member, -1)
        ask("ConsumerGroupDescribe", version, group_ids=[group])
        ask("OffsetDelete", 0, group_id=group, topics=[_first("t")])
        ask("DeleteGroups", 2, groups_names=[group])
    for wrong in (
        {"topic_partitions": None},
        {"rebalance_timeout": -1},
        {"subscribed_topic_names": None},
        {"server_assignor": "none"},
        {"instance_id": ""},
        {"subscribed_topic_regex": "("},
    ):
        beat(1, "wrong", "me", 0, **{**first, **wrong})
    beat(1, "", "me", 0, **first)
    beat(1, "wrong", "", 0, **first)
    beat(1, "wrong", "me", -3, **first)
    beat(1, "absent", "me", 1)
    ask("ConsumerGroupDescribe", 1, group_ids=[""])
