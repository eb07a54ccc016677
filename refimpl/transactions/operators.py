"""Operators' requests about transactional ids: DescribeTransactions, ListTransactions (KIP-664).

Descriptions show committed state, and are answered at once.
"""

import re

from attrs import define, frozen

from refimpl.coordinator.operation import Answer, Outcome, Token
from refimpl.errors import Refusal
from refimpl.machines.transaction_coordinator import BY_NAME, TransactionMetadata, TransactionState
from refimpl.messages import transaction_coordination as m
from refimpl.transactions.store import TransactionStore


@frozen
class TransactionalIdNotFound(Refusal):
    """There is no such transactional id."""

    kafka_error = "TRANSACTIONAL_ID_NOT_FOUND"
    says = "{transactional_id}"
    transactional_id: str


@frozen
class InvalidTransactionalIdPattern(Refusal):
    """The pattern of transactional ids is no regular expression."""

    kafka_error = "INVALID_REGULAR_EXPRESSION"
    says = "{pattern}"
    pattern: str


@frozen
class Filter:
    """The transactional ids that an operator asks for."""

    states: frozenset[TransactionState]
    producer_ids: frozenset[int]
    duration_ms: int
    pattern: re.Pattern[str] | None

    @classmethod
    def of(cls, request: m.ListTransactionsRequest) -> "Filter":
        """The filter of a request; states that nobody knows are left out."""
        states = frozenset(BY_NAME[one] for one in request.states if one in BY_NAME)
        pattern = request.pattern
        try:
            compiled = re.compile(pattern) if pattern else None
        except re.error:
            raise InvalidTransactionalIdPattern(str(pattern)) from None
        return cls(states, frozenset(request.producer_ids), request.duration_ms, compiled)

    def admits(self, now: int, transactional_id: str, metadata: TransactionMetadata) -> bool:
        """True if an id is asked for; one that is dead is never listed."""
        open_ms = now - metadata.started_ms
        return (
            metadata.state is not TransactionState.DEAD
            and (not self.states or metadata.state in self.states)
            and (not self.producer_ids or metadata.at.id in self.producer_ids)
            and (self.duration_ms < 0 or open_ms > self.duration_ms)
            and (self.pattern is None or self.pattern.fullmatch(transactional_id) is not None)
        )


@define(eq=False)
class TransactionOperators:
    """The transactional ids of one coordinator, as operators see them."""

    store: TransactionStore

    def describe(self, now: int, token: Token, request: m.DescribeTransactionRequest) -> Outcome:
        """Describe a transactional id and its open transaction."""
        transactional_id = request.transactional_id
        metadata = self.store.ids.committed(transactional_id)
        if metadata is None or metadata.state is TransactionState.DEAD:
            raise TransactionalIdNotFound(transactional_id)
        body = m.DescribeTransactionResponse(
            *(transactional_id, None, metadata.state.shown),
            *(metadata.timeout_ms, metadata.started_ms, metadata.at.id, metadata.at.epoch),
            sorted(metadata.partitions),
        )
        return Outcome(answers=(Answer(token, body),), waits=False)

    def listed(self, now: int, wanted: Filter) -> list[m.ListedTransaction]:
        """The transactional ids that a filter admits."""
        found: list[m.ListedTransaction] = []
        for transactional_id in self.store.ids.committed_keys():
            metadata = self.store.ids.committed(transactional_id)
            if metadata is not None and wanted.admits(now, transactional_id, metadata):
                one = (transactional_id, metadata.at.id, metadata.state.shown)
                found.append(m.ListedTransaction(*one))
        return found


def unknown_states(request: m.ListTransactionsRequest) -> list[str]:
    """The names in a filter that are no states."""
    return [one for one in request.states if one not in BY_NAME]
