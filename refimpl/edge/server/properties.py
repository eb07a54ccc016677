"""A broker's settings from a file in Java's `.properties` syntax; mistakes are named by line."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from attrs import frozen

from refimpl.configs.definition import AUTHORIZER, BROKER, has_effect
from refimpl.configs.values import ConfigError
from refimpl.edge.server.config_providers import PREFIX as OF_PROVIDERS
from refimpl.edge.server.config_providers import resolved

# What follows is for one listener, for a plug-in, or for a client inside Kafka's broker.
PREFIXES = (
    *("listener.name.", "remote.log.", "rsm.config.", "rlmm.config.", "zookeeper."),
    "config.providers.",
)
_NAMED = re.compile(r"(?:\bfor configuration |^)([a-z0-9._-]+)(?:: | is needed)")
"""The setting that a reason is about."""


@frozen
class Problem:
    """A mistake in one line, or a setting without effect."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


class PropertiesError(ValueError):
    """A file of settings cannot be used; every reason is named with its line."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@frozen
class Properties:
    """The settings of a file, warnings about those that have no effect, and where each is."""

    file: str
    values: dict[str, str]
    warnings: tuple[Problem, ...]
    lines: Mapping[str, int]

    def placed(self, reason: str, values: Mapping[str, str]) -> str:
        """A reason with the line of the setting that it names, if that is in this file.

        A setting that is missing among all `values` is missed by a listener: its line is told.
        """
        named = _NAMED.search(reason)
        name = named[1] if named is not None else ""
        found = [one for one in values if one == name or _is_for_listener(one, name)]
        exact = [one for one in found if f"Invalid value {values[one]} for" in reason]
        line = self.lines.get((exact or found or ["listeners"])[0])
        return reason if line is None else str(Problem(self.file, line, reason))


def _is_for_listener(name: str, general: str) -> bool:
    """True for a setting of one listener that comes before this general one."""
    return name.startswith("listener.name.") and name.endswith(f".{general}")


def read_properties(text: str, file: str) -> Properties:
    """The settings in a file's text; PropertiesError names every line that cannot be used.

    A setting of Kafka's that this broker does not support is kept, and warned of once. One that
    nobody knows is warned of and left out, as in Kafka, whose files are full of them.
    """
    values: dict[str, str] = {}
    problems: list[Problem] = []
    warnings: dict[str, Problem] = {}
    lines: dict[str, int] = {}
    written = [*_lines(text, file)]
    given = _resolved(written, file)
    for line, name, value in (
        (line, name, given.get(name, value)) for line, name, value in written
    ):
        if reason := _mistake(name, value):
            problems.append(Problem(file, line, reason))
        elif reason := unknown(name):
            told = reason.replace("unknown setting", "unknown setting, which has no effect")
            warnings[name] = Problem(file, line, told)
            continue
        elif not has_effect(name) and not name.startswith(OF_PROVIDERS):
            warnings[name] = Problem(file, line, f"{name} is not supported and has no effect")
        values[name] = value
        lines[name] = line
    problems += _contradictions(values, lines, file)
    if problems:
        raise PropertiesError(problems)
    return Properties(file, values, tuple(warnings.values()), lines)


def _contradictions(
    values: Mapping[str, str], lines: Mapping[str, int], file: str
) -> Iterator[Problem]:
    """Settings of which each is right, and not both."""
    node, broker = values.get("node.id"), values.get("broker.id")
    if node is not None and broker not in (None, "-1", node):
        line = max(lines["node.id"], lines["broker.id"])
        yield Problem(
            file, line, f"broker.id={broker}, but node.id={node} in line {lines['node.id']}"
        )
    roles = [one.strip() for one in values.get("process.roles", "broker").split(",")]
    if "broker" not in roles:
        reason = f"process.roles={values['process.roles']}: a controller alone is not served"
        yield Problem(file, lines["process.roles"], reason)


def _resolved(written: Sequence[tuple[int, str, str]], file: str) -> Mapping[str, str]:
    """The settings, with the values that config.providers have. Raises PropertiesError."""
    values = {name: value for _, name, value in written}
    try:
        return resolved(values, lambda text, path: dict(_pairs(text, path)))
    except ConfigError as refused:
        about = str(refused).partition(": ")[0]
        line = next((line for line, name, _ in written if name == about), 1)
        raise PropertiesError([Problem(file, line, str(refused))]) from None


def _pairs(text: str, file: str) -> Iterator[tuple[str, str]]:
    return ((name, value) for _, name, value in _lines(text, file))


def properties_of(text: str, file: str) -> dict[str, str]:
    """The settings in a file's text, whatever their names, with the values of config.providers;
    PropertiesError.
    """
    return dict(_resolved([*_lines(text, file)], file))


def setting(text: str) -> tuple[str, str]:
    """A name and its value from `name=value`, as `--set` takes it; ConfigError."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise ConfigError(f"{text!r} is not a setting: name=value is expected")
    if reason := _mistake(name, value) or unknown(name):
        raise ConfigError(reason)
    return name, value


def directories_of(values: Mapping[str, str]) -> Sequence[str]:
    """The directories of `log.dirs`, or else of `log.dir`, if one is set. Raises ConfigError."""
    for name in ("log.dirs", "log.dir"):
        if name in values:
            return BROKER[name].value(values[name])
    return ()


def _lines(text: str, file: str) -> Iterator[tuple[int, str, str]]:
    """The number of the line where each setting begins, its name and its value."""
    import javaproperties  # only now: most brokers have no such file

    line = 1
    try:
        for part in javaproperties.parse(text):  # pyright: ignore[reportUnknownMemberType]
            if isinstance(part, javaproperties.KeyValue):
                yield line, part.key, part.value
            line += len(part.source.splitlines())
    except javaproperties.InvalidUEscapeError as invalid:
        reason = f"{invalid.escape} is not an escape: \\u and four hexadecimal digits are expected"
        raise PropertiesError([Problem(file, line, reason)]) from None


def _mistake(name: str, value: str) -> str | None:
    """The reason for which this setting cannot be used; None if it can."""
    if definition := BROKER.get(name) or AUTHORIZER.get(name):
        try:
            definition.value(value)
        except ConfigError as invalid:
            return str(invalid)
    return None


def unknown(name: str) -> str | None:
    """The sentence about a name that no setting has, with the nearest one; None for a setting."""
    if name in BROKER or name in AUTHORIZER or name.startswith(PREFIXES):
        return None
    near = get_close_matches(name, [*BROKER, *AUTHORIZER], n=1, cutoff=0.8)
    return f"{name}: unknown setting" + (f"; did you mean {near[0]}?" if near else "")
