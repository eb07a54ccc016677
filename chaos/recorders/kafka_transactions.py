"""Turns the lines of Kafka's transaction coordinators into steps of TransactionCoordinator.

A change is one step for the spec when it takes effect, with its record's place before it: between
the two its coordinator refuses everything else. A change that is lost has never been. Nobody sees
what producers write: a record is inferred where the coordinator lets a partition take one.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, cast

from attrs import define, evolve, field

from chaos.recorders.kafka_lines import Line
from chaos.recorders.kafka_states import (
    IDLE,
    NO_IDENTITY,
    NO_TRANSACTION,
    NOBODY,
    NONE,
    Identity,
    Numbers,
    ProducerInstance,
    TransactionState,
    kind,
)
from chaos.recorders.kafka_steps import ContradictingLinesError
from chaos.recorders.kafka_transaction_model import NOT_SAID, TransactionModel
from chaos.recorders.protocol_events import TracePlace
from refimpl.events import Json, as_set

_NANOS = 1_000_000
#: Transactions of a trace: what TLC does for one grows with the square of their number
MOST = 64
#: Answers after which nothing is decided: whoever asked is to ask again, here or elsewhere
_AGAIN = frozenset(
    (
        "CONCURRENT_TRANSACTIONS",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
    )
)
_COMPARED = ("state", "pid", "pe", "lpe", "next", "parts")


@define(eq=False)
class Asked:
    """A request that is under way."""

    line: Line
    #: How many changes had been made when it came
    changes: int
    appended: bool = False
    took_effect: bool = False

    @property
    def api(self) -> str:
        """init, add or end."""
        return self.line["api"]


@define(eq=False)
class Pending:
    """A record that a coordinator has appended, and that has not taken effect."""

    line: Line
    asked: Asked | None

    @property
    def node(self) -> int:
        """The coordinator."""
        return self.line["node"]


@define(eq=False)
class KafkaTransactionalId(TransactionModel):
    """The steps of one transactional id, from its first epoch on."""

    #: The offsets of what a coordinator has loaded, and did not know to be committed
    loaded: list[int] = field(factory=list[int])
    pending: Pending | None = None
    #: Records that were appended and given up: the next coordinator may have them yet
    given_up: list[Pending] = field(factory=list[Pending])
    #: Who coordinates, in which epoch, from which partition
    node: int = NONE
    coordinator_epoch: int = NONE
    state_partition: int = NONE
    last_epoch: int = NONE
    requests: dict[tuple[int, int], Asked] = field(factory=dict[tuple[int, int], Asked])
    #: The first request of each coordinator's process
    since: dict[int, int] = field(factory=dict[int, int])
    #: Coordinators whose change was lost at a load: it may yet take effect for them
    dropped: set[int] = field(factory=set[int])
    applied: dict[tuple[int, int], tuple[TracePlace, int]] = field(
        factory=dict[tuple[int, int], tuple[TracePlace, int]]
    )
    changes: int = 0
    #: Topics that were deleted: their partitions take no markers
    deleted: set[str] = field(factory=set[str])

    @property
    def full(self) -> bool:
        """True if the next line begins one transaction more than a trace has."""
        pending = self.pending
        if self.transactions < MOST or pending is None or kind(pending.line) != "Ongoing":
            return False
        beginner = self._by(pending)
        last, at = self.memory.last, self.memory.at
        told = last in (NO_IDENTITY, Identity(at.id, at.epoch - 1))
        settled = self.committed == len(self.log) and self.memory.state in IDLE
        return settled and told and beginner is not None and beginner.phase == "ready"

    def successor(self, number: int) -> "KafkaTransactionalId":
        """The same id from here on, in a trace of its own: its producer has just begun.

        The identities of other instances are forgotten, so the new trace says nothing of them.
        """
        name = f"{self.name.partition('#')[0]}#{number}"
        one = evolve(self, name=name, numbers=Numbers(), transactions=0, wrote=set[int]())
        one.instances, one.log, one.committed = [], [TransactionState()], 1
        one.memory, one.emptied = TransactionState(), False
        one.no_step, one.inferred = Counter(), Counter()
        line = cast("Pending", self.pending).line
        again = self.memory.last != NO_IDENTITY
        one.numbers.above = (2 if again else 1) - line["pe"]
        one.numbers.identity(line["pid"], line["pe"])
        one.now_ms = self.now_ms
        instance = ProducerInstance(1)
        one.instances.append(instance)
        one._add("Start", i=1)
        one._begins_as(instance, Identity(1, 1))
        if again:
            one._add("AskAgain", i=1)
            one._begins_as(instance, Identity(1, 2))
        return one

    def take(self, line: Line) -> None:
        """Take one line about this id."""
        if self.ended:
            return
        self.now_ms = (line["t"] - self.began_ns) // _NANOS
        match line["ev"]:
            case "txnAsk":
                self._asks(line)
            case "txnAnswer":
                self._answered(line)
            case "txnAppend":
                self._appended(line)
            case "txnState":
                self._takes_effect(line)
            case "txnGaveUp":
                self._gives_up(line)
            case "txnMarker":
                self._marked(line)
            case unknown:
                raise KeyError(unknown)

    def started(self, node: int) -> None:
        """Another process of a broker starts: its requests and changes are gone."""
        self.requests = {key: one for key, one in self.requests.items() if key[0] != node}
        self.since.pop(node, None)

    # Words

    def _commit_loaded(self, line: Line) -> None:
        """Commit what was loaded, as far as the high watermark shows."""
        while self.loaded and line.get("hw", NONE) > self.loaded[0]:
            self.loaded.pop(0)
            self._commit(1)

    # Requests

    def _asks(self, line: Line) -> None:
        key = line["node"], line["r"]
        if key in self.requests:
            raise ContradictingLinesError(f"{line['at']}: request {line['r']} has come before")
        self.requests[key] = Asked(line, self.changes)
        self.since.setdefault(*key)

    def _answered(self, line: Line) -> None:
        key = line["node"], line["r"]
        asked = self.requests.pop(key, None)
        if asked is None:
            if line["r"] > self.since.get(line["node"], line["r"]):
                raise ContradictingLinesError(f"{line['at']}: an answer to no request")
            return
        if line["node"] == self.node:
            self._commit_loaded(line)
        if key in self.applied:
            self._is_given(line, *self.applied.pop(key))
        if line["error"] == "NONE" and asked.appended and not asked.took_effect:
            self._answered_early(asked)
        elif line["error"] in _AGAIN:
            self.no_step[f"{asked.api} is told {line['error']}"] += 1
        elif line["error"] == "NONE" and asked.api == "add":
            self._lets_write(asked)
        elif asked.appended:
            if line["error"] != "NONE":
                self.no_step[f"{asked.api} is told {line['error']} after its record"] += 1
        elif asked.changes != self.changes:
            self.no_step[f"{asked.api} is answered beside a change"] += 1
        elif asked.api == "init":
            self._init_refused(asked, line)
        elif asked.api == "end":
            self._end_answered(asked, line)
        else:
            self.no_step[f"{asked.api} is refused with {line['error']}"] += 1

    def _answered_early(self, asked: Asked) -> None:
        """Its record is not committed: for the spec it takes effect, which it may not."""
        if self.pending is not None and self.pending.asked is asked:
            self._change(self.pending)
            self.pending = None
            self._add("Apply")

    def _is_given(self, line: Line, place: TracePlace, number: int) -> None:
        """The answer to a change: what its instance is given must be what the spec gives it."""
        client: Any = place.changes["client"]
        mine = client[number - 1]
        if line["error"] != "NONE" and line["error"] not in _AGAIN:
            client[number - 1] = {**mine, "phase": "fenced"}
        elif line.get("pid", NONE) != NONE:
            given = self.numbers.identity(line["pid"], line["pe"])
            client[number - 1] = {**mine, "as": given.as_json()}

    def _lets_write(self, asked: Asked) -> None:
        """Partitions are in the transaction, and each may take a record from now on."""
        if asked.changes != self.changes - 2 * asked.appended:
            self.no_step["partitions are added beside another change"] += 1
            return
        instance = self._instance(self._named(asked.line))
        if instance is None or instance.phase != "in":
            self.no_step["partitions are added by nobody who is known"] += 1
            return
        for name in asked.line["parts"]:
            self._writes(instance, self.numbers.partition(name))

    def _named(self, line: Line) -> Identity:
        return self.numbers.identity(line["pid"], line["pe"])

    def _init_refused(self, asked: Asked, line: Line) -> None:
        named = self._named(asked.line)
        instance = self._instance(named)
        if line["error"] == "NONE" or named == NO_IDENTITY or instance is None:
            self.no_step[f"init is answered with {line['error']}"] += 1
        elif instance.phase in ("ready", "starting"):
            self._asks_for_epoch(named)
            instance.phase = "fenced"
            self._add("InitRefused", i=instance.number)
        else:
            self.no_step["an instance that was fenced is refused again"] += 1

    def _end_answered(self, asked: Asked, line: Line) -> None:
        instance = self._instance(self._named(asked.line))
        commits = asked.line["commit"]
        # The answer to its first request was lost with the coordinator.
        again = instance is not None and instance.phase == ("commit" if commits else "abort")
        if instance is None or not (again or instance.phase == "in"):
            self.no_step[f"an end that was told before is told {line['error']}"] += 1
            return
        if not again and not self._finishes(instance, commits):
            self.no_step["the end of a transaction without a record"] += 1
        elif line["error"] == "NONE":
            place = self._add("EndAgain", i=instance.number)
            self._told(instance, self.memory.at, place)
            self._is_given(line, place, instance.number)
        else:
            instance.phase = "fenced"
            self._add("EndRefused", i=instance.number)

    # Changes

    def _appended(self, line: Line) -> None:
        if line["ce"] < self.coordinator_epoch:
            self.no_step["a record of an earlier coordinator"] += 1
            return
        self.node, self.coordinator_epoch = line["node"], line["ce"]
        self.state_partition = line["sp"]
        self._commit_loaded(line)
        if self._is_again(line):
            self.no_step["an end that is written again, since it was not copied in time"] += 1
            self.pending = Pending(line, None)
            return
        if self.pending is not None:
            # The coordinator makes one change within another: the spec says that it may not.
            self._change(self.pending)
        asked = self.requests.get((line["node"], line["r"]))
        if asked is not None:
            asked.appended = kind(line) not in ("CompleteCommit", "CompleteAbort")
        self.pending = Pending(line, asked)
        self.changes += 1

    def _is_again(self, line: Line) -> bool:
        """True for the same completion once more: Kafka writes it until it is committed."""
        if self.pending is None:
            return False
        before = self.pending.line
        same = all(before[name] == line[name] for name in ("node", "ce", *_COMPARED))
        return same and kind(line) in ("CompleteCommit", "CompleteAbort")

    def _takes_effect(self, line: Line) -> None:
        pending = self.pending
        if pending is None or pending.node != line["node"]:
            if line["node"] == self.node and line["node"] not in self.dropped:
                raise ContradictingLinesError(f"{line['at']}: a change without a record")
            self.dropped.discard(line["node"])
            self.no_step["a change of an earlier coordinator takes effect"] += 1
            return
        differ = [name for name in _COMPARED if pending.line[name] != line[name]]
        if differ:
            before, now = pending.line[differ[0]], line[differ[0]]
            said = f"{line['at']}: {differ[0]} is {now} after a record in which it was {before}"
            raise ContradictingLinesError(said)
        self._commit_loaded(line)
        self.pending, self.given_up = None, []
        self.changes += 1
        if pending.asked is not None:
            pending.asked.took_effect = True
        who = self._change(pending)
        if self.ended or who is None:
            return
        self._applied(pending, who)

    def _applied(self, pending: Pending, who: int) -> None:
        self._commit_all()
        self.loaded = []
        place = self._remembers("Apply", self.log[-1])
        ends = self.memory.prepared and pending.line["by"] == "end"
        if who != NOBODY and (ends or self.memory.state == "Empty"):
            self._told(self.instances[who - 1], self.memory.next, place)
            self.applied[pending.node, pending.line["r"]] = place, who

    def _change(self, pending: Pending) -> int | None:
        """The steps up to the record; who it was for, or None if it is no step of the spec."""
        line, state = pending.line, kind(pending.line)
        if state == "Empty":
            return self._initialises(pending)
        if state == "Ongoing":
            return self._adds(pending)
        if state in ("PrepareCommit", "PrepareAbort"):
            return self._decides(pending)
        if state in ("CompleteCommit", "CompleteAbort"):
            ghosts = evolve(self.memory, transaction=NO_TRANSACTION)
            self._record("Complete", {}, self._kept(line, ghosts))
            return NOBODY
        self._end(f"a record of state {line['state']}, which the spec has not")
        return None

    def _kept(self, line: Line, ghosts: TransactionState) -> TransactionState:
        """The state of a record that leaves the epoch before as it is."""
        state = self.numbers.state(line, ghosts)
        kept = line["lpe"] == self.last_epoch
        self.last_epoch = line["lpe"]
        return evolve(state, last=self.memory.last) if kept else state

    def _initialises(self, pending: Pending) -> int | None:
        line, asked = pending.line, pending.asked
        if asked is None:
            raise ContradictingLinesError(f"{line['at']}: an epoch is given to nobody who asked")
        instance = self._asks_for_epoch(self._named(asked.line)) or self._stranger()
        if instance.phase in ("in", "commit", "abort"):
            self._end("an instance asks for an epoch in the middle of its transaction")
            return None
        at = self.numbers.identity(line["pid"], line["pe"])
        self.last_epoch = line["lpe"]
        if at == self.memory.at:
            self.no_step["the record of an epoch that is given again"] += 1
            self.emptied = self.memory.state != "Empty"
            if instance.identity != at:
                place = self._add("InitAgain", i=instance.number)
                self._told(instance, self.memory.at, place)
            return None
        ghosts = TransactionState(by=instance.number, fences=True)
        state = self.numbers.state(line, ghosts)
        self._record("InitProducerId", {"i": instance.number}, state)
        return instance.number

    def _adds(self, pending: Pending) -> int | None:
        line = pending.line
        instance = self._by(pending) or self._stranger()
        if instance.phase == "ready":
            self.transactions += 1
            instance.phase, instance.transaction = "in", self.transactions
            self.wrote = set()
            self._add("Begin", i=instance.number, t=self.transactions)
        self._is_of_version(line)
        ghosts = TransactionState(transaction=instance.transaction, by=instance.number)
        state = self._kept(line, ghosts)
        new = sorted(state.partitions - self.memory.partitions)
        for number, one in enumerate(new[:-1]):
            self.inferred["an addition of one of several partitions"] += 1
            self._record("AddPartition", {"i": instance.number, "p": one}, state)
            self._commit_all()
            self.log[-1] = evolve(state, partitions=self.memory.partitions | {*new[: number + 1]})
            self._add("Apply")
        last = new[-1] if new else min(state.partitions)
        self._record("AddPartition", {"i": instance.number, "p": last}, state)
        return instance.number

    def _by(self, pending: Pending) -> ProducerInstance | None:
        return None if pending.asked is None else self._instance(self._named(pending.asked.line))

    def _is_of_version(self, line: Line) -> None:
        version = 2 if line["v2"] else 1
        if self.version not in (NOT_SAID, version):
            self._end("its clients change from one transaction version to the other")
        self.version = version

    def _decides(self, pending: Pending) -> int | None:
        line = pending.line
        if self.memory.state in IDLE:
            self._end("an abort of nothing (KIP-890), which the spec has no action for")
            return None
        if line["by"] == "timeout":
            ghosts = evolve(self.memory, by=NOBODY, fences=True)
            state = self.numbers.state(line, ghosts)
            if line["lpe"] == NONE:
                self.inferred["the epoch before a time-out, which this version forgets"] += 1
                state = evolve(state, last=self.memory.at)
            self.last_epoch = line["lpe"]
            self._record("TimeOut", {}, state)
            return NOBODY
        if line["by"] == "init" and pending.asked is not None:
            return self._fences(pending, pending.asked)
        instance = self._by(pending) or self._stranger()
        self._is_of_version(line)
        if instance.phase == "in" and pending.asked is not None:
            self._finishes(instance, pending.asked.line["commit"])
        ghosts = evolve(self.memory, by=instance.number, fences=False)
        self._record("EndTxn", {"i": instance.number}, self._kept(line, ghosts))
        return instance.number

    def _fences(self, pending: Pending, asked: Asked) -> int | None:
        instance = self._asks_for_epoch(self._named(asked.line)) or self._stranger()
        ghosts = evolve(self.memory, by=instance.number, fences=True)
        state = self.numbers.state(pending.line, ghosts)
        self.last_epoch = pending.line["lpe"]
        if self.last_epoch != NONE:
            self.no_step["the epoch before a fence, which the spec forgets"] += 1
            state = evolve(state, last=NO_IDENTITY)
        self._record("InitFences", {"i": instance.number}, state)
        return instance.number

    def _gives_up(self, line: Line) -> None:
        pending = self.pending
        if pending is None or pending.node != line["node"]:
            self.no_step["a change whose record could not be written"] += 1
            return
        self.inferred["a record that was written and given up, as none"] += 1
        self.given_up.append(pending)
        self.pending = None
        self.changes += 1

    # Coordinators

    def serves(self, load: Line, line: Line | None) -> None:
        """Another coordinator serves; without a line it has found no record of this id."""
        if self.ended or load["sp"] != self.state_partition:
            return
        self.now_ms = (load["t"] - self.began_ns) // _NANOS
        if load["ce"] < self.coordinator_epoch:
            self.no_step["a load of an earlier coordinator"] += 1
            return
        self.node, self.coordinator_epoch = load["node"], load["ce"]
        self.changes += 1
        self._commit_loaded(load)
        found = TransactionState() if line is None else self._found(line)
        kept = self._kept_at_load(load, found)
        if self.ended:
            return
        del self.log[self.committed + kept :]
        self.last_epoch = NONE if line is None else line["lpe"]
        self._remembers("Failover", evolve(self.log[-1], **found.seen), kept=kept)

    def _found(self, line: Line) -> TransactionState:
        state = self.numbers.state(line, TransactionState())
        return evolve(state, state=self.memory.state) if self.emptied else state

    def _kept_at_load(self, load: Line, found: TransactionState) -> int:
        """The number of records, of those not known to be committed, that the new one has."""
        candidates = [*self.given_up, *([self.pending] if self.pending else [])]
        self.pending, self.given_up = None, []
        for one in reversed(candidates):
            written = self.numbers.state(one.line, TransactionState())
            if written.looks_like(found) and not written.looks_like(self.memory):
                return self._keeps(one, load)
            self.dropped.add(one.node)
            self.inferred["a change that no later coordinator has"] += 1
        for kept in range(len(self.log) - self.committed, 0, -1):
            if self.log[self.committed + kept - 1].looks_like(found):
                return kept
        self.loaded = []
        return 0

    def _keeps(self, pending: Pending, load: Line) -> int:
        """The new coordinator has the record of the change that was under way."""
        if self._change(pending) is None:
            return 0
        if load["hw"] > pending.line["off"]:
            self._commit_all()
            self.loaded = []
        else:
            self.inferred["a load of a record that was not committed"] += 1
            self.loaded.append(pending.line["off"])
        return len(self.log) - self.committed

    # Markers

    def _marked(self, line: Line) -> None:
        if line["node"] != self.node:
            self.no_step["a marker of an earlier coordinator"] += 1
            return
        self._commit_loaded(line)
        partition = self.numbers.partition(line["part"])
        left = as_set(self.numbers.partition(one) for one in line["left"])
        if not line["skip"]:
            self._add("WriteMarker", p=partition).changes = {"owed": left}
        elif line["part"].rpartition("-")[0] in self.deleted:
            self.inferred["a marker of a partition that was deleted, as written"] += 1
            self._add("WriteMarker", p=partition).changes = {"owed": left}
        else:
            self._add("LoseLeader", p=partition)
            self._add("SkipMarker", p=partition).changes = {"owed": left}
            self._add("ElectLeader", p=partition)


def alike(ids: Sequence[KafkaTransactionalId]) -> Iterator[dict[str, Json]]:
    """The constants of each id: the same for many, so that TLC judges them in one go."""
    groups: dict[tuple[Json, Json], list[dict[str, Json]]] = {}
    own = [one.constants() for one in ids]
    for one in own:
        groups.setdefault((one["Version"], one["MaxEpoch"]), []).append(one)
    sizes = ("Producers", "Partitions", "MaxTransactions", "MaxIds")
    for one in own:
        group = groups[one["Version"], one["MaxEpoch"]]
        yield {**one, **{name: max(cast("int", other[name]) for other in group) for name in sizes}}
