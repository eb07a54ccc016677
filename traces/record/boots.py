"""Which boot of a machine this is: its monotonic clock begins anew with each.

Linux has a name for every boot, and so has macOS. Where there is neither (a sandbox without /proc),
the time of the boot stands for it, as the wall clock tells it. A wall clock that is set moves that
time: then a boot may be taken for two, of which nothing is compared, but two are never one.
"""

import re
import socket
import time

from refimpl.boots import named_boot

#: The time of a boot is told in steps of so many seconds, and may be off by one.
TOLERANCE = 4
_TIMED = re.compile(r"(.*)-booted-(\d+)")


def clock_domain() -> str:
    """Names the clock that a process reads: one per boot of a machine, shared by its containers."""
    if named := named_boot():
        return f"boot-{named[:8]}"
    return f"host-{socket.gethostname()}-booted-{booted_s() // TOLERANCE}"


def same_boot(one: str, other: str) -> bool:
    """True if two clocks are that of one boot, by their names."""
    first, second = _TIMED.fullmatch(one), _TIMED.fullmatch(other)
    if first is None or second is None or first[1] != second[1]:
        return one == other
    return abs(int(first[2]) - int(second[2])) <= 1


def booted_s() -> int:
    """When the machine was booted, in seconds, if its clock has not been set since."""
    # Time asleep counts here, and does not in the monotonic clock.
    awake = time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    return (time.time_ns() - awake) // 10**9
