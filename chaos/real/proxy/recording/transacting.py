"""Transactional producers: their ids, their offsets, and the ends of their transactions."""

from collections.abc import Callable
from typing import Any

from attrs import define

from chaos.real.proxy.recording.grouping import OffsetsAnswered, offsets_asked
from chaos.real.proxy.recording.links import Link, Topics, code_of, name_of
from chaos.real.proxy.recording.sessions import Ending, Session, Sessions
from refimpl.wire.messages import milliseconds
from traces.record.errors import CODES

Answer = Callable[[Any], None]

#: The coordinator moves or is busy: the client asks again for the same end.
_AGAIN = frozenset(
    CODES[name]
    for name in (
        *("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"),
        "CONCURRENT_TRANSACTIONS",
    )
)
#: The coordinator refused, so that a request that was the only one has ended nothing.
_REFUSED = frozenset(
    CODES[name]
    for name in (
        *("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"),
        *("INVALID_PRODUCER_ID_MAPPING", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        "TRANSACTION_ABORTABLE",
    )
)
#: Of those, refusals after which the producer can end nothing any more.
_FENCED = frozenset(CODES[name] for name in ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"))


@define
class Transactions:
    """The requests of transactional producers to their coordinators."""

    topics: Topics
    sessions: Sessions

    def init(self, link: Link, request: Any) -> Answer | None:
        """InitProducerId; without a transactional id nothing is told of it."""
        name = request.transactional_id
        if name is None:
            return None
        before = request.producer_id, request.producer_epoch
        timeout = {"transaction_timeout_ms": milliseconds(request.transaction_timeout)}
        session = self.sessions.beginning(link, name, before, timeout)
        session.left()
        seq = session.process.call("init_producer", transactional_id=name)

        def answered(answer: Any) -> None:
            if code := code_of(answer):
                session.process.answer(seq, "info", error=name_of(code))
                return
            self.sessions.numbered(session, answer.producer_id, answer.producer_epoch)
            session.process.answer(seq, "ok", **session.about())

        return answered

    def add_partitions(self, link: Link, request: Any) -> None:
        """AddPartitionsToTxn of a client: its transaction has begun, if it had not."""
        name = getattr(request, "v3_and_below_transactional_id", None)
        if name:
            identity = request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
            self.sessions.of(link, *identity, name).within()

    def add_offsets(self, link: Link, request: Any) -> None:
        """AddOffsetsToTxn."""
        self._session(link, request).within()

    def send_offsets(self, link: Link, request: Any) -> Answer | None:
        """TxnOffsetCommit."""
        session = self._session(link, request)
        about = session.within() | {"group": request.group_id}
        if getattr(request, "member_id", ""):
            about |= {"member": request.member_id, "generation": request.generation_id}
        offsets = offsets_asked(self.topics, request)
        if not offsets:
            return None
        seq = session.process.call("txn_offsets", offsets=offsets, **about)
        return OffsetsAnswered(self.topics, session.process, seq, "txn_offsets", offsets, about)

    def end(self, link: Link, request: Any) -> Answer:
        """EndTxn, which a client sends until it is answered."""
        session = self._session(link, request)
        ending = session.ending
        if ending is None or ending.commits != request.committed:
            op = "txn_commit" if request.committed else "txn_abort"
            seq = session.process.call(op, **session.within())
            ending = session.ending = Ending(seq, request.committed)
        else:
            ending.attempts += 1
        return lambda answer: self._ended(session, ending, answer)

    def _ended(self, session: Session, ending: Ending, answer: Any) -> None:
        if session.ending is not ending:
            return
        code = code_of(answer)
        if not code:
            session.process.answer(ending.seq, "ok")
            session.left()
            epoch = getattr(answer, "producer_epoch", -1)
            if epoch >= 0:  # each transaction has an epoch of its own (KIP-890)
                self.sessions.numbered(session, answer.producer_id, epoch)
        elif code not in _AGAIN:
            certain = code in _REFUSED and ending.attempts == 1
            session.process.answer(ending.seq, "fail" if certain else "info", error=name_of(code))
            session.ending = None
            if code in _FENCED:
                session.left()

    def _session(self, link: Link, request: Any) -> Session:
        identity = request.producer_id, request.producer_epoch
        return self.sessions.of(link, *identity, request.transactional_id)
