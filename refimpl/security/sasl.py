"""SASL mechanisms as a broker sees them: what a client sends, what it is answered, who it is.

An exchange is fed the client's messages until it is complete or fails. SCRAM's messages are
scramp's, and signatures of tokens are PyJWT's; what Kafka adds to them is here.
"""

from collections.abc import Callable, Mapping
from hmac import compare_digest
from importlib import import_module
from typing import Any, Protocol

from attrs import define, field, frozen

from refimpl.security.scram import ScramCredential, ScramMechanism

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"


class SaslError(Exception):
    """The login fails; the client hears only that its credentials are invalid."""


class SaslAuthenticationError(SaslError):
    """The login fails, for a reason that the client may hear."""


class SaslWaits(Exception):
    """The exchange needs keys that are being read: nothing has happened, evaluate again then.

    `then` takes the function to call once they are there, or cannot be had; any thread calls it.
    """

    def __init__(self, then: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("keys are being read")
        self.then = then


class Exchange(Protocol):
    """One login by one mechanism."""

    #: The name of the user, once the exchange is complete
    user: str | None
    #: When the credential expires, in ms since 1970, if it does
    expires_ms: int | None

    def evaluate(self, message: bytes, now_ms: int) -> bytes:
        """The answer to a message of the client. Raises SaslError, SaslWaits."""
        ...


@define(eq=False)
class PlainExchange:
    """PLAIN (RFC 4616): a user and a password, checked with those that are configured."""

    passwords: Mapping[str, str] = field(repr=False)
    user: str | None = None
    expires_ms: int | None = None

    def evaluate(self, message: bytes, now_ms: int) -> bytes:
        """Nothing, if the password is the user's. Raises SaslAuthenticationError."""
        tokens = message.decode(errors="replace").split("\0", 3)
        if len(tokens) != 3:
            count = len(tokens)
            raise SaslAuthenticationError(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {count}"
            )
        wanted, user, password = tokens
        if not user:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        known = self.passwords.get(user)
        if known is None or not compare_digest(known.encode(), password.encode()):
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        _check_authorization_id(wanted, user)
        self.user = user
        return b""


def _check_authorization_id(wanted: str, user: str) -> None:
    if wanted and wanted != user:
        raise SaslAuthenticationError(
            "Authentication failed: Client requested an authorization id that is different from "
            "username"
        )


@define(eq=False)
class ScramExchange:
    """SCRAM (RFC 5802): client and broker show each other that they know the password."""

    mechanism: ScramMechanism
    credentials: Callable[[str], ScramCredential | None]
    nonce: str = field(repr=False)
    user: str | None = None
    expires_ms: int | None = None
    _server: Any = field(default=None, init=False, repr=False)
    _claimed: str = field(default="", init=False)

    def evaluate(self, message: bytes, now_ms: int) -> bytes:
        """The broker's first message, or its last. Raises SaslError."""
        scramp: Any = import_module("scramp")
        try:
            text = message.decode()
            if self._server is None:
                made = scramp.ScramMechanism(self.mechanism.name).make_server(
                    self._known, s_nonce=self.nonce
                )
                made.set_client_first(text)
                self._server = made
                return made.get_server_first().encode()
            self._server.set_client_final(text)
            self.user = self._claimed
            return self._server.get_server_final().encode()
        except (scramp.ScramException, UnicodeDecodeError, ValueError, LookupError) as wrong:
            raise SaslError("invalid credentials") from wrong

    def _known(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        self._claimed = user
        credential = self.credentials(user)
        if credential is None:
            raise LookupError("no such user")
        salt, stored_key, server_key, iterations = credential
        return salt, stored_key, server_key, iterations


@frozen
class TokenRules:
    """The rules for a token of OAUTHBEARER: Kafka's settings of its validators.

    Without `keys` a token is unsecured, which is for tests alone: anybody can make one.
    """

    principal_claim: str = "sub"
    clock_skew_ms: int = 0
    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    #: The key of a token, by its header. Raises LookupError, SaslWaits
    keys: Callable[[Mapping[str, Any]], Any] | None = None


@define(eq=False)
class OAuthBearerExchange:
    """OAUTHBEARER (RFC 7628): a token says who the client is (KIP-255, KIP-768)."""

    rules: TokenRules
    user: str | None = None
    expires_ms: int | None = None
    _failure: str | None = field(default=None, init=False)

    def evaluate(self, message: bytes, now_ms: int) -> bytes:
        """Nothing, or what is wrong with the token. Raises SaslAuthenticationError, SaslWaits."""
        if self._failure is not None:
            raise SaslAuthenticationError(self._failure)
        wanted, token = _token_of(message)
        try:
            claims = self._claims(token)
            user, expires_ms = _checked(claims, self.rules, now_ms)
        except ValueError:
            self._failure = '{"status":"invalid_token"}'
            return self._failure.encode()
        if wanted and wanted != user:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different "
                "from the token's principal name"
            )
        self.user, self.expires_ms = user, expires_ms
        return b""

    def _claims(self, token: str) -> Mapping[str, Any]:
        jwt: Any = import_module("jwt")
        try:
            header = jwt.get_unverified_header(token)
            keys, algorithm = self.rules.keys, header.get("alg")
            if keys is None:
                if algorithm != "none":
                    raise ValueError("a token that is signed, where none are expected")
                return jwt.decode(token, options={"verify_signature": False})
            return jwt.decode(
                token,
                keys(header),
                algorithms=_SIGNED,
                audience=list(self.rules.audiences) or None,
                issuer=self.rules.issuer,
                options={
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "verify_aud": bool(self.rules.audiences),
                },
            )
        except (jwt.PyJWTError, LookupError) as wrong:
            raise ValueError("no valid token") from wrong


_SIGNED = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "ES512"]


def _token_of(message: bytes) -> tuple[str, str]:
    """The authorization id and the token of a client's first message."""
    parts = message.decode(errors="replace").split("\x01")
    header = parts[0].split(",")
    pairs = dict(one.split("=", 1) for one in parts[1:] if "=" in one)
    scheme, _, token = pairs.get("auth", "").partition(" ")
    if len(header) < 2 or header[0] != "n" or scheme.lower() != "bearer" or not token:
        raise SaslError("Invalid OAUTHBEARER client first message")
    wanted = header[1].removeprefix("a=")
    return wanted, token.strip()


def _checked(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> tuple[str, int]:
    """The user of a token, and when it expires. Raises ValueError."""
    user, expires = claims.get(rules.principal_claim), claims.get("exp")
    if not isinstance(user, str) or not user.strip() or not isinstance(expires, int | float):
        raise ValueError("a token without a principal, or that does not expire")
    issued = claims.get("iat", 0)
    expires_ms = int(1000 * expires)
    if now_ms - rules.clock_skew_ms >= expires_ms:
        raise ValueError("a token that has expired")
    if not isinstance(issued, int | float) or now_ms + rules.clock_skew_ms < 1000 * issued:
        raise ValueError("a token of the future")
    return user, expires_ms
