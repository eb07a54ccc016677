"""Kafka's protocol as bytes: frames, headers, messages by kio, and two codecs of our own.

Nothing here knows a broker, a socket or a clock.
"""

import sys
from contextlib import suppress
from importlib import import_module


def import_kio() -> None:
    """Import kio without Hypothesis, which it would import wherever that is installed.

    kio makes strategies of its types for tests of its own: 0.2 CPU-s and 100 modules, for nothing
    here. Where somebody has imported Hypothesis already, that costs little, and stays as it is.
    """
    if "hypothesis" in sys.modules:
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        with suppress(ImportError):  # whoever needs kio says so
            import_module("kio.static._phantom")
    finally:
        del sys.modules["hypothesis"]


import_kio()
