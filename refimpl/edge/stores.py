"""Key stores and trust stores: files of keys and certificates as PEM, PKCS12 or JKS.

The formats are `cryptography`'s to read, and pyjks's.
"""

import os
import ssl
import tempfile
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from attrs import field, frozen

from refimpl.configs import ConfigError

PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
JKS_MAGIC = b"\xfe\xed\xfe\xed"


class _Unusable(ValueError):
    """A file, and what is wrong with it; never what is in it."""


@frozen
class Store:
    """A key store or a trust store: a file, or its content in the settings themselves."""

    #: The prefix of its settings, such as `ssl.keystore`
    name: str
    type: str
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)

    def read(self) -> "Entries":
        """Its keys and certificates. Raises ConfigError, which names the setting or the file."""
        try:
            if self.location is None:
                parts = "\n".join(_lines(one) for one in (self.key, self.certificates) if one)
                return _pem(parts.encode(), self.key_password)
            data = Path(self.location).read_bytes()
            if self.type.upper() == PEM:
                return _pem(data, self.key_password)
            if data.startswith(JKS_MAGIC):
                return _jks(data, self.password, self.key_password)
            return _pkcs12(data, self.password)
        except OSError as unreadable:
            reason = f"The file cannot be read: {unreadable.strerror}"
            raise ConfigError.of(f"{self.name}.location", self.location, reason) from None
        except _Unusable as wrong:
            raise ConfigError.of(f"{self.name}.location", self.location, str(wrong)) from None


@frozen
class Entries:
    """A private key and its chain, and certificates besides, all as PEM."""

    key: bytes | None = field(repr=False)
    certificates: Sequence[bytes]


def keystore_of(value: Callable[[str], Any]) -> Store | None:
    """The key store of some settings, None without one."""
    chain = value("ssl.keystore.certificate.chain")
    location = value("ssl.keystore.location") or None
    if location is None and chain is None:
        return None
    return Store(
        "ssl.keystore",
        value("ssl.keystore.type"),
        location,
        value("ssl.keystore.password"),
        value("ssl.key.password"),
        value("ssl.keystore.key"),
        chain,
    )


def truststore_of(value: Callable[[str], Any]) -> Store | None:
    """The trust store of some settings, None without one."""
    trusted = value("ssl.truststore.certificates")
    location = value("ssl.truststore.location") or None
    if location is None and trusted is None:
        return None
    return Store(
        "ssl.truststore",
        value("ssl.truststore.type"),
        location,
        value("ssl.truststore.password"),
        certificates=trusted,
    )


def protocols_of(value: Callable[[str], Any]) -> tuple[str, ...]:
    """The versions of TLS that the settings enable. Raises ConfigError."""
    protocols = value("ssl.enabled.protocols")
    if unknown := set(protocols) - VERSIONS.keys():
        reason = f"Those that are here are {', '.join(VERSIONS)}"
        raise ConfigError.of("ssl.enabled.protocols", ",".join(sorted(unknown)), reason)
    return protocols or tuple(VERSIONS)


def restrict(context: ssl.SSLContext, protocols: Sequence[str], ciphers: Sequence[str]) -> None:
    """Let a context speak these versions and suites alone. Raises ConfigError."""
    versions = [VERSIONS[one] for one in protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    older = [one for one in ciphers if not one.startswith("TLS_AES_")]
    if older and "TLSv1.2" in protocols:
        try:
            context.set_ciphers(":".join(map(_openssl_name, older)))
        except ssl.SSLError:
            names = ",".join(older)
            raise ConfigError.of("ssl.cipher.suites", names, "OpenSSL knows none") from None


def _openssl_name(suite: str) -> str:
    """OpenSSL's name of a suite: ECDHE-RSA-AES128-GCM-SHA256."""
    name = suite.removeprefix("TLS_").replace("_WITH_", "-").replace("_", "-")
    return name.replace("AES-128", "AES128").replace("AES-256", "AES256")


def load_trust(context: ssl.SSLContext, store: Store) -> None:
    """Let a context trust the certificates of a store. Raises ConfigError."""
    trusted = b"".join(store.read().certificates).decode()
    try:
        context.load_verify_locations(cadata=trusted)
    except (ssl.SSLError, ValueError):
        name = f"{store.name}.location"
        raise ConfigError.of(name, store.location, "No certificate is in it") from None


def load_key(context: ssl.SSLContext, store: Store) -> None:
    """Let a context have the key of a store. Raises ConfigError.

    OpenSSL reads keys from files alone, so there is one for a moment.
    """
    entries = store.read()
    if entries.key is None or not entries.certificates:
        reason = "A private key and its certificate are expected in it"
        raise ConfigError.of(f"{store.name}.location", store.location, reason)
    handle, path = tempfile.mkstemp(prefix="highwater-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(entries.key + b"".join(entries.certificates))
        context.load_cert_chain(path)
    except ssl.SSLError:
        reason = "The key does not belong to the certificate"
        raise ConfigError.of(f"{store.name}.location", store.location, reason) from None
    finally:
        os.unlink(path)


# Formats


def _lines(text: str) -> str:
    """PEM in one line of a file of settings has blanks for ends of lines."""
    if "\n" in text.strip():
        return text
    for kind in ("CERTIFICATE", "PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "RSA PRIVATE KEY"):
        text = text.replace(f"-----BEGIN {kind}-----", f"\n-----BEGIN {kind}-----\n")
        text = text.replace(f"-----END {kind}-----", f"\n-----END {kind}-----\n")
    return text


def _pem(data: bytes, password: str | None) -> Entries:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    key = None
    try:
        if b"PRIVATE KEY-----" in data:
            secret = password.encode() if password and b"ENCRYPTED" in data else None
            key = _plain(serialization.load_pem_private_key(_keys_of(data), secret))
        certificates = x509.load_pem_x509_certificates(data) if b"CERTIFICATE" in data else []
    except (ValueError, TypeError) as wrong:
        raise _Unusable("No PEM, or another password is expected") from wrong
    return Entries(key, [_certificate(one) for one in certificates])


def _keys_of(data: bytes) -> bytes:
    """The private key among other parts."""
    mark = b"PRIVATE KEY-----"
    start = data.rindex(b"-----BEGIN", 0, data.index(mark))
    return data[start : data.index(mark, data.index(b"-----END", start)) + len(mark)]


def _pkcs12(data: bytes, password: str | None) -> Entries:
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        found = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except (ValueError, TypeError) as wrong:
        raise _Unusable("No PKCS12, or another password is expected") from wrong
    first = [found.cert] if found.cert is not None else []
    several = [one.certificate for one in (*first, *found.additional_certs)]
    return Entries(
        None if found.key is None else _plain(found.key), [_certificate(one) for one in several]
    )


def _jks(data: bytes, password: str | None, key_password: str | None) -> Entries:
    try:
        library: Any = import_module("jks")
    except ModuleNotFoundError:
        raise _Unusable(
            "A store of the old format JKS needs pyjks: pip install pyjks, or convert it with "
            "keytool -importkeystore -deststoretype pkcs12"
        ) from None
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    try:
        store = library.KeyStore.loads(data, password or "")
        key, chain = None, list[bytes]()
        for entry in store.private_keys.values():
            if not entry.is_decrypted():
                entry.decrypt(key_password or password or "")
            key = _plain(serialization.load_der_private_key(entry.pkey_pkcs8, None))
            chain = [der for _, der in entry.cert_chain]
        chain += [one.cert for one in store.certs.values()]
    except (library.util.KeystoreException, ValueError) as wrong:
        raise _Unusable("No JKS, or another password is expected") from wrong
    return Entries(key, [_certificate(x509.load_der_x509_certificate(one)) for one in chain])


def _plain(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _certificate(one: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return one.public_bytes(serialization.Encoding.PEM)
