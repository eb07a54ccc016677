"""Scripts about client quotas: AlterClientQuotas, and the throttling of clients."""

from collections.abc import Mapping
from typing import Any

from tests.wire.asking import TIMEOUT, Ask, create, produce, topic


def quota(entity: Mapping[str, str | None], **values: float | None) -> dict[str, Any]:
    """Quotas of one entity; None removes."""
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None}
            for key, value in values.items()
        ],
    }


def quotas(ask: Ask) -> None:
    """AlterClientQuotas and DescribeClientQuotas."""
    user, client = {"user": "alice"}, {"client-id": "reporter"}
    for version in range(2):
        one = quota({**user, **client}, producer_byte_rate=1_000_000.0 + version)
        ask("AlterClientQuotas", version, entries=[one])
    for one in (
        quota(user, consumer_byte_rate=5e7, request_percentage=12.5),
        quota({"user": None}, producer_byte_rate=7e7),
        quota({"client-id": None}, producer_byte_rate=8e7),
        quota({"ip": "127.0.0.2"}, connection_creation_rate=900.0),
        quota(user, consumer_byte_rate=None),
    ):
        ask("AlterClientQuotas", 1, entries=[one])
    for match in (
        [],
        [("user", 0, "alice")],
        [("user", 1, None)],
        [("user", 2, None)],
        [("user", 0, "alice"), ("client-id", 2, None)],
        [("client-id", 2, None)],
        [("ip", 2, None)],
        [("ip", 2, None), ("user", 2, None)],
        [("shoe", 2, None)],
        [("user", 7, None)],
        [("user", 0, "alice"), ("user", 0, "bob")],
        [("", 0, "x")],
    ):
        components = [{"entity_type": t, "match_type": m, "match": n} for t, m, n in match]
        for strict in (False, True):
            ask("DescribeClientQuotas", 1, components=components, strict=strict)
    ask("DescribeClientQuotas", 0, components=[], strict=False)
    for wrong in (
        quota(user, producer_byte_rate=0.0),
        quota(user, producer_byte_rate=-1.0),
        quota(user, producer_byte_rate=1.5),
        quota(user, producer_byte_rate=1e30),
        quota(user, byte_rate=5.0),
        quota(user, connection_creation_rate=5.0),
        quota({"ip": "127.0.0.2"}, producer_byte_rate=5.0),
        quota({"ip": "127.0.0.2", **user}, connection_creation_rate=5.0),
        quota({"shoe": "left"}, producer_byte_rate=5.0),
        quota({}, producer_byte_rate=5.0),
        quota({"user": ""}, producer_byte_rate=5.0),
    ):
        ask("AlterClientQuotas", 1, entries=[wrong])
    ask("AlterClientQuotas", 1, entries=[quota(user, producer_byte_rate=9.0)], validate_only=True)
    twice = quota(user, producer_byte_rate=9.0)
    ask("AlterClientQuotas", 1, entries=[{**twice, "ops": twice["ops"] * 2}])
    ask("AlterClientQuotas", 1, entries=[twice, twice])
    ask("DescribeClientQuotas", 1, components=[], strict=False)


SCRIPT = {"client-id": "script"}
"""The client who asks."""


def throttles(ask: Ask) -> None:
    """Throttle clients by controller_mutation_rate and by request_percentage.

    The quotas are so small that an hour more or less makes no difference.
    """
    create(ask, topic("t", 2), topic("u"))
    mutations(ask)
    ask("AlterClientQuotas", 1, entries=[quota(SCRIPT, controller_mutation_rate=None)])
    create(ask, topic("again"))
    ask("AlterClientQuotas", 1, entries=[quota(SCRIPT, request_percentage=1e-7)])
    requests(ask)


def mutations(ask: Ask) -> None:
    """The first request takes more than there is, and the next ones have to wait for it."""
    ask("AlterClientQuotas", 1, entries=[quota(SCRIPT, controller_mutation_rate=1e-3)])
    create(ask, topic("bad name"), topic("t"))
    create(ask, topic("checked"), version=7, validate_only=True)
    for version in range(2, 8):
        create(ask, topic(f"v{version}", 2), topic(f"w{version}"), version=version)
    create(ask, topic("v7"), validate_only=True)
    create(ask, topic("t"), topic("bad name"))
    for version in range(4):
        one = {"name": "u", "count": 2 + version, "assignments": None}
        ask("CreatePartitions", version, topics=[one], timeout=TIMEOUT)
    for one in ({"name": "u", "count": 1}, {"name": "missing", "count": 4}):
        wrong = {**one, "assignments": None}
        ask("CreatePartitions", 3, topics=[wrong], timeout=TIMEOUT)
    for version in range(1, 6):
        names = [f"v{version + 1}", "missing"]
        ask("DeleteTopics", version, topic_names=names, timeout=TIMEOUT)
    ask("DeleteTopics", 6, topics=[{"name": "u"}, {"name": "t"}], timeout=TIMEOUT)
    ask("DeleteTopics", 6, topics=[{"name": "missing"}], timeout=TIMEOUT)


def requests(ask: Ask) -> None:
    """Every request takes more of a thread than this client may have."""
    produce(ask, "t", 1)
    ask("Metadata", 9, topics=[{"name": "t"}], allow_auto_topic_creation=False)
    ask("ListOffsets", 6, replica_id=-1, topics=[])
    ask("DescribeCluster", 0)
    ask("FindCoordinator", 4, key_type=0, coordinator_keys=[])
    ask("InitProducerId", 4, transactional_id=None, producer_id=-1, producer_epoch=-1)
    ask("DescribeClientQuotas", 1, components=[], strict=False)
    create(ask, topic("slow"))
    ask("DeleteTopics", 6, topics=[{"name": "slow"}], timeout=TIMEOUT)
    ask("AlterClientQuotas", 1, entries=[quota(SCRIPT, request_percentage=None)])
    ask("Metadata", 9, topics=[{"name": "t"}], allow_auto_topic_creation=False)
