"""The addresses on which a broker listens (`listeners`) and those in its metadata
(`advertised.listeners`)."""

import re
from collections.abc import Mapping

from refimpl.configs.definition import BROKER
from refimpl.configs.values import ConfigError

_LISTENER = re.compile(r"PLAINTEXT://(.*):([0-9]{1,5})")


def listener_of(values: Mapping[str, str]) -> tuple[str, int] | None:
    """Host and port of `listeners`, if it is set; the host is empty where none is named.

    Raises ConfigError for anything but one listener without encryption.
    """
    return _one_listener("listeners", values)


def advertised_of(values: Mapping[str, str]) -> tuple[str, int] | None:
    """Host and port that clients are told to connect to, if they are not those where we listen: a
    proxy's, or those outside of a container.

    Raises ConfigError, also for a host that nobody can connect to.
    """
    found = _one_listener("advertised.listeners", values)
    if found is not None and found[0] in ("", "0.0.0.0", "::"):
        text = values["advertised.listeners"]
        raise ConfigError.of("advertised.listeners", text, "A host is expected that is reached")
    return found


def _one_listener(name: str, values: Mapping[str, str]) -> tuple[str, int] | None:
    if name not in values:
        return None
    listeners = BROKER[name].value(values[name])
    found = _LISTENER.fullmatch(listeners[0]) if len(listeners) == 1 else None
    if found is None or int(found[2]) >= 1 << 16:
        raise ConfigError.of(name, values[name], "One listener is served, PLAINTEXT://HOST:PORT")
    return found[1].strip("[]"), int(found[2])
