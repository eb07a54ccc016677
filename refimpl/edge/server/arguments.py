"""Checks of a caller's arguments to a cluster: names of APIs, of errors and of settings, numbers,
ports. Each refusal is a ValueError of one sentence, with the nearest valid name."""

import inspect
import warnings
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from numbers import Real
from typing import Any

from refimpl.api.table import APIS
from refimpl.configs import (
    AUTHORIZER,
    BROKER,
    TOPIC,
    ConfigError,
    Definition,
    has_effect,
    show,
)
from refimpl.edge.server.addresses import advertised_of, listener_of
from refimpl.edge.server.properties import PREFIXES
from refimpl.edge.server.security import check_security
from refimpl.wire.api_names import api_names
from refimpl.wire.errors import error_names

MOST_BROKERS = 64
"""The most brokers of one process."""

_ELSEWHERE = {
    "broker.id": "brokers are numbered from 1 on",
    "node.id": "brokers are numbered from 1 on",
    "log.dir": "`data` says where logs are",
    "log.dirs": "`data` says where logs are",
    "zookeeper.connect": "`highwater broker --zookeeper` serves a cluster in ZooKeeper",
}


class NoEffectWarning(UserWarning):
    """A setting of Kafka's that changes nothing here."""


Setting = str | int | float | bool
"""The value of a setting: a text as in server.properties, or what would be written there."""


def nearest(name: object, known: Iterable[str]) -> str:
    """`; did you mean …?`, or nothing where no name is near."""
    text = str(name).strip()
    names = {one.lower(): one for one in known}
    begun = [one for one in names if text and one.startswith(f"{text.lower()}_")]
    near = get_close_matches(text.lower(), names, n=1, cutoff=0.7) or begun[:1]
    return f"; did you mean {names[near[0]]}?" if near else ""


# Requests and their errors


def api(name: object) -> str:
    """The name of an API that is served."""
    served = [one.name for one in APIS.values()]
    if name in served:
        return str(name)
    if name in api_names().values():
        raise ValueError(f"{name} is not served here, so no request would meet a rule for it")
    raise ValueError(f"no API of Kafka's is called {name!r}{nearest(name, served)}")


def error(name: object) -> str:
    """The name of an error, as Kafka has it."""
    names = error_names()
    if isinstance(name, int) and name in names:
        raise ValueError(f"an error is given by its name: {name} is {names[name]}")
    if name == names[0]:
        raise ValueError(f"{name} is no error: a request that is answered with it has not failed")
    if name not in names.values():
        raise ValueError(f"no error of Kafka's is called {name!r}{nearest(name, names.values())}")
    return str(name)


# Numbers


def whole(name: str, value: Any, least: int = 0, most: int | None = None) -> int:
    """A whole number within bounds."""
    number = isinstance(value, int) and not isinstance(value, bool)
    if number and least <= value and (most is None or value <= most):
        return value
    bounds = f"from {least} on" if most is None else f"from {least} to {most}"
    raise ValueError(f"{name}: a whole number {bounds} is expected, found {value!r}")


def text(name: str, value: Any) -> str:
    """A text with something in it."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name}: a text is expected, found {value!r}")
    return value


def callable_or_none(name: str, value: object) -> None:
    """A function to call, or nothing."""
    if value is not None and not callable(value):
        raise ValueError(f"{name}: a function is expected, found {value!r}")


def condition(value: object) -> None:
    """A function without arguments that says whether something is so by now."""
    if not callable(value):
        raise ValueError(f"until: a function such as `lambda: …` is expected, found {value!r}")
    if inspect.iscoroutinefunction(value):
        raise ValueError("until: a condition is no coroutine, which would count as true")


def met(what: Any, count: int | None, most: int | None, timeout_ms: int) -> None:
    """A number of requests that a rule can meet, which is for at most so many, or any of a cue."""
    if count is not None:
        whole("count", count, 1)
    whole("timeout_ms", timeout_ms, 1)
    if not hasattr(what, "wait_met"):
        kinds = "a rule or a cue, such as hold(…) or when(…) answers,"
        raise ValueError(f"met: {kinds} is expected, found {what!r}")
    if most is not None and what.met < (count or 1) > most:
        raise ValueError(f"met: the rule is for {most} requests, and never meets {count or 1}")


def topic(name: Any, partitions: int, replicas: int, assignments: Any) -> None:
    """A topic to be made; the controller checks its name and whether brokers suffice."""
    text("topic", name)
    whole(f"partitions of topic {name}", partitions, 1)
    whole(f"replicas of topic {name}", replicas, 1)
    given = (partitions, replicas)
    if assignments and given != (1, 1) and given != _shape(assignments):
        found = f"partitions={partitions} and replicas={replicas}"
        raise ValueError(f"topic {name}: assignments={assignments!r} contradict {found}")


def _shape(assignments: Mapping[int, Any]) -> tuple[int, int]:
    return len(assignments), max(map(len, assignments.values()))


# Settings


def broker_settings(
    given: Mapping[str, Any], host: str, port: int, *, in_memory: bool
) -> dict[str, str]:
    """Settings of server.properties as texts, whatever they were given as; ConfigError.

    What Kafka knows and this broker does not do is warned of.
    """
    found = _texts(given, {**BROKER, **AUTHORIZER}, PREFIXES)
    _listens(found, host, port)
    check_security(found)
    idle = [one for one in found if not has_effect(one)]
    elsewhere = [one for one in found if one in _ELSEWHERE and (in_memory or "log" not in one)]
    for name in sorted({*idle, *elsewhere}):
        why = _ELSEWHERE.get(name, "this broker does not support it")
        warnings.warn(f"{name} has no effect: {why}", NoEffectWarning, stacklevel=4)
    return found


def topic_settings(given: Mapping[str, Any]) -> dict[str, str]:
    """A topic's own settings as texts; ConfigError."""
    return _texts(given, TOPIC)


def _texts(
    given: Mapping[str, Any], table: Mapping[str, Definition], others: tuple[str, ...] = ()
) -> dict[str, str]:
    kind = "setting of a topic" if table is TOPIC else "setting"
    found: dict[str, str] = {}
    for name, value in given.items():
        if name not in table and not (others and str(name).startswith(others)):
            raise ConfigError(f"no {kind} is called {name!r}{nearest(name, table)}")
        found[name] = _text(name, value)
        if name in table:
            table[name].value(found[name])
    return found


def _text(name: str, value: Any) -> str:
    """As server.properties would have it: 2 is "2", True is "true"."""
    if isinstance(value, str):
        return value
    if isinstance(value, Real):
        return show(value) or ""
    raise ConfigError(f"{name}: a text, a number or a bool is expected, found {value!r}")


def _listens(found: Mapping[str, str], host: str, port: int) -> None:
    """Listeners are where `host` and `port` say, without encryption and without a login."""
    listener = listener_of(found)
    advertised_of(found)
    if listener is not None and listener != (host, port):
        asked = f"listeners={found['listeners']}"
        raise ConfigError(f"{asked}, but host={host!r} and port={port} say where brokers listen")


def racks(given: Mapping[int, str], brokers: int) -> None:
    """Each rack belongs to a broker that there is."""
    for number, rack in given.items():
        if number not in range(1, brokers + 1):
            raise ValueError(f"racks: there is no broker {number!r} of {brokers} to be in {rack!r}")
