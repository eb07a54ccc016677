"""The keys that sign tokens: a JSON Web Key Set, from a file or an address (KIP-768)."""

import time
from collections.abc import Mapping
from concurrent.futures import Future
from http.client import HTTPException
from importlib import import_module
from threading import Thread
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from attrs import define, field

from refimpl.configs import ConfigError
from refimpl.security.sasl import SaslWaits

TIMEOUT_S = 5.0
STALE_S = 1.0
"""The least age of keys that are read again, also where `refresh_ms` is less."""
LEAST_S = 10.0
"""The time between two looks for a key that is not there."""


@define(eq=False)
class Keys:
    """The keys of one set, read at the start, after `refresh_ms`, and when one is missing.

    They are read again in a thread of their own: a server of keys that hangs holds up the logins
    that need it, and nobody else.
    """

    url: str
    refresh_ms: int
    _keys: dict[str, Any] = field(factory=dict[str, Any], init=False)
    _read_at: float = field(default=0.0, init=False)
    _reading: Future[None] | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        """Read them. Raises ConfigError if they cannot be read."""
        try:
            self._keys = self._read()
        except (URLError, OSError, ValueError) as unreadable:
            name = "sasl.oauthbearer.jwks.endpoint.url"
            raise ConfigError.of(name, self.url, str(unreadable)) from None
        self._read_at = time.monotonic()

    def __call__(self, header: Mapping[str, Any]) -> Any:
        """The key of a token with this header. Raises LookupError, or SaslWaits while they are
        read again."""
        kid = header.get("kid")
        reading = self._reading
        if reading is not None and reading.done():
            reading = self._reading = None
        age = time.monotonic() - self._read_at
        if reading is None and (
            age > max(self.refresh_ms / 1000, STALE_S) or (kid not in self._keys and age > LEAST_S)
        ):
            reading = self._reading = Future[None]()
            Thread(target=self._read_again, args=(reading,), daemon=True).start()
        if reading is not None:
            begun = reading
            raise SaslWaits(lambda then: begun.add_done_callback(lambda _: then()))
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys[str(kid)]

    def _read_again(self, done: Future[None]) -> None:
        """Read them in a thread; the old ones are good until others are there."""
        try:
            self._keys = self._read()
        except (URLError, OSError, ValueError, HTTPException):
            pass
        finally:
            self._read_at = time.monotonic()
            done.set_result(None)

    def _read(self) -> dict[str, Any]:
        jwt: Any = import_module("jwt")

        with urlopen(self.url, timeout=TIMEOUT_S) as answer:
            text = answer.read().decode()
        try:
            found = jwt.PyJWKSet.from_json(text)
        except jwt.PyJWTError as wrong:
            raise ValueError(f"no JSON Web Key Set: {wrong}") from None
        return {str(one.key_id): one.key for one in found.keys}
