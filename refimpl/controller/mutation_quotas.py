"""The controller's quotas on creating and deleting partitions (KIP-599).

Kafka's ControllerMutationQuotaManager: each client has a bucket of tokens, one for each partition.
It fills at the rate of the quota, and holds the tokens of all windows together. While the bucket
owes tokens, clients that know THROTTLING_QUOTA_EXCEEDED are refused. Older clients are served, and
throttled until the bucket owes none.
"""

from attrs import define, field

from refimpl.controller.client_quotas import Sharers, quota_of
from refimpl.controller.errors import ApiError
from refimpl.messages.cluster import ClusterMetadata
from refimpl.messages.controller import Mutator

MUTATION = "controller_mutation_rate"


@define(eq=False)
class TokenBucket:
    """Tokens that are left, or owed; full at first."""

    tokens: float
    filled_at: int

    def fill(self, now: int, bound: float, burst: float) -> None:
        """Add the tokens earned since the last call: `bound` a second, up to `burst`."""
        earned = bound * (now - self.filled_at) / 1000
        self.tokens, self.filled_at = min(burst, self.tokens + earned), now

    def owed_ms(self, bound: float) -> int:
        """The time until no token is owed any more."""
        return max(0, round(-self.tokens / bound * 1000))


@define(eq=False)
class MutationQuotas:
    """The buckets of all clients; `window_s` is controller.quota.window.num times their size."""

    metadata: ClusterMetadata
    window_s: int
    buckets: dict[Sharers, TokenBucket] = field(factory=dict[Sharers, TokenBucket])

    def of(self, mutator: Mutator | None, now: int) -> "MutationQuota":
        """The quota for one request of a client; unlimited without a client."""
        if mutator is None:
            return MutationQuota()
        found = quota_of(self.metadata, MUTATION, mutator.client_id, mutator.user)
        if found is None:
            return MutationQuota()
        sharers, bound = found
        burst = bound * self.window_s
        bucket = self.buckets.get(sharers)
        if bucket is None:
            bucket = self.buckets[sharers] = TokenBucket(burst, now)
        bucket.fill(now, bound, burst)
        return MutationQuota(bucket, bound, is_strict=mutator.is_strict)


@define(eq=False)
class MutationQuota:
    """The quota for one request; `throttle_ms` is its client's throttle time."""

    bucket: TokenBucket | None = None
    bound: float = 0.0
    is_strict: bool = field(default=False, kw_only=True)
    throttle_ms: int = field(default=0, init=False)

    def take(self, partitions: int) -> None:
        """Count partitions that are created or deleted, or that a validation would create.

        Raises ApiError THROTTLING_QUOTA_EXCEEDED if tokens are owed and the quota is strict.
        """
        bucket = self.bucket
        if bucket is None:
            return
        if self.is_strict and bucket.tokens < 0:
            self.throttle_ms = bucket.owed_ms(self.bound)
            raise ApiError("THROTTLING_QUOTA_EXCEEDED")
        bucket.tokens -= partitions
        if not self.is_strict:
            self.throttle_ms = bucket.owed_ms(self.bound)
