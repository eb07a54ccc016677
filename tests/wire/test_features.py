"""UpdateFeatures on the wire: each version, its answers, and what ApiVersions says afterwards."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from refimpl.edge.testing.blocking import BlockingCluster
from tests.refimpl.edge.patience import PATIENCE_S
from tests.wire.asking import TIMEOUT
from tests.wire.client import Client
from tests.wire.share_version import REFUSED, without_share_groups

confluent: Any = import_module("confluent_kafka")
TV = "transaction.version"
CONFIGS = {TV: "1", "transaction.state.log.num.partitions": "1"}
OK = {"error_code": "NONE", "error_message": None}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BlockingCluster]:
    with BlockingCluster(brokers=2, data=tmp_path, configs=CONFIGS) as cluster:
        yield cluster


def ask(cluster: BlockingCluster, broker: int, api: str, version: int, **of: Any) -> dict[str, Any]:
    port = int(cluster.bootstrap.split(",")[broker - 1].rpartition(":")[2])
    with Client.connect(port) as client:
        return client.ask(api, version, of)


def update(cluster: BlockingCluster, version: int, level: int, **of: Any) -> dict[str, Any]:
    """The answer to an update, that of broker 2."""
    more = {} if version == 0 else {"validate_only": of.pop("validate_only", False)}
    one = {"feature": TV, "max_version_level": level, **of}
    asked = {"timeout": TIMEOUT, "feature_updates": [one], **more}
    answer = ask(cluster, 2, "UpdateFeatures", version, **asked)
    answer.pop("throttle_time")
    return answer


def finalized(cluster: BlockingCluster, broker: int, version: int = 4) -> tuple[int, int]:
    """The epoch of the features and the level that a broker announces; 0 if it names none."""
    answer = ask(
        *(cluster, broker, "ApiVersions", version),
        client_software_name="x",
        client_software_version="1",
    )
    levels = {one["name"]: one["max_version_level"] for one in answer["finalized_features"]}
    return answer["finalized_features_epoch"], levels.get(TV, 0)


def test_a_level_is_updated_in_every_version_and_announced_by_all(
    cluster: BlockingCluster,
) -> None:
    assert [finalized(cluster, one) for one in (1, 2)] == [(0, 1)] * 2
    done = {**OK, "results": [{"feature": TV, "error_code": "NONE", "error_message": "NONE"}]}
    assert update(cluster, 0, 2, allow_downgrade=False) == done
    assert [finalized(cluster, one) for one in (1, 2)] == [(1, 2)] * 2
    assert update(cluster, 1, 1, upgrade_type=2) == done
    assert [finalized(cluster, one, version=3) for one in (1, 2)] == [(2, 1)] * 2
    assert update(cluster, 2, 0, upgrade_type=2, validate_only=True) == OK
    assert update(cluster, 2, 0, upgrade_type=3) == OK
    assert [finalized(cluster, one) for one in (1, 2)] == [(3, 0)] * 2


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_refusal_is_one_for_all_features(cluster: BlockingCluster, version: int) -> None:
    kind = {"allow_downgrade": True} if version == 0 else {"upgrade_type": 1}
    answer = update(cluster, version, 0, **kind)
    assert answer["error_code"] == "INVALID_UPDATE_VERSION"
    assert answer["error_message"].endswith("either safe or unsafe downgrade.")
    assert answer.get("results", []) == []
    assert finalized(cluster, 2) == (0, 1)


def test_a_level_outlives_all_processes_and_their_settings(tmp_path: Path) -> None:
    for level, begins in ((2, (0, 1)), (0, (1, 2)), (1, (2, 0))):
        with BlockingCluster(brokers=2, data=tmp_path, configs=CONFIGS) as cluster:
            assert [finalized(cluster, one) for one in (1, 2)] == [begins] * 2
            assert update(cluster, 2, level, upgrade_type=1 if level > begins[1] else 2) == OK


def test_coordinators_write_records_of_the_level_in_force(cluster: BlockingCluster) -> None:
    """Since level 1 they are flexible, which is their version 1."""
    versions: list[int] = []
    for level in (0, 2):
        assert update(cluster, 2, level, upgrade_type=2 if level == 0 else 1) == OK
        settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": f"at-{level}"}
        confluent.Producer(settings).init_transactions(PATIENCE_S)
        versions.append(_version(cluster, f"at-{level}"))
    assert versions == [0, 1]


def _version(cluster: BlockingCluster, transactional_id: str) -> int:
    """The version of the newest record of a transactional id."""
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "x",
        "enable.partition.eof": True,
    }
    consumer = confluent.Consumer(settings)
    consumer.assign([confluent.TopicPartition("__transaction_state", 0, 0)])
    found: list[int] = []
    while (message := consumer.poll(PATIENCE_S)) is not None and message.error() is None:
        if message.key().endswith(transactional_id.encode()):
            found.append(int.from_bytes(message.value()[:2]))
    consumer.close()
    return found[-1]


def test_without_share_groups_their_apis_refuse_whoever_asks() -> None:
    """As Kafka's do, which `tests/kafka/test_share_version.py` asks."""
    silent, message = (REFUSED, None), "The version of API is not supported."
    with BlockingCluster(brokers=1) as cluster:
        port = int(cluster.bootstrap.rpartition(":")[2])
        assert without_share_groups(port, port) == {
            **{"ShareGroupHeartbeat": [silent], "ShareFetch": [silent]},
            **{"ShareAcknowledge": [silent], "ShareGroupDescribe": [silent] * 2},
            "DescribeShareGroupOffsets": [silent] * 2,
            "AlterShareGroupOffsets": [(REFUSED, message)],
            "DeleteShareGroupOffsets": [(REFUSED, message)],
            **{"levels": [True, False, True], "served again": "NONE"},
        }
