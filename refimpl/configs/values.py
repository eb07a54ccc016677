"""The types of configuration values, what each accepts, and how a value is written.

The texts of refusals are those of Kafka's `ConfigDef`: clients show them, and tests compare them.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import Any

from attrs import frozen

Value = Any
"""None, bool, int, float, str, or a tuple of str for a LIST."""

Valid = Callable[[str, Value], None]
"""Raises `ConfigError` for a value of the right type that a setting does not take."""

_COMMA = re.compile(r"\s*,\s*")
_BITS = {"SHORT": 16, "INT": 32, "LONG": 64}
_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")
RESETS, BY_DURATION = ("latest", "earliest", "none"), "by_duration:"
_DURATION = re.compile(
    r"P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?", re.IGNORECASE
)
_INTEGER = re.compile(r"[+-]?[0-9]+")


class ConfigError(ValueError):
    """A configuration's value is not one that it takes."""

    @classmethod
    def of(cls, name: str, value: Value, reason: str) -> "ConfigError":
        """In Kafka's words: the value, the configuration, and the reason."""
        return cls(f"Invalid value {value} for configuration {name}: {reason}")


class Type(Enum):
    """A configuration's type; the number is that of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


def parse(name: str, text: str, kind: Type) -> Value:
    """The value that a text stands for; ConfigError if it stands for none of this type."""
    trimmed = text.strip()
    match kind:
        case Type.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise ConfigError.of(name, text, "Expected value to be either true or false")
            return trimmed.lower() == "true"
        case Type.INT | Type.SHORT | Type.LONG:
            return _integer(name, text, trimmed, kind)
        case Type.DOUBLE:
            try:
                return float(trimmed)
            except ValueError:
                raise ConfigError.of(name, text, "Not a number of type DOUBLE") from None
        case Type.LIST:
            return tuple(_COMMA.split(trimmed)) if trimmed else ()
        case _:
            return trimmed


def show(value: Value) -> str | None:
    """A value as Kafka writes it: `true`, `1.5`, `a,b`; None for no value."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)  # pyright: ignore[reportUnknownArgumentType]
    return _java_double(value) if isinstance(value, float) else str(value)


def at_least(low: float) -> Valid:
    """A number not below `low`."""
    return _Range(low, None)


def between(low: float, high: float) -> Valid:
    """A number in a closed range."""
    return _Range(low, high)


def gzip_level(low: int, high: int, default: int) -> Valid:
    """A level of gzip, or the number that stands for the library's own default."""
    return _Level(low, high, default)


def one_of(*texts: str) -> Valid:
    """One text of several."""
    return _OneOf(texts)


def one_of_any_case(*texts: str) -> Valid:
    """One text of several, in capitals or not."""
    return _OneOfAnyCase(texts)


def each_of(*texts: str, empty: bool = True) -> Valid:
    """A list without duplicates, each element one of several texts, if there are any."""
    return _EachOf(texts, empty)


def not_empty(name: str, value: Value) -> None:
    """A text that is not empty, or none."""
    if value == "":
        raise ConfigError.of(name, value, "String must be non-empty")


def throttled_replicas(name: str, value: Value) -> None:
    """`*`, or pairs of partition and broker."""
    if "".join(value) == "*" or all(_REPLICA.fullmatch(one) for one in value):
        return
    raise ConfigError.of(
        name,
        f"[{', '.join(value)}]",
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    )


def offset_reset(name: str, value: Value) -> None:
    """One of Kafka's strategies of reset, or a duration of ISO 8601 (KIP-1106)."""
    if value not in RESETS and duration_ms(value) is None:
        raise ConfigError.of(
            name, value, f"expected {', '.join(RESETS)}, or {BY_DURATION}PnDTnHnMn.nS"
        )


def duration_ms(value: str) -> int | None:
    """The milliseconds of `by_duration:PnDTnHnMn.nS`; None if it is no such text."""
    found = _DURATION.fullmatch(value.removeprefix(BY_DURATION))
    if not value.startswith(BY_DURATION) or found is None or not any(found.groups()):
        return None
    days, hours, minutes, seconds = (float(one or 0) for one in found.groups())
    return round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def anything(name: str, value: Value) -> None:
    """Every value of the type."""


@frozen
class _Range:
    low: float
    high: float | None

    def __call__(self, name: str, value: Value) -> None:
        if value is None:
            raise ConfigError.of(name, "null", "Value must be non-null")
        if value < self.low:
            raise ConfigError.of(name, show(value), f"Value must be at least {self.low}")
        if self.high is not None and value > self.high:
            raise ConfigError.of(name, show(value), f"Value must be no more than {self.high}")

    def __str__(self) -> str:
        return f"[{self.low},...]" if self.high is None else f"[{self.low},...,{self.high}]"


@frozen
class _Level:
    low: int
    high: int
    default: int

    def __call__(self, name: str, value: Value) -> None:
        if value != self.default and not self.low <= value <= self.high:
            reason = f"Value must be between {self.low} and {self.high} or equal to {self.default}"
            raise ConfigError.of(name, show(value), reason)

    def __str__(self) -> str:
        return f"[{self.low},...,{self.high}] or {self.default}"


@frozen
class _OneOf:
    texts: tuple[str, ...]

    def __call__(self, name: str, value: Value) -> None:
        if value not in self.texts:
            reason = f"String must be one of: {', '.join(self.texts)}"
            raise ConfigError.of(name, show(value), reason)

    def __str__(self) -> str:
        return f"[{', '.join(self.texts)}]"


@frozen
class _OneOfAnyCase(_OneOf):
    def __call__(self, name: str, value: Value) -> None:
        if value is None or str(value).upper() not in self.texts:
            reason = f"String must be one of (case insensitive): {', '.join(self.texts)}"
            raise ConfigError.of(name, show(value), reason)

    def __str__(self) -> str:
        return f"(case insensitive) {super().__str__()}"


@frozen
class _EachOf:
    texts: tuple[str, ...]
    empty: bool

    def __call__(self, name: str, value: Value) -> None:
        if not value and not self.empty:
            choices = f"[{', '.join(self.texts)}]" if self.texts else "any non-empty value"
            raise ConfigError(
                f"Configuration '{name}' must not be empty. Valid values include: {choices}"
            )
        if len(set(value)) != len(value):
            raise ConfigError(f"Configuration '{name}' values must not be duplicated.")
        for one in value:
            if not one:
                raise ConfigError(f"Configuration '{name}' values must not be empty.")
            if self.texts:
                _OneOf(self.texts)(name, one)

    def __str__(self) -> str:
        return f"[{', '.join(self.texts)}]" if self.texts else ""


def _integer(name: str, text: str, trimmed: str, kind: Type) -> int:
    limit = 1 << (_BITS[kind.name] - 1)
    if not _INTEGER.fullmatch(trimmed) or not -limit <= int(trimmed) < limit:
        raise ConfigError.of(name, text, f"Not a number of type {kind.name}")
    return int(trimmed)


def _java_double(value: float) -> str:
    """As `Double.toString` writes it: with an exponent from 10^7 on and below 10^-3."""
    if value == 0 or 1e-3 <= abs(value) < 1e7 or not isfinite(value):
        return repr(value)
    exact = Decimal(repr(value)).normalize()
    sign, digits, _ = exact.as_tuple()
    first, *rest = map(str, digits)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or 0}E{exact.adjusted()}"
