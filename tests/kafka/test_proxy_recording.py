"""`highwater proxy --record` before a real Kafka: everyday life accuses nobody, a loss is found.

The operations are those of docs/everyday.md, each by a proxy of its own. Its trace is judged, and
not that of the recorded clients behind it.
"""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from confluent_kafka import Producer

from chaos.real.kafka.cluster import KafkaCluster, cluster
from chaos.real.kafka.judge import Judge
from tests.chaos.real.test_proxy import SECONDS, Running
from tests.kafka.everyday.administrator import Administrator
from tests.kafka.everyday.clients import Clients
from tests.kafka.everyday.operations import OPERATIONS
from tests.kafka.everyday.playing import everyday_cluster, judged

# kafka-python loads its schemas so, in threads of the clients that are played.
pytestmark = pytest.mark.filterwarnings("ignore:(open|read)_text is deprecated:DeprecationWarning")

#: Of each kind of operation some: groups, topics, retention, times, transactions, brokers.
PLAYED = (
    *("group-deleted", "offsets-reset-back", "static-member", "rolled-to-kip848", "slow-member"),
    *("topic-made-again", "partitions-added", "delete-records", "retention", "compaction"),
    *("timestamp-type-changed", "replayed", "aborted-by-operator", "timed-out"),
    *("producer-restarted", "exactly-once-reset", "preferred-election", "rolling-restart"),
)
#: Promises that each of them must have kept, unless they are undecided there.
SHOWN = {"L1", "L2", "L4", "L7", "L8", "L9", "L10", "P1", "C2", "C3"}
#: Of a topic that is made again under its name nothing is decided, and little of what an operator
#: aborts that was committed.
UNDECIDED = {"topic-made-again": SHOWN, "aborted-by-operator": {"L4", "C3"}}


@frozen
class Recorded:
    """The trace of a proxy, judged."""

    told: str
    verdicts: dict[str, dict[str, Any]]

    def named(self, verdict: str) -> set[str]:
        return {id for id, one in self.verdicts.items() if one["verdict"] == verdict}


def ended(proxy: Running) -> str:
    """The last words of a proxy."""
    proxy.process.send_signal(signal.SIGTERM)
    out, _ = proxy.process.communicate(timeout=4 * SECONDS)
    assert proxy.process.returncode == 0, out
    return out


@pytest.fixture(scope="module")
def everyday(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded]:
    runs, told = tmp_path_factory.mktemp("proxied"), dict[str, str]()
    behind = tmp_path_factory.mktemp("behind")
    with everyday_cluster(tmp_path_factory.mktemp("cluster"), judge) as administrator:
        for name in PLAYED:
            told[name] = played(administrator, name, runs / name, behind / name)
    found = judged([runs / name for name in PLAYED])
    return {name: Recorded(told[name], found[name]) for name in PLAYED}


def played(administrator: Administrator, name: str, run: Path, behind: Path) -> str:
    """An operation whose clients pass a proxy."""
    proxy = Running(administrator.up.bootstrap, "--record", str(run))
    try:
        OPERATIONS[name].play(administrator, Clients(behind, proxy.bootstrap))
    except Exception as error:  # one that fails leaves the others to be judged
        return f"{ended(proxy)}\nfailed: {error!r}"
    return ended(proxy)


@pytest.mark.parametrize("name", PLAYED)
def test_nobody_is_accused(everyday: dict[str, Recorded], name: str) -> None:
    one = everyday[name]
    assert "scanned" in one.told
    assert "failed:" not in one.told, one.told
    assert not one.named("violated"), one.verdicts
    assert one.named("allowed") <= OPERATIONS[name].allowed
    assert SHOWN - UNDECIDED.get(name, set()) <= one.named("holds"), one.verdicts


def test_transactions_are_judged(everyday: dict[str, Recorded]) -> None:
    for name in ("timed-out", "producer-restarted", "exactly-once-reset"):
        found = everyday[name].named("holds")
        assert {"P3", "P4", "P7", "T1", "T2", "T3", "T7", "T8"} <= found, name
        assert ("T4" in found) == (name != "exactly-once-reset"), "where something is aborted"


@pytest.fixture(scope="module")
def three(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with cluster(tmp_path_factory.mktemp("three"), judge) as up:
        yield up


def test_a_loss_is_found(three: KafkaCluster, tmp_path: Path) -> None:
    """Followers stop inside the ISR; the leader acknowledges alone (acks=1), and is killed."""
    three.create("unsafe", 1, {"min.insync.replicas": "1"})
    proxy = Running(three.bootstrap, "--record", str(tmp_path / "run"))
    settings = {"acks": "1", "retries": 0, "linger.ms": 0, "log_level": 0}
    producer: Any = Producer({"bootstrap.servers": proxy.bootstrap, **settings})
    producer.produce("unsafe", b"copied")
    assert producer.flush(SECONDS) == 0
    leader = three.partitions("unsafe")[0].leader
    followers = [node for node in three.nodes.values() if node.id != leader]
    for node in followers:
        node.freeze()
    for number in range(20):
        # One by one: what the followers had asked for before they froze, they still receive.
        producer.produce("unsafe", b"alone %d" % number)
        assert producer.flush(SECONDS) == 0
    three.nodes[leader].kill()
    for node in followers:
        node.thaw()
    three.wait_for_another_leader("unsafe", leader)
    three.nodes[leader].start()
    three.wait_until_healed("unsafe")
    ended(proxy)
    (found,) = judged([tmp_path / "run"]).values()
    assert found["L4"]["verdict"] == "allowed"
    assert 10 < found["L4"]["count"] <= 20
