"""Recordings of what was found in Kafka: the check names the promise by itself, and the second
checker agrees. `make test-kafka` makes them anew."""

from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from traces.commands.check import check

EXAMPLES = Path("examples")
#: By finding, the promises that its recording breaks.
BROKEN = {
    "late-alter-partition": {"L1", "L3", "L4"},
    "marker-dropped": {"T4", "T7"},
    "zombie-aborts": set[str](),
    "old-timestamps": {"L2"},
    "past-window": {"L2"},
    "snapshot-forgets": {"L2"},
    "uncommitted-load": {"T7"},
    "stale-batch": {"T10"},
    "share-late-write": {"S2", "S5"},
    # Groups that are stuck: nothing that was given is wrong
    "share-log-start": {"S6"},
    "share-aborted": {"S6"},
    "share-hole": {"S6"},
    "share-leader-epoch": {"S6"},
}

#: And what it shows that is permitted.
PERMITTED = {"marker-dropped": {"T11"}, "zombie-aborts": {"P7"}, "share-log-start": {"S4"}}


def test_every_recording_is_judged() -> None:
    recorded = {one.parent.name for one in EXAMPLES.glob("kafka-*/run")}
    assert recorded == {f"kafka-{name}" for name in BROKEN}


@pytest.mark.parametrize("name", BROKEN)
def test_the_recording_of_a_finding_breaks_these_promises(name: str, tmp_path: Path) -> None:
    judged = tmp_path / "judged.json"
    run = str(EXAMPLES / f"kafka-{name}" / "run")
    ended = CliRunner().invoke(check, [run, "--json", str(judged)])
    assert ended.exit_code == bool(BROKEN[name])
    (report,) = orjson.loads(judged.read_bytes())["runs"]
    checks = report["checks"].items()
    found = {id for id, one in checks if one["verdict"] == "violated"}
    permitted = {id for id, one in checks if one["verdict"] == "allowed"}
    assert (found, permitted) == (BROKEN[name], PERMITTED.get(name, set()))
    witnesses = [witness for _, one in checks for witness in one["witnesses"]]
    assert bool(witnesses) == bool(found | permitted)
    assert all(witness["confirmed"] for witness in witnesses)
