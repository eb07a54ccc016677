"""The name of this boot of the machine.

Bytes that a process wrote and did not flush survive its end, and not the end of the boot. Linux
has a name for every boot, and so has macOS. Elsewhere, or in a sandbox without /proc, there is
none.
"""

import ctypes
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SESSION = b"kern.bootsessionuuid"


def named_boot() -> str:
    """The name of this boot; nothing where boots have none."""
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
