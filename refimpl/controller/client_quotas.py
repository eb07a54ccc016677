"""The throttle time of a client that exceeds its quota (KIP-13, KIP-124, KIP-612).

Kafka's ClientQuotaManager: the bytes of each client, and the time that its requests take, are
counted in windows. While a client is above its quota it is not read from, and the answer names the
throttle time. Connections from an address above its quota are ended after that time.
"""

from collections import deque
from collections.abc import Iterator

from attrs import define, field

from refimpl.controller.quotas import CLIENT_ID, IP, USER
from refimpl.messages.cluster import ClusterMetadata, QuotaEntity
from refimpl.security.principals import ANONYMOUS_USER

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
REQUEST = "request_percentage"
CONNECTION = "connection_creation_rate"
PERCENT_OF_NS = 1e-7
"""A nanosecond, as a percentage of a second."""

Sharers = tuple[str | None, str | None]
"""The user and the client id that share a quota; None where it does not matter."""


@define
class Rate:
    """A rate per second over the last `count` windows, each of so many ms."""

    count: int
    window_ms: int
    #: The start of each window, and the amount counted in it
    windows: deque[tuple[int, float]] = field(factory=deque[tuple[int, float]])

    def record(self, now: int, amount: float) -> None:
        """Count an amount."""
        windows = self.windows
        while windows and now - windows[0][0] >= self.count * self.window_ms:
            windows.popleft()
        if not windows or now - windows[-1][0] >= self.window_ms:
            windows.append((now, 0))
        self.add(amount)

    def add(self, amount: float) -> None:
        """Count an amount in the newest window."""
        began, before = self.windows[-1]
        self.windows[-1] = began, before + amount

    def size_ms(self, now: int) -> int:
        """The time that the rate is over: at first as if all windows but one had gone by."""
        elapsed = now - self.windows[0][0]
        missing = self.count - 1 - elapsed // self.window_ms
        return elapsed + max(missing, 0) * self.window_ms

    def throttle_ms(self, now: int, bound: float) -> int:
        """The time without further amounts after which the rate is at the bound."""
        size_ms = max(self.size_ms(now), 1)
        rate = 1000 * sum(amount for _, amount in self.windows) / size_ms
        return max(0, round((rate - bound) / bound * size_ms))


@define(eq=False)
class ClientQuotas:
    """The rates of all clients with a quota in the metadata; `samples` is quota.window.num."""

    metadata: ClusterMetadata
    samples: int
    window_ms: int
    rates: dict[tuple[str, Sharers], Rate] = field(factory=dict[tuple[str, Sharers], Rate])

    def throttle_ms(
        self,
        kind: str,
        client_id: str | None,
        amount: float,
        now: int,
        user: str = ANONYMOUS_USER,
    ) -> int:
        """Count an amount that a client sent or fetched; return its throttle time."""
        found = quota_of(self.metadata, kind, client_id, user)
        if found is None:
            return 0
        sharers, bound = found
        rate = self._rate(kind, sharers)
        rate.record(now, amount)
        return rate.throttle_ms(now, bound)

    def request_throttle_ms(
        self, client_id: str | None, spent_ns: int, now: int, user: str = ANONYMOUS_USER
    ) -> int:
        """Count the thread time of a request; return the client's throttle time, at most one
        window.
        """
        amount = spent_ns * PERCENT_OF_NS
        return min(self.throttle_ms(REQUEST, client_id, amount, now, user), self.window_ms)

    def connection_throttle_ms(self, address: str, now: int) -> int:
        """Count a connection from this address, or return the time after which it is to be
        ended.
        """
        quotas = self.metadata.quotas
        for name in (address, None) if quotas else ():
            bound = quotas.get(frozenset(((IP, name),)), {}).get(CONNECTION)
            if bound is None:
                continue
            rate = self._rate(CONNECTION, (address, None))
            rate.record(now, 1)
            throttle_ms = rate.throttle_ms(now, bound) if bound else self.window_ms
            if throttle_ms:
                rate.add(-1)
            return min(throttle_ms, self.window_ms)
        return 0

    def _rate(self, kind: str, sharers: Sharers) -> Rate:
        rate = self.rates.get((kind, sharers))
        if rate is None:
            rate = self.rates[kind, sharers] = Rate(self.samples, self.window_ms)
        return rate


def quota_of(
    metadata: ClusterMetadata, kind: str, client_id: str | None, user: str = ANONYMOUS_USER
) -> tuple[Sharers, float] | None:
    """A client's most specific quota of this kind: the sharers and the bound."""
    quotas = metadata.quotas
    if not quotas:
        return None
    for entity, sharers in _candidates(user, client_id or ""):
        bound = quotas.get(entity, {}).get(kind)
        if bound is not None:
            return sharers, bound
    return None


def _candidates(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, Sharers]]:
    """The entities that a client belongs to, in the order in which Kafka looks for quotas."""
    for name in (user, None):
        for client in (client_id, None):
            entity = frozenset(((USER, name), (CLIENT_ID, client)))
            yield entity, (user, client_id)
        yield frozenset(((USER, name),)), (user, None)
    for client in (client_id, None):
        yield frozenset(((CLIENT_ID, client),)), (None, client_id)
