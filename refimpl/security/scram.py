"""SCRAM credentials of users (KIP-84, KIP-554), as Kafka keeps them: never the password itself."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import new, pbkdf2_hmac
from hmac import digest
from typing import NamedTuple

from attrs import frozen


@frozen
class ScramMechanism:
    """A mechanism: its number in the protocol, its name, its hash, and its least iterations."""

    number: int
    name: str
    hash: str
    min_iterations: int = 4096


SHA_256 = ScramMechanism(1, "SCRAM-SHA-256", "sha256")
SHA_512 = ScramMechanism(2, "SCRAM-SHA-512", "sha512")
MECHANISMS: Mapping[int, ScramMechanism] = {one.number: one for one in (SHA_256, SHA_512)}
BY_NAME: Mapping[str, ScramMechanism] = {one.name: one for one in MECHANISMS.values()}
MAX_ITERATIONS = 16_384
"""The most iterations that a credential may have."""


class ScramCredential(NamedTuple):
    """A stored credential: it checks a password, and proves that the broker knows it as well."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """Nothing of it: whoever has it may pretend to be the broker."""
        return "ScramCredential([hidden])"


def credential_of(
    mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
) -> ScramCredential:
    """The credential for a password that its owner has salted."""
    client_key = digest(salted_password, b"Client Key", mechanism.hash)
    stored_key = new(mechanism.hash, client_key).digest()
    server_key = digest(salted_password, b"Server Key", mechanism.hash)
    return ScramCredential(salt, stored_key, server_key, iterations)


def salted(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """A password as it is sent to a cluster that shall keep its credential."""
    return pbkdf2_hmac(mechanism.hash, password.encode(), salt, iterations)


def to_text(credential: ScramCredential) -> str:
    """A credential as Kafka writes it into ZooKeeper."""
    salt, stored, server = (b64encode(one).decode() for one in credential[:3])
    iterations = credential.iterations
    return f"salt={salt},stored_key={stored},server_key={server},iterations={iterations}"


def from_text(text: str) -> ScramCredential:
    """A credential as Kafka wrote it. Raises ValueError without a word of its content."""
    pairs = dict(one.split("=", 1) for one in text.split(",") if "=" in one)
    try:
        salt, stored, server = (b64decode(pairs[k]) for k in ("salt", "stored_key", "server_key"))
        return ScramCredential(salt, stored, server, int(pairs["iterations"]))
    except (KeyError, ValueError):
        raise ValueError("a SCRAM credential that cannot be read") from None
