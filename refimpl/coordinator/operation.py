"""The result of an operation on a coordinator: changes of its state, answers and timers.

An operation changes nothing by itself. The coordinator appends the records among the changes as
one batch, replays them into its shard, and sends the answers once the records are committed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from attrs import frozen

from refimpl.machines.replica_log import Guard
from refimpl.records.coordinators import CoordinatorRecord
from refimpl.records.transactional import Entry, InTransaction
from refimpl.storage.format.control import EndTxnMarker
from refimpl.storage.replica.transactional import Writer

Token: TypeAlias = int
"""Names a request that is not answered yet; an operation may park it, and another answer it."""


class Soft(NamedTuple):
    """A change that is not written to the log: the key's value from now on; None removes it."""

    key: str
    value: Any


class Answer(NamedTuple):
    """A response to the request of this token."""

    token: Token
    body: Any


class TimerKey(NamedTuple):
    """The purpose of a timer: a kind, a group or transactional id, and a member. Setting a timer
    again replaces it."""

    kind: str
    key: str = ""
    member_id: str = ""


class SetTimer(NamedTuple):
    """Set a timer to a time in ms, in place of its earlier time; None cancels it."""

    key: TimerKey
    at_ms: int | None


class LogStart(NamedTuple):
    """Delete the records of the log below this offset: no load needs them."""

    offset: int


@frozen
class TransactionalWrite:
    """The producer in whose transaction an operation writes, or which its marker ends."""

    writer: Writer
    #: That of the transaction's verification
    guard: Guard | None = None
    marker: EndTxnMarker | None = None
    transaction_version: int = 0


@frozen
class Outcome:
    """The decisions of one operation. A timer is set to a time in ms, or cancelled by None.

    Answers wait until all records written so far are committed. With `waits` False they do not,
    because the operation read only committed state. Records below `needed_from` are deleted, so it
    is derived from committed records alone.
    """

    changes: Sequence[Entry | Soft] = ()
    answers: Sequence[Answer] = ()
    timers: Mapping[TimerKey, int | None] = {}
    waits: bool = True
    transaction: TransactionalWrite | None = None
    needed_from: int | None = None

    @property
    def records(self) -> Sequence[CoordinatorRecord]:
        """The changes that are written to the log."""
        if self.transaction is not None:
            return [one.record for one in self.changes if isinstance(one, InTransaction)]
        return [one for one in self.changes if isinstance(one, CoordinatorRecord)]


NOTHING = Outcome()

Handler: TypeAlias = Callable[[int, Token, Any], Outcome]
"""Takes the time, a request's token and the request. Raises Refusal to answer with its error."""


class Performed(NamedTuple):
    """A finished operation on one key, for observers.

    It holds the request or the timer, the error of a refusal, the key's value before and after
    (None for none), and the log end offset.
    """

    key: str
    about: Any
    error: str | None
    before: Any
    after: Any
    answers: Sequence[Answer]
    end: int


Output: TypeAlias = Answer | SetTimer | LogStart | Performed
