"""The keys that sign tokens: a JSON Web Key Set, from a file or an address (KIP-768)."""

import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from attrs import define, field

from refimpl.configs import ConfigError

TIMEOUT_S = 5.0
LEAST_S = 10.0
"""The time between two looks for a key that is not there."""


@define(eq=False)
class Keys:
    """The keys of one set, read at the start, after `refresh_ms`, and when one is missing."""

    url: str
    refresh_ms: int
    _keys: dict[str, Any] = field(factory=dict[str, Any], init=False)
    _read_at: float = field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        """Read them. Raises ConfigError if they cannot be read."""
        try:
            self._read()
        except (URLError, OSError, ValueError) as unreadable:
            name = "sasl.oauthbearer.jwks.endpoint.url"
            raise ConfigError.of(name, self.url, str(unreadable)) from None

    def __call__(self, header: Mapping[str, Any]) -> Any:
        """The key of a token with this header. Raises LookupError."""
        kid, age = header.get("kid"), time.monotonic() - self._read_at
        if age > self.refresh_ms / 1000 or (kid not in self._keys and age > LEAST_S):
            try:
                self._read()
            except (URLError, OSError, ValueError):
                self._read_at = time.monotonic()  # the old ones are good until others are there
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys[str(kid)]

    def _read(self) -> None:
        jwt: Any = import_module("jwt")

        with urlopen(self.url, timeout=TIMEOUT_S) as answer:
            text = answer.read().decode()
        try:
            found = jwt.PyJWKSet.from_json(text)
        except jwt.PyJWTError as wrong:
            raise ValueError(f"no JSON Web Key Set: {wrong}") from None
        self._keys = {str(one.key_id): one.key for one in found.keys}
        self._read_at = time.monotonic()
