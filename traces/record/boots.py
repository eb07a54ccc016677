"""Which boot of a machine this is: its monotonic clock begins anew with each.

Linux has a name for every boot, and so has macOS. Where there is neither (a sandbox without /proc),
the time of the boot stands for it, as the wall clock tells it. A wall clock that is set moves that
time: then a boot may be taken for two, of which nothing is compared, but two are never one.
"""

import ctypes
import re
import socket
import time
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: The time of a boot is told in steps of so many seconds, and may be off by one.
TOLERANCE = 4
_SESSION = b"kern.bootsessionuuid"
_TIMED = re.compile(r"(.*)-booted-(\d+)")


def clock_domain() -> str:
    """Names the clock that a process reads: one per boot of a machine, shared by its containers."""
    if named := _named_boot():
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


def _named_boot() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return _session()


def _session() -> str:
    """macOS's name of the boot."""
    try:
        ask = ctypes.CDLL(None).sysctlbyname
    except (AttributeError, OSError):
        return ""
    name, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
    refused = ask(_SESSION, name, ctypes.byref(size), None, ctypes.c_size_t(0))
    return "" if refused else name.value.decode("ascii", "replace")
