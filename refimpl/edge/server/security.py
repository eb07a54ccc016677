"""The security of a listener by its settings: TLS, SASL, and who a client is.

A setting of a listener comes before the general one, as in Kafka: `listener.name.NAME.` before its
name, and for a mechanism's login module the mechanism as well.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field

from refimpl.api.login import Mechanisms
from refimpl.configs import BROKER, ConfigError, Configs, show
from refimpl.edge.server.addresses import PLAINTEXT, listeners_of, protocol_of
from refimpl.edge.server.tls import Tls, TlsSettings, distinguished_name
from refimpl.messages.cluster import ClusterMetadata
from refimpl.security.acls import Acls
from refimpl.security.config import authorizer_of
from refimpl.security.jaas import JaasError, options_of, plain_users
from refimpl.security.principals import ANONYMOUS, USER, SslPrincipalMapper
from refimpl.security.sasl import (
    OAUTHBEARER,
    PLAIN,
    Exchange,
    OAuthBearerExchange,
    PlainExchange,
    ScramExchange,
    TokenRules,
)
from refimpl.security.scram import BY_NAME

SSL, SASL_SSL, SASL_PLAINTEXT = "SSL", "SASL_SSL", "SASL_PLAINTEXT"
JAAS = "sasl.jaas.config"


@define(eq=False)
class ListenerSecurity:
    """The security of a listener: its protocol, certificates and mechanisms."""

    name: str
    protocol: str
    #: None without TLS
    tls: Tls | None = None
    #: None without SASL
    mechanisms: Mechanisms | None = None
    #: sasl.server.max.receive.size: the largest frame before the login is done
    max_receive_bytes: int = 524_288
    #: connection.failed.authentication.delay.ms
    failed_delay_ms: int = 100
    #: ssl.principal.mapping.rules
    mapper: SslPrincipalMapper = field(factory=lambda: SslPrincipalMapper.of("DEFAULT"))

    def principal_of(self, transport: asyncio.BaseTransport | None) -> str:
        """The principal of a client by its certificate alone. Raises NoMatchingRule."""
        certified = None
        if transport is not None and self.tls is not None and self.mechanisms is None:
            connection = transport.get_extra_info("ssl_object")
            certified = connection and connection.getpeercert(binary_form=True)
        if not certified:
            return ANONYMOUS
        return f"{USER}{self.mapper.user(distinguished_name(certified))}"


@define(eq=False)
class SecuritySettings:
    """The settings of one listener, the most specific ones first."""

    configs: Configs
    listener: str

    def text(self, name: str, mechanism: str = "") -> str | None:
        """The text of a setting where it is set, else Kafka's default."""
        static = self.configs.static
        prefix = f"listener.name.{self.listener.lower()}."
        names = (f"{prefix}{mechanism.lower()}.{name}", f"{prefix}{name}", name)
        found = next((static[one] for one in names if one in static), None)
        if found is None and name in BROKER:
            return show(BROKER[name].default)
        return found

    def value(self, name: str, mechanism: str = "") -> Any:
        """The value of a setting. Raises ConfigError."""
        text = self.text(name, mechanism)
        return None if text is None else BROKER[name].value(text)


def security_of(
    configs: Configs, listener: str, metadata: Callable[[], ClusterMetadata]
) -> ListenerSecurity | None:
    """The security of a listener; None for PLAINTEXT. Raises ConfigError for what cannot be."""
    protocol = protocol_of(configs.static, listener)
    settings = SecuritySettings(configs, listener)
    if protocol == PLAINTEXT:
        return None
    tls = Tls(TlsSettings.of(settings.value)) if protocol in (SSL, SASL_SSL) else None
    if tls is not None:
        tls.context()  # what is wrong with its files is told at the start
    mechanisms = None
    if protocol in (SASL_SSL, SASL_PLAINTEXT):
        mechanisms = _mechanisms(settings, metadata)
    return ListenerSecurity(
        listener,
        protocol,
        tls,
        mechanisms,
        settings.value("sasl.server.max.receive.size"),
        settings.value("connection.failed.authentication.delay.ms"),
        mapper_of(settings),
    )


def check_security(values: Mapping[str, str]) -> None:
    """Raises ConfigError for settings of listeners, logins or the authorizer that cannot be."""
    configs = Configs(values)
    for one in listeners_of(values):
        security_of(configs, one.name, ClusterMetadata)
    authorizer_of(configs, Acls())


def _mechanisms(settings: SecuritySettings, metadata: Callable[[], ClusterMetadata]) -> Mechanisms:
    names = settings.value("sasl.enabled.mechanisms")
    makers: dict[str, Callable[[], Exchange]] = {}
    for name in names:
        makers[name] = _maker(settings, name, metadata)
    most = {name: settings.value("connections.max.reauth.ms", name) for name in names}
    return Mechanisms(makers, most)


def _maker(
    settings: SecuritySettings, name: str, metadata: Callable[[], ClusterMetadata]
) -> Callable[[], Exchange]:
    if name in BY_NAME:
        mechanism = BY_NAME[name]

        def credential(user: str) -> Any:
            return metadata().scram.get(user, {}).get(mechanism.name)

        return lambda: ScramExchange(mechanism, credential, secrets.token_urlsafe(18))
    if name == PLAIN:
        passwords = plain_users(_options(settings, name))
        return lambda: PlainExchange(passwords)
    if name == OAUTHBEARER:
        rules = _token_rules(settings)
        return lambda: OAuthBearerExchange(rules)
    supported = ", ".join((PLAIN, *BY_NAME, OAUTHBEARER))
    raise ConfigError.of("sasl.enabled.mechanisms", name, f"Those that are here are {supported}")


def _options(settings: SecuritySettings, mechanism: str) -> Mapping[str, str]:
    """The options of a mechanism's login module, which must be set for the listener."""
    prefix = f"listener.name.{settings.listener.lower()}.{mechanism.lower()}."
    text = settings.configs.static.get(f"{prefix}{JAAS}")
    if text is None:
        raise ConfigError(f"{prefix}{JAAS} is needed: it names the users of {mechanism}")
    try:
        return options_of(f"{prefix}{JAAS}", text)
    except JaasError as mistake:
        raise ConfigError(str(mistake)) from None


def _token_rules(settings: SecuritySettings) -> TokenRules:
    value = settings.value
    url = value("sasl.oauthbearer.jwks.endpoint.url")
    if url is None:
        options = _options(settings, OAUTHBEARER)
        skew = options.get("unsecuredValidatorAllowableClockSkewMs", "0")
        claim = options.get("unsecuredValidatorPrincipalClaimName", "sub")
        return TokenRules(claim, int(skew) if skew.isdecimal() else 0)
    from refimpl.edge.server.jwks import Keys

    return TokenRules(
        value("sasl.oauthbearer.sub.claim.name"),
        1000 * value("sasl.oauthbearer.clock.skew.seconds"),
        value("sasl.oauthbearer.expected.audience"),
        value("sasl.oauthbearer.expected.issuer"),
        Keys(url, value("sasl.oauthbearer.jwks.endpoint.refresh.ms")),
    )


def mapper_of(settings: SecuritySettings) -> SslPrincipalMapper:
    """The rules by which a certificate is a user. Raises ConfigError."""
    name = "ssl.principal.mapping.rules"
    text = settings.text(name) or "DEFAULT"
    try:
        return SslPrincipalMapper.of(text)
    except ValueError as mistake:
        raise ConfigError.of(name, text, str(mistake)) from None
