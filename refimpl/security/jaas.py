"""`sasl.jaas.config`: one login module and its options, in JAAS's syntax (KIP-85)."""

import re
from collections.abc import Mapping

_VALUE = r'(?:"(?:[^"\\]|\\.)*"|[^\s;"]+)'
_FLAG = r"(?:required|requisite|sufficient|optional)"
_MODULE = re.compile(rf"\s*([\w.$]+)\s+{_FLAG}((?:\s+[^\s=]+={_VALUE})*)\s*;\s*", re.IGNORECASE)
_OPTION = re.compile(r'([^\s=]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')


class JaasError(ValueError):
    """A login module that cannot be read. What is in it may be secret, so it is not repeated."""


def options_of(name: str, text: str) -> Mapping[str, str]:
    """The options of the one login module of a setting. Raises JaasError."""
    found = _MODULE.fullmatch(text)
    if found is None:
        raise JaasError(
            f'{name}: a login module is expected, as in `PlainLoginModule required key="value";`'
        )
    return {
        key: re.sub(r"\\(.)", r"\1", quoted) if quoted or not bare else bare
        for key, quoted, bare in _OPTION.findall(found[2])
    }


USER_PREFIX = "user_"


def plain_users(options: Mapping[str, str]) -> Mapping[str, str]:
    """The passwords of PlainLoginModule's users: the options `user_NAME`."""
    return {
        key.removeprefix(USER_PREFIX): value
        for key, value in options.items()
        if key.startswith(USER_PREFIX)
    }
