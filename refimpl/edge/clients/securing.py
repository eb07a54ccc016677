"""The security of a client's connections by its settings: TLS, and the login (KIP-12, KIP-43)."""

import inspect
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from refimpl.configs import CONSUMER, ConfigError
from refimpl.edge.stores import (
    keystore_of,
    load_key,
    load_trust,
    protocols_of,
    restrict,
    truststore_of,
)
from refimpl.security.jaas import JaasError, options_of
from refimpl.security.logins import (
    ClientLogin,
    PlainLogin,
    ScramLogin,
    TokenLogin,
    unsecured_token,
)
from refimpl.security.sasl import OAUTHBEARER, PLAIN
from refimpl.security.scram import BY_NAME

JAAS, MECHANISM, TOKENS = "sasl.jaas.config", "sasl.mechanism", "sasl.login.callback.handler.class"
HTTPS = "https"
PEM, PEM_BEGINS = "PEM", b"-----BEGIN"
#: Files of keys and certificates, whose format is told by another setting, or by their content
STORES = ("ssl.truststore", "ssl.keystore")
NewLogin = Callable[[], Awaitable[ClientLogin]]


@frozen
class ClientSecurity:
    """The beginning of each connection of a client: its TLS, and its login."""

    #: None without TLS
    tls: ssl.SSLContext | None = None
    #: The mechanism, and a login for each connection; None without SASL
    mechanism: str = ""
    new_login: NewLogin | None = None


def client_security(values: Mapping[str, Any]) -> ClientSecurity:
    """From the values of a client's settings. Raises ConfigError."""
    protocol = values["security.protocol"].upper()
    tls = _context(values) if protocol in ("SSL", "SASL_SSL") else None
    if not protocol.startswith("SASL_"):
        return ClientSecurity(tls)
    mechanism = values[MECHANISM]
    return ClientSecurity(tls, mechanism, _logins(mechanism, values))


def client_values(given: Mapping[str, str]) -> dict[str, Any]:
    """A client's settings: the given ones of Kafka's names, and the defaults of all others.

    Raises ConfigError.
    """
    values = {name: one.default for name, one in CONSUMER.items()}
    return values | {key: CONSUMER[key].value(text) for key, text in given.items()}


def tls_of(given: Mapping[str, str]) -> ssl.SSLContext:
    """TLS by settings of Kafka's names: files in every format that brokers read.

    PEM is known by its content where no format is given. Raises ConfigError.
    """
    values = client_values(given)
    for store in STORES:
        if f"{store}.type" not in given and _is_pem(values[f"{store}.location"]):
            values[f"{store}.type"] = PEM
    return _context(values)


def _is_pem(location: str | None) -> bool:
    """True for a file that begins as PEM does."""
    try:
        return location is not None and Path(location).read_bytes().lstrip()[:10] == PEM_BEGINS
    except OSError:
        return False


def _context(values: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    restrict(context, protocols_of(values.__getitem__), values["ssl.cipher.suites"] or ())
    context.check_hostname = (values["ssl.endpoint.identification.algorithm"] or "") == HTTPS
    trusted, own = truststore_of(values.__getitem__), keystore_of(values.__getitem__)
    if trusted is None:
        context.load_default_certs()
    else:
        load_trust(context, trusted)
    if own is not None:
        load_key(context, own)
    return context


def _logins(mechanism: str, values: Mapping[str, Any]) -> NewLogin:
    if mechanism == OAUTHBEARER and values[TOKENS] is not None:
        return _with_token_of(values[TOKENS])
    known = (PLAIN, *BY_NAME, OAUTHBEARER)
    if mechanism not in known:
        reason = f"Those that are here are {', '.join(known)}"
        raise ConfigError.of(MECHANISM, mechanism, reason)
    if values[JAAS] is None:
        raise ConfigError(f"{JAAS} is needed: it names the user of {mechanism}")
    options = login_options(mechanism, values[JAAS])

    async def make() -> ClientLogin:
        if mechanism == OAUTHBEARER:
            return TokenLogin(unsecured_token(options, int(time.time())))
        user, password = options["username"], options["password"]
        if mechanism == PLAIN:
            return PlainLogin(user, password)
        return ScramLogin(mechanism, user, password)

    return make


def login_options(mechanism: str, line: str) -> Mapping[str, str]:
    """The options of JAAS's one line, with all that the mechanism needs. Raises ConfigError."""
    try:
        options = options_of(JAAS, line)
        if mechanism == OAUTHBEARER:
            unsecured_token(options, 0)  # which refuses options that make no token
    except JaasError as mistake:
        raise ConfigError(str(mistake)) from None
    if mechanism != OAUTHBEARER and not {"username", "password"} <= options.keys():
        raise ConfigError(f'{JAAS}: expected username="…" and password="…"')
    return options


def _with_token_of(source: Any) -> NewLogin:
    """Logins with tokens of the application's own function, which may be a coroutine's."""
    if not callable(source):
        raise ConfigError(f"{TOKENS}: expected a function that returns a token")

    async def make() -> ClientLogin:
        token: Any = source()
        return TokenLogin(await token if inspect.isawaitable(token) else token)

    return make
