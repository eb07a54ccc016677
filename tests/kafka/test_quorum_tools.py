"""`kafka-metadata-quorum.sh`, `kafka-features.sh` and `kafka-cluster.sh` beside our brokers."""

import re
import subprocess

import pytest

from chaos.real.kafka.judge import java
from tests.kafka.test_tools import TOOLS, Tools, tools

__all__ = ["tools"]
QUORUM, FEATURES = f"{TOOLS}.MetadataQuorumCommand", f"{TOOLS}.FeatureCommand"
CLUSTER = f"{TOOLS}.ClusterTool"


def test_the_quorum_is_the_controller(tools: Tools) -> None:
    status = tools.out(QUORUM, "describe", "--status")
    assert re.search(r"LeaderId: +0\n", status)
    assert re.search(r"LeaderEpoch: +\d+\n", status)
    assert re.search(r"HighWatermark: +[1-9]\d*\n", status)
    replication = tools.out(QUORUM, "describe", "--replication")
    rows = [line.split() for line in replication.splitlines()[1:]]
    assert (rows[0][0], rows[0][-1]) == ("0", "Leader")
    assert {row[-1] for row in rows[1:] if row} == {"Observer"}


def test_a_voter_cannot_be_added_and_the_tool_says_so(tools: Tools) -> None:
    gone = ("remove-controller", "--controller-id", "1")
    directory = ("--controller-directory-id", "AAAAAAAAAAAAAAAAAAAAAQ")
    refused = tools.run(QUORUM, *gone, *directory)
    assert refused.status == 1
    assert "does not support REMOVE_RAFT_VOTER" in refused.out + refused.complaints


@pytest.mark.parametrize("level", ["0", "1"])
def test_features_are_described_and_moved(tools: Tools, level: str) -> None:
    described = tools.out(FEATURES, "describe")
    assert re.search(r"Feature: transaction.version\s+SupportedMinVersion: 0", described)
    how = "downgrade" if level == "0" else "upgrade"
    moved = tools.out(FEATURES, how, "--feature", f"share.version={level}")
    assert f"share.version was {how}d to {level}." in moved


def test_a_broker_is_unregistered_once(tools: Tools) -> None:
    def cluster(verb: str, *more: str) -> str:
        command = java(CLUSTER, verb, "--bootstrap-server", tools.bootstrap, *more)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    assert "Broker 2 is no longer registered." in cluster("unregister", "--id", "2")
    assert "Broker ID 2 is not currently registered" in cluster("unregister", "--id", "2")
    rows = cluster("list-endpoints").splitlines()[1:]
    assert [row.split()[0] for row in rows if row] == ["1", "3"]
