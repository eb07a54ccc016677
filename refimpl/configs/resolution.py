"""Which value of a configuration counts: the file's, a dynamic one, a topic's own, or the default.

A dynamic value of the broker comes before one of all brokers, that before the file, and that before
the default (KIP-226). DescribeConfigs shows all of them as synonyms, the one that counts first.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from itertools import dropwhile

from attrs import evolve, field, frozen

from refimpl.configs.definition import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    INTERNAL,
    TOPIC,
    Definition,
)
from refimpl.configs.synonyms import BROKER_NAME, GROUP_NAME, chain, in_units_of, weaker
from refimpl.configs.values import Type, Value, show


class Source(IntEnum):
    """The source of a value; the numbers are those of DescribeConfigs."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


@frozen
class Synonym:
    """One of the values that a configuration has in different places; None for a secret."""

    name: str
    value: str | None
    source: Source


@frozen
class Entry:
    """A configuration as DescribeConfigs answers it."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    type: Type | None
    synonyms: tuple[Synonym, ...]
    documentation: str


@frozen
class Kind:
    """Resources with configurations of their own, before those of the broker."""

    definitions: Mapping[str, Definition]
    #: What the broker's configuration is called, where it has one
    broker_names: Mapping[str, str]
    source: Source
    #: Whether Kafka tells the default of what the broker has no configuration for
    with_default: bool


TOPICS = Kind(TOPIC, BROKER_NAME, Source.TOPIC_CONFIG, with_default=False)
GROUPS = Kind(GROUP, GROUP_NAME, Source.GROUP_CONFIG, with_default=True)
SUBSCRIPTIONS = Kind(CLIENT_METRICS, {}, Source.CLIENT_METRICS_CONFIG, with_default=False)


@frozen
class Configs:
    """The configurations of one broker, as texts by name: its file's and the dynamic ones."""

    static: Mapping[str, str] = field(factory=dict[str, str])
    dynamic: Mapping[str, str] = field(factory=dict[str, str])
    dynamic_default: Mapping[str, str] = field(factory=dict[str, str])

    def changed(
        self, *, dynamic: Mapping[str, str], dynamic_default: Mapping[str, str]
    ) -> "Configs":
        """These configurations after dynamic ones of this broker, and of all, have changed."""
        return evolve(self, dynamic=dynamic, dynamic_default=dynamic_default)

    def __getitem__(self, name: str) -> Value:
        """The value that counts, in the unit of its name, whatever name it was set by."""
        for layer in (self.dynamic, self.dynamic_default, self.static):
            for synonym in chain(name):
                if synonym in layer:
                    value = BROKER[synonym].value(layer[synonym])
                    return in_units_of(name, synonym, value)
        for synonym in chain(name):
            if (value := BROKER[synonym].default) is not None:
                return in_units_of(name, synonym, value)
        return None

    def topic(self, overrides: Mapping[str, str]) -> dict[str, Value]:
        """A topic's configurations: its own values, then the broker's, then the defaults."""
        return {name: self.topic_value(name, overrides) for name in TOPIC}

    def topic_value(self, name: str, overrides: Mapping[str, str]) -> Value:
        """One configuration of a topic."""
        return self._value(TOPICS, name, overrides)

    def describe_topic(self, overrides: Mapping[str, str]) -> Iterator[Entry]:
        """Every configuration of a topic."""
        return self._describe(TOPICS, overrides)

    def group_value(self, name: str, overrides: Mapping[str, str]) -> Value:
        """One configuration of a group."""
        return self._value(GROUPS, name, overrides)

    def describe_group(self, overrides: Mapping[str, str]) -> Iterator[Entry]:
        """Every configuration of a group."""
        return self._describe(GROUPS, overrides)

    def describe_subscription(self, overrides: Mapping[str, str]) -> Iterator[Entry]:
        """Every configuration of a subscription to clients' metrics."""
        return self._describe(SUBSCRIPTIONS, overrides)

    def describe_broker(self) -> Iterator[Entry]:
        """Every configuration of this broker, and whatever else it was given."""
        given = {**self.static, **self.dynamic_default, **self.dynamic}
        for name in given.keys() - BROKER.keys():
            # What has no type may be a secret.
            source = self._synonyms(name)[0].source
            yield Entry(name, None, source, True, True, None, (), "")
        for name, definition in BROKER.items():
            if definition.update != INTERNAL or name in given:
                value = show(self._of_that_name(name))
                yield _entry(definition, value, self._synonyms(name), definition.read_only)

    def describe_all_brokers(self) -> Iterator[Entry]:
        """The dynamic configurations that hold for every broker."""
        for name, value in self.dynamic_default.items():
            synonym = Synonym(name, value, Source.DYNAMIC_DEFAULT_BROKER_CONFIG)
            if definition := BROKER.get(name):
                yield _entry(definition, value, (synonym,), definition.read_only)
            else:
                yield Entry(name, None, synonym.source, True, True, None, (), "")

    def _value(self, kind: Kind, name: str, overrides: Mapping[str, str]) -> Value:
        """The resource's own value, then the broker's, then the default."""
        if name in overrides:
            return kind.definitions[name].value(overrides[name])
        if name in kind.broker_names:
            return self[kind.broker_names[name]]
        return kind.definitions[name].default

    def _describe(self, kind: Kind, overrides: Mapping[str, str]) -> Iterator[Entry]:
        for name, definition in kind.definitions.items():
            if definition.update == INTERNAL:
                continue
            value = show(self._value(kind, name, overrides))
            own = [Synonym(name, value, kind.source)] if name in overrides else []
            others = self._synonyms(kind.broker_names.get(name))
            if kind.with_default and not others:
                others = (Synonym(name, show(definition.default), Source.DEFAULT_CONFIG),)
            yield _entry(definition, value, (*own, *others), read_only=False)

    def _of_that_name(self, name: str) -> Value:
        """The value under this name alone: a dynamic one of a stronger name puts it out."""
        definition = BROKER[name]
        for layer in (self.dynamic, self.dynamic_default, self.static):
            if name in layer:
                return definition.value(layer[name])
            if layer is not self.static and any(other in layer for other in weaker(name)):
                break
        return definition.default

    def _synonyms(self, name: str | None) -> tuple[Synonym, ...]:
        """All values of a broker's setting, the one that counts first; the default last."""
        if name is None:
            return ()
        layers = (
            (self.dynamic, Source.DYNAMIC_BROKER_CONFIG),
            (self.dynamic_default, Source.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (self.static, Source.STATIC_BROKER_CONFIG),
        )
        found = [
            Synonym(synonym, _hidden(synonym, layer[synonym]), source)
            for layer, source in layers
            for synonym in chain(name)
            if synonym in layer
        ]
        defaults = ((one, show(BROKER[one].default)) for one in chain(name) if one in BROKER)
        texts = ((one, text) for one, text in defaults if text is not None)
        last = (Synonym(one, _hidden(one, text), Source.DEFAULT_CONFIG) for one, text in texts)
        # Of weaker names Kafka only tells behind the name itself.
        return tuple(dropwhile(lambda one: one.name != name, (*found, *last)))


def _entry(
    definition: Definition, value: str | None, synonyms: tuple[Synonym, ...], read_only: bool
) -> Entry:
    return Entry(
        definition.name,
        None if _sensitive(definition.name) else value,
        synonyms[0].source if synonyms else Source.DEFAULT_CONFIG,
        read_only,
        _sensitive(definition.name),
        definition.type,
        synonyms,
        definition.summary,
    )


def _sensitive(name: str) -> bool:
    tables = (BROKER, TOPIC, GROUP, CLIENT_METRICS)
    definition = next((one[name] for one in tables if name in one), None)
    return definition is None or definition.type is Type.PASSWORD


def _hidden(name: str, text: str) -> str | None:
    return None if _sensitive(name) else text
