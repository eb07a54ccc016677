"""TLS of a listener: its context, made anew when the files of its keys change.

The protocol and its algorithms are OpenSSL's.
"""

import contextlib
import os
import ssl
import time
from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen

from refimpl.configs import ConfigError
from refimpl.edge.server.log import CERTIFICATES
from refimpl.edge.stores import (
    Store,
    keystore_of,
    load_key,
    load_trust,
    protocols_of,
    restrict,
    truststore_of,
)

CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
LOOK_AGAIN_S = 1.0
ALERT = "alert"


@frozen(kw_only=True)
class TlsSettings:
    """The settings of TLS, by Kafka's names."""

    keystore: Store
    truststore: Store | None
    client_auth: str
    protocols: tuple[str, ...]
    ciphers: tuple[str, ...]

    @classmethod
    def of(cls, value: Callable[[str], Any]) -> "TlsSettings":
        """From the values of settings. Raises ConfigError."""
        keystore = keystore_of(value)
        if keystore is None:
            raise ConfigError("ssl.keystore.location is needed by a listener with TLS")
        return cls(
            keystore=keystore,
            truststore=truststore_of(value),
            client_auth=value("ssl.client.auth"),
            protocols=protocols_of(value),
            ciphers=value("ssl.cipher.suites"),
        )


@define(eq=False)
class Tls:
    """The context for connections from now on: made anew when a file has changed.

    Files that cannot be used any more leave the last context in force.
    """

    settings: TlsSettings
    _context: ssl.SSLContext | None = field(default=None, init=False)
    _state: object = field(default=None, init=False)
    _looked_at: float = field(default=0.0, init=False)

    def context(self) -> ssl.SSLContext:
        """The context. Raises ConfigError if there never was a good one."""
        now = time.monotonic()
        if self._context is not None and now - self._looked_at < LOOK_AGAIN_S:
            return self._context
        self._looked_at = now
        state = self._files()
        if self._context is None:
            self._context, self._state = context_of(self.settings), state
        elif state != self._state:
            self._state = state
            try:
                self._context = context_of(self.settings)
                CERTIFICATES.warning("certificates were read anew")
            except ConfigError as wrong:
                CERTIFICATES.error("the old certificates stay: %s", wrong)
        return self._context

    def look(self) -> None:
        """Look at the files with the next connection, whenever they were looked at last."""
        self._looked_at = 0.0

    def _files(self) -> object:
        stores = (self.settings.keystore, self.settings.truststore)
        found: list[tuple[int, int] | None] = []
        for one in stores:
            with contextlib.suppress(OSError):
                if one is not None and one.location is not None:
                    stat = os.stat(one.location)
                    found.append((stat.st_mtime_ns, stat.st_size))
        return found


class _Handshake(ssl.SSLObject):
    """A connection's TLS, which keeps the alert that says why its handshake has failed.

    Event loops drop what a failed handshake leaves to be sent, and a client whose certificate is
    refused would only see its connection end.
    """

    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        """Go on with it. Raises SSLError, whose alert `alert_of` finds."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as failed:
            vars(failed)[ALERT] = self.outgoing.read()
            raise


class _Context(ssl.SSLContext):
    """A context whose handshakes know where their bytes go."""

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **more: Any
    ) -> ssl.SSLObject:
        """TLS over these bytes."""
        made = super().wrap_bio(incoming, outgoing, *args, **more)
        assert isinstance(made, _Handshake)
        made.outgoing = outgoing
        return made


def alert_of(failed: ssl.SSLError) -> bytes:
    """The alert that a failed handshake has left to be sent."""
    return vars(failed).get(ALERT, b"")


def context_of(settings: TlsSettings) -> ssl.SSLContext:
    """A server's context. Raises ConfigError."""
    context = _Context(ssl.PROTOCOL_TLS_SERVER)
    context.sslobject_class = _Handshake
    restrict(context, settings.protocols, settings.ciphers)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    load_key(context, settings.keystore)
    context.verify_mode = CLIENT_AUTH[settings.client_auth]
    if settings.truststore is not None:
        load_trust(context, settings.truststore)
    elif context.verify_mode is not ssl.CERT_NONE:
        raise ConfigError(
            f"ssl.truststore.location is needed with ssl.client.auth={settings.client_auth}"
        )
    return context


def distinguished_name(certificate: bytes) -> str:
    """The name of a certificate (DER), as Java writes it: CN=Duke,OU=ServiceUsers,O=Org."""
    from cryptography import x509

    return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
