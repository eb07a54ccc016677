"""Values that a file of settings takes from elsewhere: `${provider:path:key}`.

`config.providers` names the providers, `config.providers.NAME.class` their class (KIP-297, KIP-421,
KIP-887). A variable that its provider does not know stays as it is written.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from refimpl.configs.values import ConfigError

PROVIDERS = "config.providers"
PREFIX = f"{PROVIDERS}."
PACKAGE = "org.apache.kafka.common.config.provider."
VARIABLE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")

Read = Callable[[str], Mapping[str, str]]
"""The values that a provider has at a path, by key."""


def resolved(
    values: Mapping[str, str], read: Callable[[str, str], Mapping[str, str]]
) -> Mapping[str, str]:
    """The settings with their variables replaced. `read` reads a properties file: text and name.

    Raises ConfigError, which names the setting.
    """
    names = [one.strip() for one in values.get(PROVIDERS, "").split(",") if one.strip()]
    providers = {name: _provider(name, values, read) for name in names}
    if not providers:
        return values
    return {
        name: value if name.startswith(PREFIX) else _replaced(name, value, providers)
        for name, value in values.items()
    }


def _replaced(name: str, value: str, providers: Mapping[str, Read]) -> str:
    def value_of(variable: re.Match[str]) -> str:
        provider, path, key = variable[1], variable[2] or "", variable[3]
        if provider not in providers:
            return variable[0]
        try:
            return providers[provider](path).get(key, variable[0])
        except OSError as failure:
            reason = f"{variable[0]}: {failure.strerror}: {path}"
        except ConfigError as refused:
            reason = f"{variable[0]}: {refused}"
        raise ConfigError(f"{name}: {reason}")

    return VARIABLE.sub(value_of, value)


def _provider(
    name: str, values: Mapping[str, str], read: Callable[[str, str], Mapping[str, str]]
) -> Read:
    setting = f"{PREFIX}{name}.class"
    known = values.get(setting)
    if known is None:
        raise ConfigError(f"{PROVIDERS}: {setting} is needed")
    parameters = f"{PREFIX}{name}.param."
    match known.removeprefix(PACKAGE):
        case "FileConfigProvider":
            is_allowed = _allowed(f"{parameters}allowed.paths", values)
            return lambda path: _of_file(path, read) if path and is_allowed(path) else {}
        case "DirectoryConfigProvider":
            is_allowed = _allowed(f"{parameters}allowed.paths", values)
            return lambda path: _of_directory(path) if path and is_allowed(path) else {}
        case "EnvVarConfigProvider":
            pattern = values.get(f"{parameters}allowlist.pattern", ".*")
            return lambda path: _of_environment(path, pattern)
        case _:
            ours = "FileConfigProvider, DirectoryConfigProvider or EnvVarConfigProvider"
            raise ConfigError(f"{setting}: {known} is none of {PACKAGE}{ours}")


def _allowed(setting: str, values: Mapping[str, str]) -> Callable[[str], bool]:
    """True for a path that is one of these, or inside one; for every path if none are named."""
    if not values.get(setting):
        return lambda path: True
    roots = [Path(os.path.normpath(one)) for one in values[setting].split(",")]
    for root in roots:
        if not root.is_absolute() or not root.exists():
            raise ConfigError(f"{setting}: {root} is no absolute path of something that exists")

    def is_allowed(path: str) -> bool:
        wanted = Path(os.path.normpath(path))
        return any(wanted.is_relative_to(root) for root in roots)

    return is_allowed


def _of_file(path: str, read: Callable[[str, str], Mapping[str, str]]) -> Mapping[str, str]:
    return read(Path(path).read_text(errors="backslashreplace"), path)


def _of_directory(path: str) -> Mapping[str, str]:
    """A value per file, with the file's name as key; a directory that is not there has none."""
    if not Path(path).is_dir():
        return {}
    return {one.name: one.read_text() for one in Path(path).iterdir() if one.is_file()}


def _of_environment(path: str, pattern: str) -> Mapping[str, str]:
    if path:
        raise ConfigError(f"the environment has no path: ${{provider:KEY}} is expected, not {path}")
    return {key: value for key, value in os.environ.items() if re.fullmatch(pattern, key)}
