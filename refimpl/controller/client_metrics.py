"""Clients' metrics (KIP-714): what a client is asked to push, and when it may.

Kafka's ClientMetricsManager. A subscription is a configuration of its own: prefixes of metrics, an
interval, and the clients that it is for. A client is known by the id of its instance, to this
process alone, until its connection ends or it is silent for long.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field, frozen
from crc32c import crc32c

from refimpl.configs import CLIENT_METRICS as SETTINGS
from refimpl.configs import ConfigError
from refimpl.controller.errors import ApiError
from refimpl.messages.cluster import ClusterMetadata

ATTRIBUTES = (
    *("client_instance_id", "client_id", "client_software_name", "client_software_version"),
    *("client_source_address", "client_source_port"),
)
"""The attributes of a client that a subscription may ask about."""

METRICS, INTERVAL, MATCH = "metrics", "interval.ms", "match"
ALL = "*"
LEAST_MS, MOST_MS = 100, 3_600_000
KEPT_MS, KEPT_INTERVALS, MOST_INSTANCES = 60_000, 3, 16_384
"""An instance is kept for so long, or so many intervals if they are more, and so many are."""

CODECS = 5
"""Codecs of batches, which are those of metrics."""

ZERO, RESERVED = bytes(16), (bytes(16), (1).to_bytes(16))
"""No id, and the ids that no instance may have."""

_FORGIVEN = ("UNKNOWN_SUBSCRIPTION_ID", "UNSUPPORTED_COMPRESSION_TYPE")
"""Refusals after which an instance may ask again at once."""


# Subscriptions


@frozen
class Subscription:
    """The metrics that some clients are asked for, and how often."""

    metrics: frozenset[str]
    interval_ms: int
    patterns: Mapping[str, Any]

    @classmethod
    def of(cls, values: Mapping[str, str]) -> "Subscription":
        """The subscription of these configurations. Raises ConfigError."""
        found = {name: one.default for name, one in SETTINGS.items()}
        found |= {name: SETTINGS[name].value(text) for name, text in values.items()}
        patterns = dict(_pattern(one) for one in found[MATCH])
        return cls(frozenset(found[METRICS]), found[INTERVAL], patterns)

    def is_for(self, attributes: Mapping[str, str]) -> bool:
        """True if each pattern matches the whole attribute; an empty one matches nothing."""
        return all(
            attributes[name] and pattern.fullmatch(attributes[name])
            for name, pattern in self.patterns.items()
        )


def check_subscription(name: str, values: Mapping[str, str]) -> None:
    """Raise ApiError if these cannot be the configurations of a subscription."""
    if not name:
        raise ApiError("INVALID_REQUEST", "Subscription name can't be empty")
    for key in values:
        if key not in SETTINGS:
            raise ApiError("INVALID_REQUEST", f"Unknown client metrics configuration: {key}")
    try:
        interval_ms = Subscription.of({**values, MATCH: ""}).interval_ms
        if not LEAST_MS <= interval_ms <= MOST_MS:
            raise ApiError(
                "INVALID_REQUEST",
                f"Invalid value {interval_ms} for {INTERVAL}, interval must be between {LEAST_MS} "
                f"and {MOST_MS} (1 hour)",
            )
        Subscription.of(values)
    except ConfigError as error:
        raise ApiError("INVALID_CONFIG", str(error)) from None


def _pattern(text: str) -> tuple[str, Any]:
    """An attribute and the regular expression that it shall match. Raises ConfigError."""
    import re2 as untyped  # pyright: ignore[reportMissingTypeStubs]  # few clusters need it

    re2: Any = untyped
    options = re2.Options()
    options.log_errors = False
    wrong = ConfigError(f"Illegal client matching pattern: {text}")
    name, *patterns = text.rstrip("=").split("=")
    if len(patterns) != 1 or name.strip() not in ATTRIBUTES:
        raise wrong
    try:
        return name.strip(), re2.compile(patterns[0].strip(), options)
    except re2.error:
        raise wrong from None


# Instances


@frozen
class ClientInstance:
    """A client as its telemetry requests show it; `id` is of 16 bytes, `name` is its text."""

    id: bytes
    name: str
    client_id: str
    software: tuple[str, str]
    address: str
    port: int
    #: The number of its connection
    connection: int

    @property
    def attributes(self) -> Mapping[str, str]:
        """The texts that patterns are about."""
        values = (self.name, self.client_id, *self.software, self.address, str(self.port))
        return dict(zip(ATTRIBUTES, values, strict=True))


@frozen
class Asked:
    """The metrics that an instance is asked for; the id says when that has changed."""

    subscription_id: int
    metrics: Sequence[str]
    interval_ms: int


@define(eq=False)
class _Instance:
    """One instance: what it is asked for, and its last requests in ms."""

    client: ClientInstance
    asked: Asked
    configured: Mapping[str, Mapping[str, str]]
    got_ms: int = 0
    pushed_ms: int = 0
    is_terminating: bool = False
    last_error: str | None = None
    until_ms: int = 0

    def get(self, now: int) -> bool:
        """True for a question that does not come before its time."""
        if now - max(self.got_ms, self.pushed_ms) < self.asked.interval_ms:
            return False
        self.got_ms = now
        return True

    def push(self, now: int) -> bool:
        """True for a push that does not come before its time: the first after a question may."""
        if self.got_ms <= self.pushed_ms and now - self.pushed_ms < self.asked.interval_ms:
            return False
        self.pushed_ms = now
        return True


@define(eq=False)
class ClientMetrics:
    """The instances of clients at one broker, the one that was silent for longest first."""

    metadata: ClusterMetadata
    telemetry_max_bytes: int
    instances: OrderedDict[bytes, _Instance] = field(factory=OrderedDict[bytes, _Instance])
    #: The instances of each connection
    _of: dict[int, dict[bytes, None]] = field(factory=dict[int, dict[bytes, None]], init=False)

    def subscribe(self, now: int, client: ClientInstance) -> Asked:
        """The metrics that an instance is asked for. Raises ApiError."""
        one = self._instance(now, client)
        if not one.get(now) and one.last_error not in _FORGIVEN:
            raise ApiError("THROTTLING_QUOTA_EXCEEDED")
        one.last_error = None
        return one.asked

    def push(
        self,
        now: int,
        client: ClientInstance,
        subscription_id: int,
        codec: int,
        size: int,
        *,
        is_terminating: bool,
    ) -> int:
        """Take so many bytes of metrics; answers the instance's interval. Raises ApiError."""
        if client.id in RESERVED:
            raise ApiError("INVALID_REQUEST")
        one = self._instance(now, client)
        if one.is_terminating:
            error: str | None = "INVALID_REQUEST"
        elif not one.push(now) and not is_terminating:
            error = "THROTTLING_QUOTA_EXCEEDED"
        elif subscription_id != one.asked.subscription_id:
            error = "UNKNOWN_SUBSCRIPTION_ID"
        elif codec not in range(CODECS):
            error = "UNSUPPORTED_COMPRESSION_TYPE"
        else:
            error = "TELEMETRY_TOO_LARGE" if size > self.telemetry_max_bytes else None
        one.is_terminating, one.last_error = is_terminating, error
        if error is not None:
            raise ApiError(error)
        return one.asked.interval_ms

    def failed(self, client: ClientInstance, error: str) -> None:
        """Metrics that were taken could not be handed on."""
        if client.id in self.instances:
            self.instances[client.id].last_error = error

    def disconnected(self, connection: int) -> None:
        """Forget the instances of a connection that has ended."""
        for one in self._of.pop(connection, ()):
            del self.instances[one]

    def _instance(self, now: int, client: ClientInstance) -> _Instance:
        """The instance as it is known; a new one, also where what is asked has changed."""
        configured = self.metadata.client_metrics
        known = one = self.instances.get(client.id)
        if one is None or one.until_ms <= now:
            one = _Instance(client, _asked(client, configured), configured)
        elif one.configured is not configured:
            one = _Instance(one.client, _asked(one.client, configured), configured)
        one.until_ms = now + max(KEPT_MS, KEPT_INTERVALS * one.asked.interval_ms)
        if known is not None:
            self._leave(known)
        self.instances[client.id] = one
        self.instances.move_to_end(client.id)
        self._of.setdefault(one.client.connection, {})[client.id] = None
        while len(self.instances) > MOST_INSTANCES:
            self._leave(self.instances.popitem(last=False)[1])
        return one

    def _leave(self, one: _Instance) -> None:
        """Note that this instance is no longer of its connection."""
        own = self._of[one.client.connection]
        del own[one.client.id]
        if not own:
            del self._of[one.client.connection]


def _asked(client: ClientInstance, configured: Mapping[str, Mapping[str, str]]) -> Asked:
    """All that the subscriptions for a client ask for together, at the shortest interval."""
    attributes = client.attributes
    fitting = [one for one in map(Subscription.of, configured.values()) if one.is_for(attributes)]
    default = SETTINGS[INTERVAL].default
    interval_ms = min((one.interval_ms for one in fitting), default=default)
    found = frozenset[str]().union(*(one.metrics for one in fitting))
    metrics = [ALL] if ALL in found else sorted(found)
    checksum = crc32c(f"{metrics}{interval_ms}".encode())
    words = (int.from_bytes(client.id[at : at + 4]) for at in range(0, 16, 4))
    for word in words:
        checksum ^= word
    signed = checksum - (1 << 32) if checksum >> 31 else checksum
    return Asked(signed, metrics, min(interval_ms, default))
