"""`--command-config FILE`: the settings of Kafka's own tools, for librdkafka."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from traces.model.output import Refusal

TRUST, OWN, JAAS = "ssl.truststore.", "ssl.keystore.", "sasl.jaas.config"
PEM, PKCS12 = "PEM", "PKCS12"
UNSECURED = "unsecuredLoginStringClaim_sub"
_OPTION = re.compile(r'([^\s=]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')


def command_config(file: Path) -> dict[str, str]:
    """The settings of a file of lines `key=value`, as librdkafka calls them. Raises Refusal."""
    settings = dict(_lines(file))
    found = {key: text for key, text in settings.items() if not key.startswith((TRUST, OWN, JAAS))}
    if location := settings.get(f"{TRUST}location"):
        _expect(file, settings, TRUST, location, (PEM,))
        found["ssl.ca.location"] = location
    if location := settings.get(f"{OWN}location"):
        kind = _expect(file, settings, OWN, location, (PEM, PKCS12))
        if kind == PEM:
            found |= {"ssl.certificate.location": location, "ssl.key.location": location}
        else:
            found |= {f"{OWN}location": location}
            found |= {f"{OWN}password": settings.get(f"{OWN}password", "")}
    if text := settings.get(JAAS):
        found |= _login(file, text, settings.get("sasl.mechanism", ""))
    return found


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(file.read_text(errors="backslashreplace").splitlines(), 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        key, equals, value = text.partition("=")
        if not equals:
            raise Refusal(f"{file}:{number}: expected KEY=VALUE, found {key!r}")
        yield key.strip(), re.sub(r"\\(.)", r"\1", value.strip())


def _expect(
    file: Path, settings: Mapping[str, str], store: str, location: str, kinds: tuple[str, ...]
) -> str:
    """The format of a file of keys, by its setting or its content."""
    try:
        begins = Path(location).read_bytes()[:10]
    except OSError as unreadable:
        raise Refusal(f"{file}: {store}location={location}: {unreadable.strerror}") from None
    kind = settings.get(f"{store}type", PEM if begins == b"-----BEGIN" else PKCS12).upper()
    if kind not in kinds:
        reason = f"librdkafka reads {' and '.join(kinds)} here"
        raise Refusal(f"{file}: {store}type={kind}: {reason}")
    return kind


def _login(file: Path, text: str, mechanism: str) -> dict[str, str]:
    """The user and the password of JAAS's one line, or the claims of a token for tests."""
    options = {
        key: re.sub(r"\\(.)", r"\1", quoted) or bare for key, quoted, bare in _OPTION.findall(text)
    }
    if mechanism == "OAUTHBEARER":
        if UNSECURED not in options:
            raise Refusal(f'{file}: {JAAS}: expected {UNSECURED}="…"')
        claims = f"principal={options[UNSECURED]} principalClaimName=sub"
        token = {"sasl.oauthbearer.config": claims}
        return {**token, "enable.sasl.oauthbearer.unsecure.jwt": "true"}
    if not {"username", "password"} <= options.keys():
        raise Refusal(f'{file}: {JAAS}: expected username="…" and password="…"')
    return {"sasl.username": options["username"], "sasl.password": options["password"]}
