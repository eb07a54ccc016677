"""The Java recorder with real Java clients, against our own brokers."""

import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from refimpl.edge.testing.blocking import BlockingCluster
from tests.traces.record.java.building import java
from traces.api import check, load
from traces.record.cli import record_scan

pytestmark = [
    pytest.mark.kafka,  # its clients come through Maven
    pytest.mark.xdist_group("java-recorder"),
]
COUNT = 500
KEPT = {
    *("L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8", "L9", "L10", "L12", "L15", "L20", "P1", "P6")
}
READ = {*("C1", "C2", "C3", "C4", "G1", "G4", "G5", "G6", "G8", "G9", "G10")}
TRANSACTED = {*("T1", "T2", "T3", "T4", "T7", "T8", "T11", "P3", "P4", "P7")}


def shop(cluster: BlockingCluster, scenario: str, run: Path, *more: str) -> None:
    """The application of `shop/Shop.java`, and the final scan of what it did."""
    command = java("shop.Shop", scenario, cluster.bootstrap, "orders", run, str(COUNT), *more)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    scanned = CliRunner().invoke(record_scan, [str(run), "--bootstrap", cluster.bootstrap])
    assert scanned.exit_code == 0, scanned.output


def verdicts(run: Path) -> tuple[set[str], dict[str, int]]:
    """The promises that hold, and how often others were broken."""
    judged = check(load(run))
    held = {id for id, one in judged.verdicts.items() if one.verdict == "holds"}
    return held, {finding.check: finding.count for finding in judged.findings}


def test_what_holds_holds_and_hashes_are_one(tmp_path: Path) -> None:
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic("orders", partitions=3)
        shop(cluster, "healthy", tmp_path, "shop.hashes=1")
    held, found = verdicts(tmp_path)
    assert found == {}
    # One poll may have brought all, and then there was nowhere to go on.
    assert held | {"G10"} == KEPT | READ | {"G13"}


def test_transactions_hold(tmp_path: Path) -> None:
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic("orders", partitions=3)
        cluster.create_topic("orders-moved", partitions=2)
        shop(cluster, "transactions", tmp_path)
    held, found = verdicts(tmp_path)
    assert found == {}
    assert (KEPT - {"L7"}) | TRANSACTED <= held


def test_a_commit_before_the_work_and_a_record_stored_twice_are_found(tmp_path: Path) -> None:
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic("orders")
        cluster.drop_response("Produce", count=1)
        unsafe = ("enable.idempotence=false", "request.timeout.ms=500", "shop.early=1")
        shop(cluster, "healthy", tmp_path, *unsafe, "delivery.timeout.ms=20000")
    _, found = verdicts(tmp_path)
    assert {"L2", "G13"} <= found.keys()
    file = (tmp_path / "scan-ru#0.ndjson").read_bytes().splitlines()
    scans = [line for line in map(orjson.loads, file) if line["op"] == "scan"]
    ids: list[Any] = [record["id"] for line in scans for record in line["records"]]
    assert found["L2"] == len(ids) - len(set(ids)) > 0
    assert found["G13"] == COUNT


def test_interceptors_leave_unchecked_what_they_do_not_see(tmp_path: Path) -> None:
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic("orders", partitions=3)
        shop(cluster, "intercepted", tmp_path)
    held, found = verdicts(tmp_path)
    assert found == {}
    assert KEPT - {"L7"} <= held
    assert held & {"C1", "C2", "C3", "C4", "G1", "G4", "G5", "G10", "G13"} == set()


def read_all(cluster: BlockingCluster, group: str) -> None:
    """A share group begins with the first record."""
    ck: Any = import_module("confluent_kafka.admin")
    to = {"incremental_operation": ck.AlterConfigOpType.SET}
    change = ck.ConfigEntry("share.auto.offset.reset", "earliest", **to)
    named = ck.ConfigResource(ck.ResourceType.GROUP, group, incremental_configs=[change])
    admin = ck.AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.incremental_alter_configs([named])[named].result(10)


def test_a_member_of_a_share_group_tells_what_it_was_given_and_what_became_of_it(
    tmp_path: Path,
) -> None:
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic("orders", partitions=2)
        read_all(cluster, "sharers")
        shop(cluster, "produce", tmp_path)
        shop(cluster, "share", tmp_path, "group.id=sharers")
    held, found = verdicts(tmp_path)
    assert found == {}
    assert {"S1", "S2", "S4"} <= held
    file = (tmp_path / "sharer#0.ndjson").read_bytes().splitlines()
    given = [line for line in map(orjson.loads, file) if line["op"] == "acknowledge"]
    kinds = [record["ack"] for line in given for record in line["records"]]
    assert kinds.count("accept") == COUNT
    assert kinds.count("release") > 0
    assert {line["outcome"] for line in given} == {"ok"}
