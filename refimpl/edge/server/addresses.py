"""The addresses on which a broker listens (`listeners`) and those in its metadata
(`advertised.listeners`).

A listener has a name, to which `listener.security.protocol.map` gives a protocol. Those of
`controller.listener.names` are no listeners for clients, and are left out.
"""

import re
from collections.abc import Mapping, Sequence

from attrs import frozen

from refimpl.configs.definition import BROKER
from refimpl.configs.values import ConfigError

_LISTENER = re.compile(r"([A-Za-z0-9_.-]+)://(.*):([0-9]{1,5})")
_MOST_PORT = (1 << 16) - 1
_ANYWHERE = ("0.0.0.0", "::")
PLAINTEXT = "PLAINTEXT"
PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@frozen
class Address:
    """A listener's name, and the host and port where it is; the host may be empty."""

    name: str
    host: str
    port: int


def listeners_of(values: Mapping[str, str]) -> Sequence[Address]:
    """The listeners for clients in `listeners`, in order; none if it is not set.

    Raises ConfigError for what is no address, for a name or a port twice, and for a protocol that
    is not served.
    """
    found = _addresses("listeners", values)
    for kind in ("name", "port"):
        seen = [getattr(one, kind) for one in found if getattr(one, kind)]
        if len(set(seen)) < len(seen):
            reason = f"Each listener must have a different {kind}"
            raise ConfigError.of("listeners", values["listeners"], reason)
    clients = _for_clients(values, found)
    if found and not clients:
        reason = "There is no listener for clients: all of them are controller.listener.names"
        raise ConfigError.of("listeners", values["listeners"], reason)
    for one in clients:
        if (protocol := protocol_of(values, one.name)) not in PROTOCOLS:
            reason = f"{one.name} is {protocol}, and {', '.join(PROTOCOLS)} are served"
            raise ConfigError.of("listeners", values["listeners"], reason)
    return clients


def listener_of(values: Mapping[str, str]) -> tuple[str, int] | None:
    """Host and port of the first listener for clients, if there is one. Raises ConfigError."""
    found = listeners_of(values)
    return (found[0].host, found[0].port) if found else None


def advertised_listeners_of(values: Mapping[str, str]) -> Mapping[str, tuple[str, int]]:
    """Host and port of each listener that clients are told to connect to, where they are not those
    where we listen: a proxy's, or those outside of a container. An empty host is the listener's.

    Raises ConfigError, also for a host that nobody can connect to.
    """
    name = "advertised.listeners"
    found = _for_clients(values, _addresses(name, values))
    listening = {one.name for one in listeners_of(values)} or {PLAINTEXT}
    for one in found:
        if one.host in _ANYWHERE:
            raise ConfigError.of(name, values[name], "A host is expected that is reached")
        if one.name not in listening:
            raise ConfigError.of(name, values[name], f"{one.name} is not among the listeners")
    return {one.name: (one.host, one.port) for one in found}


def advertised_of(values: Mapping[str, str]) -> tuple[str, int] | None:
    """Host and port that clients of the first listener are told to connect to; ConfigError."""
    names = [one.name for one in listeners_of(values)] or [PLAINTEXT]
    return advertised_listeners_of(values).get(names[0])


def protocol_of(values: Mapping[str, str], listener: str) -> str:
    """The security protocol of a listener: by the map, or by its own name. Raises ConfigError."""
    name = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for pair in values.get(name, "").split(","):
        key, colon, protocol = (part.strip() for part in pair.partition(":"))
        if pair.strip() and not (key and colon and protocol):
            raise ConfigError.of(name, values[name], "NAME:PROTOCOL is expected, and commas")
        protocols[key.upper()] = protocol.upper()
    if listener in protocols:
        return protocols[listener]
    if listener in PROTOCOLS:
        return listener
    asked = values.get("listeners", listener)
    raise ConfigError.of("listeners", asked, f"{name} has no protocol for {listener}")


def _for_clients(values: Mapping[str, str], found: Sequence[Address]) -> Sequence[Address]:
    controllers = {one.upper() for one in _texts("controller.listener.names", values)}
    return [one for one in found if one.name not in controllers]


def _addresses(name: str, values: Mapping[str, str]) -> Sequence[Address]:
    return [_address(name, values[name], one) for one in _texts(name, values)]


def _texts(name: str, values: Mapping[str, str]) -> Sequence[str]:
    return BROKER[name].value(values[name]) if name in values else ()


def _address(name: str, value: str, text: str) -> Address:
    found = _LISTENER.fullmatch(text)
    if found is None or int(found[3]) > _MOST_PORT:
        raise ConfigError.of(name, value, f"{text} is no listener, NAME://HOST:PORT")
    return Address(found[1].upper(), found[2].strip("[]"), int(found[3]))
