"""Every anomaly by its name: its meaning, the checks that have to find it, and its making.

Most are made in two ways. A large trace is made as columns of rows: an anomaly chooses a partition
among millions of records and is found an exact number of times. A small one is made call by call:
an anomaly changes lines, so that tests judge, damage and judge again hundreds of them. Either way a
name means one breach.
"""

from typing import Any

from attrs import frozen

from traces.generate.anomalies import IN_ROWS, InRows
from traces.generate.scenarios import SCENARIOS
from traces.generate.small import IN_CALLS, InCalls

assert SCENARIOS  # they have anomalies of their own


@frozen
class Anomaly:
    """An anomaly in large traces, in small ones, or in both."""

    name: str
    large: InRows | None
    small: InCalls | None

    @property
    def summary(self) -> str:
        """The anomaly in one sentence."""
        made = [way.inject.__doc__ for way in (self.large, self.small) if way]
        return next(filter(None, made)).partition("\n")[0]

    def in_small(self) -> dict[str, Any]:
        """The checks that must find it in a small trace, that may, and that call it allowed."""
        assert self.small is not None
        ids = {way: sorted(getattr(self.small, way)) for way in ("must", "may", "allowed")}
        return {"anomaly": self.name} | ids

    @property
    def checks(self) -> list[str]:
        """The checks that have to find it."""
        found = set(self.large.counts) if self.large else set[str]()
        return sorted(found | (self.small.must | self.small.allowed if self.small else set()))


ANOMALIES = {
    name: Anomaly(name, IN_ROWS.get(name), IN_CALLS.get(name)) for name in IN_ROWS | IN_CALLS
}
