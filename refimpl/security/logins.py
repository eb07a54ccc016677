"""SASL mechanisms as a client sees them: its messages, in answer to the broker's.

SCRAM's messages are scramp's; an unsecured token, which is for tests, is PyJWT's.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol

from attrs import define, field

from refimpl.security.jaas import JaasError

SUBJECT = "unsecuredLoginStringClaim_sub"
LIFETIME_S = "unsecuredLoginLifetimeSeconds"


class LoginFailed(Exception):
    """The login fails: the broker refuses it, or does not prove that it knows the password."""


class ClientLogin(Protocol):
    """One login by one mechanism."""

    def first(self) -> bytes:
        """The client's first message."""
        ...

    def answer(self, message: bytes) -> bytes | None:
        """The next message after the broker's; None once the login is done.

        Raises LoginRefused.
        """
        ...


@define(eq=False)
class PlainLogin:
    """PLAIN (RFC 4616): the password itself, so only under TLS."""

    user: str
    password: str = field(repr=False)

    def first(self) -> bytes:
        """User and password."""
        return f"\0{self.user}\0{self.password}".encode()

    def answer(self, message: bytes) -> bytes | None:
        """Nothing: whoever was let in is told so by the answer's error code."""
        return None


@define(eq=False)
class ScramLogin:
    """SCRAM (RFC 5802): client and broker show each other that they know the password."""

    mechanism: str
    user: str
    password: str = field(repr=False)
    _client: Any = field(default=None, init=False, repr=False)
    _final: bool = field(default=False, init=False)

    def first(self) -> bytes:
        """The user and a number that was drawn."""
        scramp: Any = import_module("scramp")
        self._client = scramp.ScramClient([self.mechanism], self.user, self.password)
        return self._client.get_client_first().encode()

    def answer(self, message: bytes) -> bytes | None:
        """The proof, and None after the broker's own. Raises LoginRefused."""
        scramp: Any = import_module("scramp")
        try:
            text = message.decode()
            if self._final:
                self._client.set_server_final(text)
                return None
            self._client.set_server_first(text)
            self._final = True
            return self._client.get_client_final().encode()
        except (scramp.ScramException, UnicodeDecodeError, ValueError) as wrong:
            raise LoginFailed("the broker does not prove that it knows the password") from wrong


@define(eq=False)
class TokenLogin:
    """OAUTHBEARER (RFC 7628): a token says who the client is (KIP-255)."""

    token: str = field(repr=False)

    def first(self) -> bytes:
        """The token."""
        return f"n,,\x01auth=Bearer {self.token}\x01\x01".encode()

    def answer(self, message: bytes) -> bytes | None:
        """None, or the dummy answer to a refusal, after which the broker says its error."""
        return b"\x01" if message else None


def unsecured_token(options: Mapping[str, str], now_s: int) -> str:
    """A token that nobody has signed, with the claims of a login module's options.

    Raises JaasError where they name nobody.
    """
    jwt: Any = import_module("jwt")
    subject, lifetime = options.get(SUBJECT), options.get(LIFETIME_S, "3600")
    if not subject:
        raise JaasError(f'sasl.jaas.config: {SUBJECT}="USER" is expected for an unsecured token')
    if not lifetime.isdecimal():
        raise JaasError(f"sasl.jaas.config: {LIFETIME_S}: expected a number of seconds")
    claims = {"sub": subject, "iat": now_s, "exp": now_s + int(lifetime)}
    return jwt.encode(claims, "", algorithm="none")
