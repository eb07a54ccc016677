"""The lines that brokers write on standard error, by loggers with levels.

`kafka-configs.sh --entity-type broker-loggers` changes their levels while brokers run.
"""

import logging
import sys

BROKER = logging.getLogger("highwater.broker")
"""A broker's own troubles: disks, ports, bugs."""

CLIENTS = logging.getLogger("highwater.clients")
"""Clients that are refused: what they sent, and failed logins and handshakes."""

REQUESTS = logging.getLogger("highwater.requests")
"""Every request, at DEBUG."""

CERTIFICATES = logging.getLogger("highwater.certificates")
"""Certificates that are read anew."""


class _StandardError(logging.Handler):
    """Writes to whatever standard error is by then, which tests replace."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        print(f"highwater: {record.getMessage()}", file=sys.stderr)


_OURS = logging.getLogger("highwater")
_OURS.addHandler(_StandardError())
_OURS.propagate = False
