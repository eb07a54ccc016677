"""How long a client is to be left alone that sends or fetches more than its quota (KIP-13).

Kafka's ClientQuotaManager: the bytes of each client are counted in windows; what they come to above
the quota is made up for by not reading from the client, who is told so.
"""

from collections import deque
from collections.abc import Iterator

from attrs import define, field

from refimpl.broker.cluster import ClusterMetadata, QuotaEntity
from refimpl.broker.quotas import CLIENT_ID, USER

ANONYMOUS = "ANONYMOUS"
"""Who everybody is that has not logged in."""

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"

Sharers = tuple[str | None, str | None]
"""Which user and which client id share a quota; None where it does not matter."""


@define
class Rate:
    """Bytes a second over the last `count` windows of so many ms."""

    count: int
    window_ms: int
    #: When each window began, and what was counted in it
    windows: deque[list[int]] = field(factory=deque[list[int]])

    def record(self, now: int, amount: int) -> None:
        """Count so much more."""
        windows = self.windows
        while windows and now - windows[0][0] >= self.count * self.window_ms:
            windows.popleft()
        if not windows or now - windows[-1][0] >= self.window_ms:
            windows.append([now, 0])
        windows[-1][1] += amount

    def size_ms(self, now: int) -> int:
        """The time that the rate is over: at first as if all windows but one had gone by."""
        elapsed = now - self.windows[0][0]
        missing = self.count - 1 - elapsed // self.window_ms
        return elapsed + max(missing, 0) * self.window_ms

    def throttle_ms(self, now: int, bound: float) -> int:
        """After how long without anything more the rate is at the bound."""
        size_ms = max(self.size_ms(now), 1)
        rate = 1000 * sum(amount for _, amount in self.windows) / size_ms
        return max(0, round((rate - bound) / bound * size_ms))


@define(eq=False)
class ClientQuotas:
    """The rates of all clients whose quotas the metadata know; `samples` is quota.window.num."""

    metadata: ClusterMetadata
    samples: int
    window_ms: int
    rates: dict[tuple[str, Sharers], Rate] = field(factory=dict[tuple[str, Sharers], Rate])

    def throttle_ms(self, kind: str, client_id: str | None, amount: int, now: int) -> int:
        """Count what a client has sent or fetched; answers how long it is to be left alone."""
        if not self.metadata.quotas:
            return 0
        found = self._quota(kind, client_id or "")
        if found is None:
            return 0
        sharers, bound = found
        rate = self.rates.get((kind, sharers))
        if rate is None:
            rate = self.rates[kind, sharers] = Rate(self.samples, self.window_ms)
        rate.record(now, amount)
        return rate.throttle_ms(now, bound)

    def _quota(self, kind: str, client_id: str) -> tuple[Sharers, float] | None:
        """The most special quota of this kind: who shares it, and how much it is."""
        for entity, sharers in _candidates(client_id):
            bound = self.metadata.quotas.get(entity, {}).get(kind)
            if bound is not None:
                return sharers, bound
        return None


def _candidates(client_id: str) -> Iterator[tuple[QuotaEntity, Sharers]]:
    """Entities that a client belongs to, in the order in which Kafka looks for quotas."""
    for user in (ANONYMOUS, None):
        for client in (client_id, None):
            entity = frozenset(((USER, user), (CLIENT_ID, client)))
            yield entity, (ANONYMOUS, client_id)
        yield frozenset(((USER, user),)), (ANONYMOUS, None)
    for client in (client_id, None):
        yield frozenset(((CLIENT_ID, client),)), (None, client_id)
