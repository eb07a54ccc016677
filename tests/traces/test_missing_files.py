"""A recorder of a run names its processes, so that a missing file is noticed."""

import re
import shutil
from pathlib import Path

import pytest

from chaos.recording import write_history
from chaos.sim.settings import Settings
from chaos.simulator import build
from tests.traces.judging import judged, verdicts
from tests.traces.record.clients import Consumer, Producer, message
from traces.record import recorded
from traces.record.cluster import Cluster
from traces.record.contents import contents
from traces.record.meta import merged, write
from traces.verdicts.judged import Judged


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the simulator, with several incarnations of its consumers."""
    swarm = Settings.draw(
        4, fault_ms=2500, unclean=False, lossy=False, elr=False, transactions=False, share_members=0
    )
    return write_history(build(swarm, history=True).go(), tmp_path_factory.mktemp("chaos"))


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the recorder, whose `meta.json` a scan has completed."""
    run = tmp_path_factory.mktemp("recorder")
    producer = recorded(Producer(), run, {"acks": "all"}, name="p0")
    producer.produce("t", b"v")
    producer.close()
    for name in ("c0", "c1"):
        reader = recorded(Consumer(script=[[message(0)]]), run, {"group.id": "g"}, name=name)
        reader.consume(1)
        reader.close()
    found, cluster = contents(run), Cluster({}, {}, [])
    write(run, merged({}, "r", found.processes, found.names, cluster, complete=True))
    return run


def reasons(one: Judged) -> str:
    return "; ".join(v.reason for v in one.verdicts if v.verdict == "not checked")


@pytest.mark.parametrize("kind", ["simulated", "noted"])
def test_a_file_that_is_gone_is_named_and_nothing_else_is_said_in_its_place(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    run: Path = request.getfixturevalue(kind)
    before = judged(run)
    assert "no file of" not in reasons(before)
    files = sorted(run.glob("*.ndjson"))
    assert len(files) >= 3
    for file in files:
        less = Path(shutil.copytree(run, tmp_path / file.stem))
        (less / file.name).unlink()
        after = judged(less)
        assert re.search(rf"no file of [^;]*{re.escape(file.stem)}", reasons(after))
        turned = {
            id: (verdicts(before)[id], verdict)
            for id, verdict in verdicts(after).items()
            if verdict not in ("not checked", verdicts(before)[id])
        }
        assert not turned, file.name
