"""Kafka elects nobody where the only replica is up, and its directory is reported late.

The finding: docs/findings/kafka-electable-not-elected.md.
"""

from pathlib import Path

import orjson
import pytest

from tests.kafka import played

NAME = "kafka-electable-not-elected"


def test_a_record_waits_for_a_leader_until_the_broker_is_restarted(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    run = played.shown(NAME, NAME, tmp_path_factory)
    faults = orjson.loads((run / "meta.json").read_bytes())["faults"]
    arrived, stopped = faults[-2:]
    assert arrived["what"] == "AssignReplicasToDirs arrives"
    assert stopped["what"] == "SIGTERM broker 1"
    last = played.sends(run)[-1]
    assert last["outcome"] == "ok"
    assert arrived["at_ns"] < last["invoked_ns"] < stopped["at_ns"] < last["returned_ns"]
    assert stopped["at_ns"] - arrived["at_ns"] >= 60 * 10**9


def test_the_broker_leads_where_the_directory_is_told_in_time(tmp_path: Path) -> None:
    played.assert_that_the_control_holds(NAME, tmp_path, "--in-time")
