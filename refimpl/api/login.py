"""The login of one connection at a SASL listener (KIP-43, KIP-152, KIP-368), without I/O.

Until it is done a connection's frames come here: ApiVersions at most once, then SaslHandshake, then
the mechanism's messages, in SaslAuthenticate requests or, after a handshake of version 0, bare.
"""

from collections.abc import Callable, Mapping

from attrs import define, field, frozen

from refimpl.api import api_versions
from refimpl.api.call import Call, Served, Session
from refimpl.api.dispatch import from_the_future
from refimpl.api.table import APIS
from refimpl.security.principals import USER
from refimpl.security.sasl import Exchange, SaslAuthenticationError, SaslError
from refimpl.wire.errors import MalformedRequest
from refimpl.wire.framing import Buffer, frame
from refimpl.wire.headers import read_api, read_client_id, response_header
from refimpl.wire.messages import API_VERSIONS, is_flexible, read_request, write_response

HANDSHAKE, AUTHENTICATE = 17, 36
CAN_REPEAT = 1
"""The first version of SaslAuthenticate whose client logs in again before its session ends."""

LEAST_MS = 1_000
"""The least time between two logins on one connection."""


@frozen
class Mechanisms:
    """The mechanisms of a listener, and for how long a login by each of them counts."""

    exchanges: Mapping[str, Callable[[], Exchange]]
    max_reauth_ms: Mapping[str, int]


class LoginRefused(Exception):
    """The login has failed: the connection ends, after the answer if there is one."""

    def __init__(self, why: str, answer: list[Buffer] | None = None) -> None:
        super().__init__(why)
        self.answer = answer


@define(eq=False)
class Login:
    """One login. `before` are mechanism and principal of the last one on the same connection."""

    broker: Served
    mechanisms: Mechanisms
    before: tuple[str, str] | None = None
    mechanism: str = field(default="", init=False)
    #: Who it is, once the login is done
    principal: str | None = field(default=None, init=False)
    #: When it has to be done again; None for never
    expires_ms: int | None = field(default=None, init=False)
    #: Whether the client knows how to do it again
    can_repeat: bool = field(default=False, init=False)
    #: What ApiVersions has said of the client's software, if it came
    session: Session = field(factory=Session, init=False)
    _done_ms: int = field(default=0, init=False)
    _exchange: Exchange | None = field(default=None, init=False)
    _is_wrapped: bool = field(default=False, init=False)
    _was_asked: bool = field(default=False, init=False)

    def may_repeat(self, now_ms: int) -> bool:
        """True if the client may log in again by now, and knows how."""
        return self.can_repeat and now_ms - self._done_ms >= LEAST_MS

    def take(self, data: Buffer, now_ms: int) -> list[Buffer]:
        """The answer to a frame. Raises LoginRefused, MalformedRequest, and SaslWaits for a frame
        that is to be taken again later."""
        if self._exchange is None:
            return self._begin(data)
        if not self._is_wrapped:
            return frame(b"", [self._evaluated(bytes(data), now_ms)])
        key, version, correlation_id = read_api(data)
        if key != AUTHENTICATE or not _serves(key, version):
            raise LoginRefused(f"a request of API {key} during SASL authentication")
        flexible = is_flexible(key, version)
        _, body = read_client_id(data, flexible=flexible)
        token = bytes(read_request(key, version, data, body).auth_bytes)
        head = response_header(correlation_id, flexible=flexible)
        self.can_repeat = version >= CAN_REPEAT

        def answer(**values: object) -> list[Buffer]:
            return frame(head, [write_response(key, version, values)])

        try:
            told = self._evaluated(token, now_ms)
        except LoginRefused as refused:
            failed = "SASL_AUTHENTICATION_FAILED"
            refused.answer = answer(error_code=failed, error_message=str(refused))
            raise
        lifetime = 0 if self.expires_ms is None else max(0, self.expires_ms - now_ms)
        return answer(
            error_code=None, error_message=None, auth_bytes=told, session_lifetime=lifetime
        )

    def _begin(self, data: Buffer) -> list[Buffer]:
        key, version, correlation_id = read_api(data)
        if key == API_VERSIONS and not self._was_asked and self.before is None:
            if not _serves(key, version):
                return from_the_future(correlation_id)
            self._was_asked = True
            _, start = read_client_id(data, flexible=is_flexible(key, version))
            request = read_request(key, version, data, start)
            told = api_versions.handle(Call(self.broker, key, version, request, None, self.session))
            body = write_response(key, version, told)
            return frame(response_header(correlation_id, flexible=False), [body])
        if key != HANDSHAKE or not _serves(key, version):
            raise LoginRefused(f"a request of API {key} before SaslHandshake")
        _, start = read_client_id(data, flexible=False)
        wanted = read_request(key, version, data, start).mechanism
        names, head = (
            list(self.mechanisms.exchanges),
            response_header(correlation_id, flexible=False),
        )

        def answer(error: str | None) -> list[Buffer]:
            values = {"error_code": error, "mechanisms": names}
            return frame(head, [write_response(key, version, values)])

        if wanted not in self.mechanisms.exchanges:
            why = f"Unsupported SASL mechanism {wanted}"
            raise LoginRefused(why, answer("UNSUPPORTED_SASL_MECHANISM"))
        if self.before is not None and wanted != self.before[0]:
            self._exchange, self._is_wrapped = _Refusing(wanted, self.before[0]), version > 0
            return answer(None)
        self.mechanism, self._is_wrapped = wanted, version > 0
        self._exchange = self.mechanisms.exchanges[wanted]()
        return answer(None)

    def _evaluated(self, token: bytes, now_ms: int) -> bytes:
        exchange = self._exchange
        assert exchange is not None
        what = "authentication" if self.before is None else "re-authentication"
        try:
            told = exchange.evaluate(token, now_ms)
        except SaslAuthenticationError as wrong:
            raise LoginRefused(str(wrong)) from None
        except SaslError:
            raise LoginRefused(
                f"Authentication failed during {what} due to invalid credentials with SASL "
                f"mechanism {self.mechanism}"
            ) from None
        if exchange.user is not None:
            self._done(f"{USER}{exchange.user}", exchange, now_ms)
        return told

    def _done(self, principal: str, exchange: Exchange, now_ms: int) -> None:
        if self.before is not None and principal != self.before[1]:
            old, new = (one.replace(":", ".", 1) for one in (self.before[1], principal))
            raise LoginRefused(
                f"Cannot change principals during re-authentication from {old}: {new}"
            )
        limits = [] if exchange.expires_ms is None else [exchange.expires_ms]
        if most := self.mechanisms.max_reauth_ms.get(self.mechanism, 0):
            limits.append(now_ms + most)
        self._done_ms = now_ms
        self.principal, self.expires_ms = principal, min(limits, default=None)


@define(eq=False)
class _Refusing:
    """The exchange of who logs in again by another mechanism."""

    wanted: str
    before: str
    user: str | None = None
    expires_ms: int | None = None

    def evaluate(self, message: bytes, now_ms: int) -> bytes:
        """Raises SaslAuthenticationError."""
        raise SaslAuthenticationError(
            f"SASL mechanism '{self.wanted}' requested by client is not supported for "
            f"re-authentication of mechanism '{self.before}'"
        )


def begins_login(data: Buffer) -> bool:
    """True for a SaslHandshake, by which a client logs in again."""
    try:
        return read_api(data)[0] == HANDSHAKE
    except MalformedRequest:
        return False


def _serves(key: int, version: int) -> bool:
    return APIS[key].first <= version <= APIS[key].last
