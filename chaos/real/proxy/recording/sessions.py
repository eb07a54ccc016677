"""Producers by their ids: a session outlives connections, and its batches are known again.

The client of an idempotent producer sends a batch again until it is answered, by any connection.
To its application that is one send. So all attempts at one batch are one call here, which is
answered once. A transactional producer's session also knows which of its transactions is open.
"""

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from chaos.real.proxy.recording.journals import Journals
from chaos.real.proxy.recording.links import Link, name_of
from traces.record.errors import REFUSED_RECORD
from traces.record.process import Process

DUPLICATE = 46
#: Brokers know the last five batches of a producer in a partition; an attempt may be later still.
_REMEMBERED = 16
#: How many sessions without a connection are kept for a client that comes back.
_IDLE = 64

Place = tuple[str, int]
Identity = tuple[int, int]


@define
class Batch:
    """A batch that a producer sends until it is answered."""

    seq: int
    first: int
    count: int
    error: int = 0
    is_over: bool = False


@define(eq=False)
class Session:
    """One producer from InitProducerId on, or from the first batch that was seen of it."""

    process: Process
    transactional_id: str | None = None
    producer_id: int = -1
    epoch: int = -1
    txn: int = -1
    in_txn: bool = False
    #: The call that ends the transaction and was not answered: its place, and what it wants
    ending: "Ending | None" = None
    links: set[Link] = field(factory=set[Link])
    _batches: dict[tuple[str, int, int], list[Batch]] = field(
        factory=dict[tuple[str, int, int], list[Batch]]
    )

    def about(self) -> dict[str, Any]:
        """The fields that say who the producer is, on each of its lines."""
        found: dict[str, Any] = {"producer_id": self.producer_id, "producer_epoch": self.epoch}
        if self.transactional_id is not None:
            found["transactional_id"] = self.transactional_id
        return found

    def within(self) -> dict[str, Any]:
        """The same, and the transaction that is open; it begins with whatever needs one."""
        if not self.in_txn:
            self.in_txn, self.txn = True, self.txn + 1
            self.process.note("txn_begin", **self.about(), txn=self.txn)
        return self.about() | {"txn": self.txn}

    def left(self) -> None:
        """Its transaction is over, or was left open by whoever began it anew."""
        self.in_txn, self.ending = False, None

    def known(self, place: Place, epoch: int, first: int, count: int) -> Batch | None:
        """The batch of an earlier attempt."""
        for one in self._batches.get((*place, epoch), ()):
            if (one.first, one.count) == (first, count):
                return one
        return None

    def sends(self, place: Place, epoch: int, made: Batch) -> None:
        """Know a batch again."""
        kept = self._batches.setdefault((*place, epoch), [])
        kept.append(made)
        if len(kept) > _REMEMBERED:
            over = next((at for at, one in enumerate(kept) if one.is_over), None)
            if over is not None:
                del kept[over]

    def answer(self, batch: Batch, code: int, at: tuple[int, int, int]) -> None:
        """The answer to one attempt: only some are the last word on the batch."""
        if batch.is_over:
            return
        batch.error = code
        if code in (0, DUPLICATE):
            batch.is_over = True
            self.process.answer(batch.seq, "ok", at=at)
        elif code in REFUSED_RECORD:
            batch.is_over = True
            self.process.answer(batch.seq, "fail", error=name_of(code))

    def finish(self) -> None:
        """Nobody will answer what is open."""
        for batches in self._batches.values():
            for one in batches:
                if not one.is_over and one.error:
                    self.process.answer(one.seq, "info", error=name_of(one.error))
                one.is_over = True
        self._batches.clear()


@define
class Ending:
    """An EndTxn that is sent until it is answered."""

    seq: int
    commits: bool
    attempts: int = 1


@define
class Sessions:
    """All producers that have an id."""

    journals: Journals
    _by_id: dict[Identity, Session] = field(factory=dict[Identity, Session], init=False)
    #: Transactional producers that begin: by the connection that asks for their id
    _beginning: dict[tuple[Link, str], Session] = field(
        factory=dict[tuple[Link, str], Session], init=False
    )
    #: By transactional id, whoever asked for a producer id last
    _newest: dict[str, Session] = field(factory=dict[str, Session], init=False)
    _idle: dict[Session, None] = field(factory=dict[Session, None], init=False)

    def of(self, link: Link, producer_id: int, epoch: int, name: str | None) -> Session:
        """The producer with this id, which may have begun before anybody looked."""
        found = self._by_id.get((producer_id, epoch))
        if found is None:
            found = self._begun(link, name, producer_id)
            self.numbered(found, producer_id, epoch)
        self._uses(link, found)
        return found

    def beginning(
        self, link: Link, name: str, before: Identity, settings: Mapping[str, Any]
    ) -> Session:
        """The producer that asks for an id or, if it has one, for its next epoch."""
        found = self._by_id.get(before) or self._beginning.get((link, name))
        if found is None:
            found = self._begun(link, name, -1, settings)
            self._beginning[link, name] = found
        self._newest[name] = found
        self._uses(link, found)
        return found

    def numbered(self, session: Session, producer_id: int, epoch: int) -> None:
        """A producer has this id from now on."""
        session.producer_id, session.epoch = producer_id, epoch
        self._by_id[producer_id, epoch] = session
        self._forget_beginning(session)

    def _forget_beginning(self, session: Session) -> None:
        for key in [key for key, one in self._beginning.items() if one is session]:
            del self._beginning[key]

    def _all(self) -> set[Session]:
        return {*self._by_id.values(), *self._beginning.values()}

    def _begun(
        self,
        link: Link,
        name: str | None,
        producer_id: int,
        settings: Mapping[str, Any] | None = None,
    ) -> Session:
        configured: dict[str, Any] = {"acks": "all", "idempotence": True, **(settings or {})}
        if name is not None:
            configured["transactional_id"] = name
        called = name if name is not None else f"{link.client}-producer-{producer_id}"
        return Session(self.journals.begin(called, "producer", configured), name)

    def _uses(self, link: Link, session: Session) -> None:
        session.links.add(link)
        self._idle.pop(session, None)

    def gone(self, link: Link) -> None:
        """A connection is closed; its producers may come back by another."""
        for session in sorted(self._all(), key=lambda one: one.process.name):
            if link in session.links:
                session.links.discard(link)
                if not session.links:
                    self._idle[session] = None
        while len(self._idle) > _IDLE:
            self._end(next(iter(self._idle)))

    def _end(self, session: Session) -> None:
        self._idle.pop(session, None)
        self._by_id = {key: one for key, one in self._by_id.items() if one is not session}
        self._newest = {name: one for name, one in self._newest.items() if one is not session}
        self._forget_beginning(session)
        session.finish()
        self.journals.end(session.process)

    def cut(self) -> None:
        """The proxy ends: nobody will tell how the transactions end that are open now."""
        for session in self._all():
            session.finish()
            name = session.transactional_id
            is_newest = name is not None and self._newest.get(name, session) is session
            if session.links and session.in_txn and is_newest:
                self.journals.cut(session.process)
