"""Requests of clients that a broker does not serve, each reported once on standard error: TLS, a
login, HTTP, an unknown API."""

from attrs import define, field

from refimpl.edge.server.log import CLIENTS
from refimpl.wire.errors import FrameTooLarge, WireError

HANDSHAKE_FAILURE = bytes.fromhex("15030300020228")
"""A fatal alert of TLS: who expects TLS hears at once that there is none."""

SASL = frozenset((17, 36))
"""SaslHandshake and SaslAuthenticate"""

_TLS = 0x1603
_HTTP = (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI")
_MOST = 16


def is_tls(error: WireError) -> bool:
    """True if a handshake of TLS was taken for a frame."""
    return isinstance(error, FrameTooLarge) and error.size >> 16 == _TLS


def what_came(error: WireError) -> str:
    """A description of the bytes that a client sent."""
    if is_tls(error):
        return "a TLS handshake, where PLAINTEXT alone is served: set security.protocol=PLAINTEXT"
    if isinstance(error, FrameTooLarge) and error.size.to_bytes(4, signed=True) in _HTTP:
        return "an HTTP request, where Kafka's protocol is served"
    return f"a request that is not served: {error}"


@define(eq=False)
class Unserved:
    """The reports of one listener so far; nothing is reported twice."""

    broker: int
    said: set[str] = field(factory=set[str], init=False)

    def refused(self, host: str, error: WireError) -> None:
        """A connection ends for what came by it."""
        self._say(host, what_came(error))

    def login(self, host: str, api: str) -> None:
        """A client wants to log in."""
        self._say(host, f"{api}, where nobody logs in: set security.protocol=PLAINTEXT")

    def login_refused(self, host: str, why: str) -> None:
        """A login has failed."""
        self._say(host, f"a login that failed: {why}")

    def handshake(self, host: str, why: str) -> None:
        """A handshake of TLS has failed."""
        self._say(host, f"a TLS handshake that failed: {why}")

    def _say(self, host: str, what: str) -> None:
        if what in self.said or len(self.said) > _MOST:
            return
        self.said.add(what)
        more = " (nothing more is said of such clients)" if len(self.said) > _MOST else ""
        CLIENTS.warning("broker %d: %s sent %s%s", self.broker, host, what, more)
