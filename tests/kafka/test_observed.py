"""Runs of separate processes on ZooKeeper under faults are behaviours of the spec Replication."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from chaos.real.stored import faults, observed_traces
from chaos.real.stored.observed_host import ObservedInput, lines
from refimpl.messages import observations as o


def test_processes_that_are_killed_behave_as_the_spec_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = faults.kill_leader, faults.kill_two, faults.kill_and_return
    monkeypatch.setattr(faults, "FAULTS", len(kinds))
    monkeypatch.setattr(faults, "KINDS", kinds)
    kept = faults.play(0, 1, tmp_path)
    assert kept["verdict"] != "violated"
    assert kept["refused"] == []
    assert kept["acknowledged"] > 0

    def without(kind: type) -> list[str]:
        """Why TLC refuses the run if no process tells of this."""

        def fewer(path: Path) -> Iterable[ObservedInput]:
            for line in lines(path):
                rest = tuple(one for one in line.seen if not isinstance(one, kind))
                yield line._replace(seen=rest)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(observed_traces, "lines", fewer)
            return faults.validated(tmp_path)[0]

    assert without(o.Written)
    assert without(o.FetchHeard)
    assert without(o.BecameFollower)
