"""Kafka takes the commit of a member that has lost the partition; one that mends it is noticed.

The finding: docs/findings/kafka-group-same-epoch.md.
"""

from pathlib import Path

import orjson
import pytest

from tests.kafka import played


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played.shown("kafka-group-same-epoch", "kafka-group-same-epoch", tmp_path_factory)


def test_two_members_committed_the_same_records_in_transactions(run: Path) -> None:
    """The second commit came after the first was answered, from a member of an older epoch."""
    told = {
        name: {line["op"]: line for line in played.lines(run, f"producer-{name}#0")}
        for name in ("second", "third", "slow")
    }
    late = told.pop("slow")
    (owner,) = (one for one in told.values() if "txn_offsets" in one)
    for one in (owner, late):
        assert one["txn_offsets"]["outcome"] == one["txn_commit"]["outcome"] == "ok"
    assert owner["txn_offsets"]["offsets"] == late["txn_offsets"]["offsets"]
    assert owner["txn_offsets"]["member"] != late["txn_offsets"]["member"]
    assert late["txn_offsets"]["generation"] < owner["txn_offsets"]["generation"]
    assert owner["txn_commit"]["returned_ns"] < late["txn_offsets"]["invoked_ns"]


def test_the_check_names_the_former_owners_commit(run: Path) -> None:
    """`highwater check` shows who was given the partition after whom, and both their commits."""
    judged = run.with_suffix(".json")
    assert played.python("-m", "refimpl", "check", run, "--json", judged).returncode == 1
    (told,) = orjson.loads(judged.read_bytes())["runs"]
    violated = {id for id, one in told["checks"].items() if one["verdict"] == "violated"}
    assert violated == {"G12"}
    (witness,) = told["checks"]["G12"]["witnesses"]
    given, taken, _, late = (event["process"] for event in witness["events"])
    assert (given, late) == ("consumer-slow#0", "producer-slow#0")
    assert taken in ("consumer-second#0", "consumer-third#0")
