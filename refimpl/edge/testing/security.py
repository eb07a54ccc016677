"""Security for a test's cluster in one line: certificates, users, ACLs, and clients' settings.

security = Security(users={"reader": "secret"})
with Cluster(security=security) as cluster:
    producer = Producer(security.confluent(cluster.bootstrap, "reader"))
"""

import os
import ssl
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

from attrs import define, field

from refimpl.edge.server.addresses import PROTOCOLS
from refimpl.edge.stores import PEM, Store
from refimpl.messages import controller as c
from refimpl.security.scram import BY_NAME, MECHANISMS, salted

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
TOKEN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
BY_NAME_ALONE = r"RULE:^(?:.*,)?CN=([^,]+)(?:,.*)?$/$1/,DEFAULT"
"""A certificate's common name is the user."""


@define(eq=False)
class Security:
    """Users with passwords, and a listener that asks for them.

    With an authorizer users may do what ACLs allow, and `super_users` everything. Certificates are
    made by an authority of this object's own and are for `host`; files lie in `folder`, which is a
    temporary one until it is named.
    """

    users: Mapping[str, str] = field(factory=lambda: {"admin": "admin-secret"}, repr=False)
    protocol: str = "SASL_SSL"
    mechanism: str = "SCRAM-SHA-256"
    super_users: Sequence[str] = ("admin",)
    authorizer: bool = True
    host: str = "127.0.0.1"
    folder: Path | None = None
    _authority: Any = field(default=None, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be, and make the certificates."""
        if self.protocol not in PROTOCOLS:
            raise ValueError(
                f"protocol: one of {', '.join(PROTOCOLS)} is expected, found {self.protocol!r}"
            )
        if self.folder is None:
            self.folder = Path(mkdtemp(prefix="highwater-security-"))
            finalize(self, rmtree, self.folder, ignore_errors=True)
        if self.has_tls:
            self._certify()

    @property
    def has_tls(self) -> bool:
        """True if the listener speaks TLS."""
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        """True if clients log in."""
        return self.protocol.startswith("SASL")

    def _certify(self) -> None:
        try:
            trustme: Any = import_module("trustme")
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "certificates for a test need trustme: pip install 'highwatermark[test]'"
            ) from None
        authority = self._authority = trustme.CA(organization_name="Highwater")
        authority.cert_pem.write_to_path(self.file("ca.pem"))
        self._issue("broker", authority.issue_cert(self.host, common_name="broker"))
        for user in self.users:
            identity = f"{_as_host(user)}.client"
            self._issue(f"user-{user}", authority.issue_cert(identity, common_name=user))

    def _issue(self, name: str, issued: Any) -> None:
        """Write a key and its certificates: the key as PKCS8, the one form that Kafka reads."""
        text = issued.private_key_and_cert_chain_pem.bytes().decode()
        entries = Store("ssl.keystore", PEM, certificates=text).read()
        assert entries.key is not None
        path = self.file(f"{name}.pem")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(entries.key + b"".join(entries.certificates))

    def renew(self) -> None:
        """Write another key and certificate of the brokers, by the same authority."""
        self._issue("broker", self._authority.issue_cert(self.host, common_name="broker"))

    def file(self, name: str) -> str:
        """The path of a file."""
        assert self.folder is not None
        return str(self.folder / name)

    # The brokers' settings

    def settings(self, port: int = 0) -> dict[str, str]:
        """The settings of brokers; Kafka takes the same ones."""
        name = f"listener.name.{self.protocol.lower()}"
        found = {"listeners": f"{self.protocol}://{self.host}:{port}"}
        if self.has_tls:
            found |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": self.file("broker.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.file("ca.pem"),
            }
            if not self.has_sasl:
                found |= {
                    f"{name}.ssl.client.auth": "required",
                    "ssl.principal.mapping.rules": BY_NAME_ALONE,
                }
        if self.has_sasl:
            users = " ".join(f'user_{user}="{word}"' for user, word in self.users.items())
            found |= {
                "sasl.enabled.mechanisms": ",".join(("PLAIN", *BY_NAME, "OAUTHBEARER")),
                f"{name}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
                f"{name}.oauthbearer.sasl.jaas.config": f"{TOKEN_MODULE} required;",
            }
        if self.authorizer:
            privileged = ";".join(f"User:{user}" for user in self.super_users)
            found |= {"authorizer.class.name": STANDARD, "super.users": privileged}
        return found

    def credentials(self) -> c.AlterUserScramCredentialsRequest:
        """The request by which a cluster keeps the users' SCRAM credentials."""
        upsertions: list[c.ScramUpsertion] = []
        if not self.has_sasl:
            return c.AlterUserScramCredentialsRequest((), ())
        for user, word in self.users.items():
            mechanism, salt = MECHANISMS[self._scram], os.urandom(16)
            mixed = salted(mechanism, word, salt, mechanism.min_iterations)
            upsertions.append(
                c.ScramUpsertion(user, mechanism.number, mechanism.min_iterations, salt, mixed)
            )
        return c.AlterUserScramCredentialsRequest((), upsertions)

    @property
    def _scram(self) -> int:
        known = BY_NAME.get(self.mechanism)
        return 1 if known is None else known.number

    # The clients' settings

    def confluent(self, bootstrap: str, user: str) -> dict[str, Any]:
        """The settings of confluent-kafka, and of whatever else is made of librdkafka."""
        found: dict[str, Any] = {"bootstrap.servers": bootstrap, "security.protocol": self.protocol}
        if self.has_tls:
            found |= {"ssl.ca.location": self.file("ca.pem")}
            if not self.has_sasl:
                path = self.file(f"user-{user}.pem")
                found |= {"ssl.certificate.location": path, "ssl.key.location": path}
        if self.mechanism == "OAUTHBEARER" and self.has_sasl:
            return found | {
                "sasl.mechanism": self.mechanism,
                "enable.sasl.oauthbearer.unsecure.jwt": True,
                "sasl.oauthbearer.config": f"principal={user}",
            }
        if self.has_sasl:
            word = self.users[user]
            login = {"sasl.username": user, "sasl.password": word}
            found |= {"sasl.mechanism": self.mechanism, **login}
        return found

    def python(self, bootstrap: str, user: str) -> dict[str, Any]:
        """The settings of kafka-python."""
        found: dict[str, Any] = {
            "bootstrap_servers": bootstrap.split(","),
            "security_protocol": self.protocol,
        }
        if self.has_tls:
            found |= {"ssl_cafile": self.file("ca.pem")}
            if not self.has_sasl:
                path = self.file(f"user-{user}.pem")
                found |= {"ssl_certfile": path, "ssl_keyfile": path}
        if self.has_sasl:
            found |= {"sasl_mechanism": self.mechanism, **self._python_login(user)}
        return found

    def aiokafka(self, bootstrap: str, user: str) -> dict[str, Any]:
        """The settings of aiokafka."""
        found: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "security_protocol": self.protocol,
        }
        if self.has_tls:
            context = ssl.create_default_context(cafile=self.file("ca.pem"))
            if not self.has_sasl:
                context.load_cert_chain(self.file(f"user-{user}.pem"))
            found |= {"ssl_context": context}
        if self.has_sasl:
            found |= {"sasl_mechanism": self.mechanism, **self._python_login(user)}
        return found

    def _python_login(self, user: str) -> dict[str, Any]:
        return {"sasl_plain_username": user, "sasl_plain_password": self.users[user]}

    def java(self, user: str) -> dict[str, str]:
        """The settings of Java clients, of Kafka's tools, and of our own clients and verbs."""
        found = {"security.protocol": self.protocol}
        if self.has_tls:
            found |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self.file("ca.pem"),
            }
            if not self.has_sasl:
                found |= {
                    "ssl.keystore.type": "PEM",
                    "ssl.keystore.location": self.file(f"user-{user}.pem"),
                }
        if self.has_sasl:
            word = self.users[user]
            module = PLAIN_MODULE if self.mechanism == "PLAIN" else SCRAM_MODULE
            options = f'username="{user}" password="{word}"'
            if self.mechanism == "OAUTHBEARER":
                module, options = TOKEN_MODULE, f'unsecuredLoginStringClaim_sub="{user}"'
            found |= {
                "sasl.mechanism": self.mechanism,
                "sasl.jaas.config": f"{module} required {options};",
            }
        return found


def _as_host(user: str) -> str:
    return "".join(one if one.isalnum() else "-" for one in user).strip("-") or "user"
