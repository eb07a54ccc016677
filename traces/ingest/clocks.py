"""Refuse impossible times: a clock that went back while a process used it.

Trace format v1 requires a clock that never goes back. Times of one process may contradict its
program order: a call returned before it was made, or before an earlier call was made. Then the
order of other calls by that clock is worthless, and a check of real time could report a false
violation. So such a trace is refused, by line. A call that was made before an earlier one is no
contradiction: a callback runs inside the poll whose line follows.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from traces.model.context import Ints
from traces.model.names import Names
from traces.model.schema import NONE

#: By clock, the lowest time of a return and the highest of a call.
Extremes = dict[str, tuple[int, int]]
NEVER = 2**63 - 1


def goes_back(columns: Mapping[str, Ints]) -> bool:
    """True if times contradict the order of these rows of one process."""
    made, returned = columns["inv"], columns["ret"]
    for clock in np.unique(columns["clock"]).tolist():
        mine = columns["clock"] == clock
        latest = np.maximum.accumulate(np.where(mine, made, NONE))
        if np.any(mine & (returned != NONE) & (returned < latest)):
            return True
    return False


def extremes(columns: Mapping[str, Ints], names: Names) -> Extremes:
    """The times that a later piece of the same process must be compared with."""
    found: Extremes = {}
    for clock in np.unique(columns["clock"]).tolist():
        mine = columns["clock"] == clock
        returned = columns["ret"][mine & (columns["ret"] != NONE)]
        made = int(columns["inv"][mine].max(initial=NONE))
        found[names.clocks.name(clock)] = int(returned.min(initial=NEVER)), made
    return found


def go_back(bounds: Extremes, latest: Mapping[str, int]) -> bool:
    """True if a call of this piece returned before an earlier piece made one."""
    return any(lowest < latest.get(clock, NONE) for clock, (lowest, _) in bounds.items())


def go_on(bounds: Extremes, latest: dict[str, int]) -> None:
    """Take a piece for an earlier one."""
    for clock, (_, made) in bounds.items():
        latest[clock] = max(made, latest.get(clock, NONE))


def contradicted(call: Mapping[str, Any], latest: dict[str, int]) -> Iterator[tuple[str, str]]:
    """The errors in the times of a call that comes after those in `latest`."""
    clock, made, returned = call.get("clock", "host"), call.get("invoked_ns"), None
    if made is not None:
        latest[clock] = max(made, latest.get(clock, NONE))
    if (returned := call.get("returned_ns")) is None or returned >= latest.get(clock, NONE):
        return
    if made is not None and returned < made:
        yield "returned_ns", f"expected at least invoked_ns, {made}, found {returned}"
    else:
        yield (
            "returned_ns",
            f"expected at least {latest[clock]}, when an earlier call was made, found {returned}: "
            f"the clock {clock!r} went back (from here on, give it another name, or no times)",
        )


def lowest_return(bounds: Extremes, call: Mapping[str, Any]) -> None:
    """Note when a call returned."""
    if (returned := call.get("returned_ns")) is not None:
        clock = call.get("clock", "host")
        lowest, made = bounds.get(clock, (NEVER, NONE))
        bounds[clock] = min(lowest, returned), made
