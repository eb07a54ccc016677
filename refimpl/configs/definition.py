"""The definition of each configuration: type, default, valid values, and when it may change.

The tables beside this module are Kafka 4.3's; `make test-kafka` holds them against its `ConfigDef`.
"""

import re
from collections.abc import Mapping
from importlib.resources import files

from attrs import frozen

from refimpl.configs.values import (
    Type,
    Valid,
    Value,
    anything,
    at_least,
    between,
    each_of,
    gzip_level,
    not_empty,
    offset_reset,
    one_of,
    one_of_any_case,
    parse,
    throttled_replicas,
)

INTERNAL = "internal"
READ_ONLY = "read-only"
ANY_CASE = "(case insensitive) "
PER_BROKER = "per-broker"
NOT_EMPTY = ", not empty"
NON_EMPTY = "non-empty string"


@frozen
class Definition:
    """One configuration. Without a summary it is kept and answered, and has no effect here."""

    name: str
    type: Type
    default: Value
    valid: Valid
    update: str
    summary: str

    @property
    def supported(self) -> bool:
        """True if this broker does what the configuration says."""
        return bool(self.summary)

    @property
    def read_only(self) -> bool:
        """True if only a restart changes it."""
        return self.update in (READ_ONLY, INTERNAL)

    def value(self, text: str) -> Value:
        """The value that a text stands for; ConfigError if this configuration does not take it."""
        value = parse(self.name, text, self.type)
        self.valid(self.name, value)
        return value


def load(*tables: str) -> Mapping[str, Definition]:
    """The definitions of these tables by name, in their order."""
    found: dict[str, Definition] = {}
    for table in tables:
        text = files("refimpl.configs").joinpath(f"{table}.txt").read_text("utf-8")
        _title, _head, *rows = text.splitlines()
        found |= {one.name: one for one in map(_definition, rows)}
    return found


def _definition(row: str) -> Definition:
    name, kind, default, valid, update, summary = (cell.strip() for cell in row.split("|"))
    type = Type[kind]
    value = None if default == "null" else parse(name, default, type)
    return Definition(name, type, value, _valid(name, valid, type), update, summary)


_RANGE = re.compile(r"\[(-?[0-9.]+),\.\.\.(?:,(-?[0-9.]+))?\](?: or (-?[0-9]+))?")


def _valid(name: str, text: str, type: Type) -> Valid:
    """The check that Kafka describes so."""
    if name.endswith("replication.throttled.replicas"):
        return throttled_replicas
    if name == "auto.offset.reset":
        return offset_reset
    if text == NON_EMPTY:
        return not_empty
    if found := _RANGE.fullmatch(text):
        return _in_range(*found.groups())
    if text.startswith(ANY_CASE):
        return one_of_any_case(*text.removeprefix(ANY_CASE).strip("[]").split(", "))
    choices, _, _ = text.removeprefix("[").partition("]")
    if type is Type.LIST and text:
        listed = choices.split(", ") if text.startswith("[") else ()
        return each_of(*listed, empty=not text.endswith(NOT_EMPTY))
    return one_of(*choices.split(", ")) if text.startswith("[") else anything


def _in_range(low: str, high: str | None, default: str | None) -> Valid:
    if high is None:
        return at_least(_number(low))
    if default is None:
        return between(_number(low), _number(high))
    return gzip_level(int(low), int(high), int(default))


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


BROKER: Mapping[str, Definition] = load("broker", "unsupported")
AUTHORIZER: Mapping[str, Definition] = load("authorizer")
TOPIC: Mapping[str, Definition] = load("topic")
GROUP: Mapping[str, Definition] = load("group")
CLIENT_METRICS: Mapping[str, Definition] = load("client_metrics")
QUOTA: Mapping[str, Definition] = load("quotas")
PRODUCER: Mapping[str, Definition] = load("producer", "client_security")
CONSUMER: Mapping[str, Definition] = load("consumer", "client_security")


def has_effect(name: str) -> bool:
    """True if this broker does what a setting of server.properties says, or one of a listener."""
    definition = BROKER.get(name) or AUTHORIZER.get(name)
    if definition is None and name.startswith(LISTENER):
        _, _, rest = name.removeprefix(LISTENER).partition(".")
        of_mechanism = rest.partition(".")[2]
        definition = next((BROKER[o] for o in (rest, of_mechanism) if o in BROKER), None)
        if definition is not None and not definition.name.startswith(OF_LISTENERS):
            return False
    return definition is not None and definition.supported


LISTENER = "listener.name."
"""The prefix of a listener's settings: its name follows, for some a mechanism, and a setting."""

OF_LISTENERS = ("ssl.", "sasl.", "connections.max.reauth.ms", "connection.failed.")
"""The settings that a listener may have of its own."""
