"""The state that TransactionCoordinator has after the steps of a trace of Kafka.

Its log, its instances and what they have written: whatever the spec knows and no line has.
"""

from collections import Counter
from collections.abc import Mapping

from attrs import define, evolve, field

from chaos.recorders.kafka_states import (
    LAST_EPOCH,
    NO_IDENTITY,
    Identity,
    Numbers,
    ProducerInstance,
    TransactionState,
)
from chaos.recorders.protocol_events import SubjectTrace, TracePlace
from refimpl.events import Json, as_set

NOT_SAID = 0
_BEYOND = 1_000_000


@define(eq=False)
class TransactionModel:
    """One transactional id: its trace, and the state of the spec after it."""

    name: str
    began_ns: int
    trace: SubjectTrace = field(init=False)
    numbers: Numbers = field(factory=Numbers)
    instances: list[ProducerInstance] = field(factory=list[ProducerInstance])
    #: The spec's log; up to `committed` its records are, and `memory` is what is in effect
    log: list[TransactionState] = field(factory=lambda: [TransactionState()])
    committed: int = 1
    memory: TransactionState = field(factory=TransactionState)
    #: Kafka has made it empty, where the spec leaves it complete: someone asked once more
    emptied: bool = False
    transactions: int = 0
    #: Partitions with a record of the newest transaction
    wrote: set[int] = field(factory=set[int])
    version: int = NOT_SAID
    no_step: Counter[str] = field(factory=Counter[str])
    inferred: Counter[str] = field(factory=Counter[str])
    ended: str = ""
    now_ms: int = 0

    def __attrs_post_init__(self) -> None:
        self.trace = SubjectTrace("TransactionCoordinator", self.name, {})

    def legend(self) -> str:
        """The numbers' meanings."""
        ids = ", ".join(f"producer id {number} is {one}" for one, number in self._ids())
        parts = (f"{number} is {one}" for one, number in self.numbers.partitions.items())
        return f"{ids}; partition {', '.join(parts)}" if self.numbers.partitions else ids

    def _ids(self) -> list[tuple[int, int]]:
        return list(self.numbers.ids.items())

    def constants(self) -> dict[str, Json]:
        """The spec's constants but its rules: no bound but those that are sets."""
        return {
            "Producers": max(1, len(self.instances)),
            "Partitions": max(1, len(self.numbers.partitions)),
            "MaxTransactions": max(1, self.transactions),
            # Epochs may have been exhausted if another producer id was given.
            "MaxEpoch": LAST_EPOCH + self.numbers.above if len(self.numbers.ids) > 1 else _BEYOND,
            "MaxIds": max(1, len(self.numbers.ids)),
            "MaxFailovers": _BEYOND,
            "MaxCopies": _BEYOND,
            "MaxDowns": _BEYOND,
            "Faults": {"set": ["again", "crash", "timeout"]},
            "Version": self.version or 1,
        }

    def settle(self, producers: int) -> None:
        """Nothing follows: the spec has so many instances in each state, from its first."""
        nobody = ProducerInstance(0).as_json()
        for place in self.trace.steps:
            if "client" in place.changes:
                client: list[Json] = place.changes["client"]
                client += [nobody] * (producers - len(client))

    # Steps

    def _add(self, action: str, **params: Json) -> TracePlace:
        self.trace.add(self.now_ms, action, params)
        return self.trace.steps[-1]

    def _end(self, why: str) -> None:
        self.ended = why

    def _commit(self, records: int) -> None:
        for _ in range(records):
            self._add("Commit")
        self.committed += records

    def _commit_all(self) -> None:
        self._commit(len(self.log) - self.committed)

    def _remembers(self, action: str, state: TransactionState, **params: Json) -> TracePlace:
        """A step after which this is in effect at the coordinator."""
        self.memory = state
        place = self._add(action, **params)
        place.changes = {"memory": state.as_json(), "owed": as_set(state.owed)}
        return place

    def _record(self, action: str, params: Mapping[str, Json], state: TransactionState) -> None:
        self._add(action, **params)
        self.log.append(state)
        self.emptied = False

    # Instances

    def _instance(self, identity: Identity) -> ProducerInstance | None:
        """The newest instance that has this identity."""
        alike = (one for one in reversed(self.instances) if one.identity == identity)
        return next(alike, None)

    def _stranger(self) -> ProducerInstance:
        """Someone with an identity that nobody was given: the spec lets it do nothing."""
        self.inferred["a request by nobody who is known"] += 1
        self.instances.append(ProducerInstance(len(self.instances) + 1))
        return self.instances[-1]

    def _asks_for_epoch(self, named: Identity) -> ProducerInstance | None:
        """The instance that wants to be initialised, which starts or asks again with this."""
        waiting = [one for one in self.instances if one.phase == "starting"]
        if named == NO_IDENTITY:
            again = [one for one in waiting if one.identity == NO_IDENTITY]
            if again:
                return again[-1]
            for one in waiting:
                self.inferred["an instance that did not ask again has died"] += 1
                one.phase = "dead"
                self._add("Die", i=one.number)
            instance = ProducerInstance(len(self.instances) + 1, "starting")
            self.instances.append(instance)
            self._add("Start", i=instance.number)
            return instance
        instance = self._instance(named)
        if instance is None:
            # The answer was lost: for the spec it has what it was given since.
            told = (one for one in reversed(self.instances) if one.before == named)
            return next(told, None)
        if instance.phase == "ready":
            instance.phase = "starting"
            self._add("AskAgain", i=instance.number)
        return instance

    def _begins_as(self, instance: ProducerInstance, identity: Identity) -> None:
        """An epoch that was given in the trace before this one."""
        state = TransactionState("Empty", identity, identity, instance.identity)
        state = evolve(state, by=instance.number, fences=True)
        self._record("InitProducerId", {"i": instance.number}, state)
        self._commit(1)
        self.memory = state
        instance.given(identity)
        self._add("Apply")

    def _writes(self, instance: ProducerInstance, partition: int) -> None:
        if partition not in self.wrote:
            self.wrote.add(partition)
            self.inferred["a record in a partition that was added"] += 1
            self._add("Produce", i=instance.number, p=partition)

    def _finishes(self, instance: ProducerInstance, commits: bool) -> bool:
        """The application ends its transaction; False if nothing was ever written in it."""
        open_now = self.memory.state == "Ongoing" and self.memory.at == instance.identity
        if not self.wrote and open_now:
            self._writes(instance, min(self.memory.partitions))
        if not self.wrote:
            return False
        instance.phase = "commit" if commits else "abort"
        self._add("Finish", i=instance.number, outcome=instance.phase)
        return True

    def _told(self, instance: ProducerInstance, identity: Identity, place: TracePlace) -> None:
        instance.given(identity)
        place.changes["client"] = [one.as_json() for one in self.instances]
