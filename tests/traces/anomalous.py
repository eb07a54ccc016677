"""A fixture with an anomaly in it: made, read and judged once, for all tests that look at it.

Nobody changes it. All tests of one anomaly run in one process, one after the other.
"""

from functools import cached_property, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from attrs import frozen

from tests.traces.fixture import Line, fixture, write
from tests.traces.judging import own
from traces.engines import local
from traces.generate.small import IN_CALLS, injected
from traces.ingest.run import Run, read_trace
from traces.verdicts.judged import Judged

#: For `parametrize`: the name of every anomaly.
NAMES = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in IN_CALLS]


@frozen(slots=False)
class Anomalous:
    """The trace of a seed."""

    lines: dict[str, list[Line]]
    meta: dict[str, Any]

    @cached_property
    def run(self) -> Run:
        with TemporaryDirectory() as folder:
            return read_trace(write(Path(folder), self.lines, self.meta))

    @cached_property
    def table(self) -> Any:
        return self.run.table(0)

    @cached_property
    def judged(self) -> Judged:
        one = Judged(self.run.path, self.run)
        one.settle(local.find(self.table, {0: self.run.context}), strict=False)
        return one


def anomalous(name: str | None, seed: int) -> Anomalous:
    """The trace that this seed makes with the anomaly; raises `NotHere` where there is no room."""
    return _made(name, own(seed, name))


@lru_cache(maxsize=8)  # seeds of tests that look at one anomaly
def _made(name: str | None, seed: int) -> Anomalous:
    w = fixture(seed)
    return Anomalous(*(injected(w, IN_CALLS[name]) if name else (w.lines, w.meta)))
