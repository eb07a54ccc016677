"""Turns the lines of a consumer group's coordinators in Kafka into steps of ConsumerCoordinator.

An operation of Kafka may be several steps: the topics change, a target is computed, and a member is
reconciled. They are one change of the log, for their records are one batch. Its place in the trace
is where the coordinator makes it; a change whose batch could not be written has never been.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from attrs import define, evolve, field

from chaos.recorders.kafka_group_state import UNKNOWN, GroupMember, GroupNumbers, GroupState
from chaos.recorders.kafka_lines import Line
from chaos.recorders.kafka_steps import ContradictingLinesError
from chaos.recorders.protocol_events import SubjectTrace, TracePlace
from refimpl.events import Json, as_set

_NANOS = 1_000_000
BEYOND = 1_000_000
LEAVES = -1
_FENCED = frozenset(("UnknownMemberIdException", "FencedMemberEpochException"))
_STALE = frozenset(("UnknownMemberIdException", "StaleMemberEpochException"))
#: Since this version a member that no longer subscribes to a topic has no target there, and what
#: was taken from it can be given back at once
RECONCILES_ANEW = (4, 2)
#: In the place of the partitions of who does not say what it owns
_ANYTHING = frozenset((0,))


@define(eq=False)
class GroupChange:
    """A change that is in the log: so many steps, where its records end, and their leader epoch."""

    end: int
    epoch: int
    steps: int
    after: GroupState


@define
class Topics:
    """The ids and names of topics, as controllers tell them."""

    ids: dict[str, str] = field(factory=dict[str, str])
    names: dict[str, str] = field(factory=dict[str, str])
    removed: set[str] = field(factory=set[str])

    def by_id(self, name: str) -> str | None:
        """A partition by the id of its topic, None if nobody has told it."""
        topic, _, number = name.rpartition(":")
        return f"{self.ids[topic]}:{number}" if topic in self.ids else None

    def is_in(self, name: str, subscription: Sequence[str]) -> bool:
        """False if the topic of this partition, which is named by its id, is in no subscription."""
        topic = name.rpartition(":")[0]
        return topic not in self.removed and self.names.get(topic, "") in ("", *subscription)


@define(eq=False)
class KafkaGroup:
    """The steps of one life of a group, from its first member on."""

    name: str
    began_ns: int
    #: Which partition of `__consumer_offsets` it is in
    number: int
    topics: Topics
    version: tuple[int, ...]
    trace: SubjectTrace = field(init=False)
    numbers: GroupNumbers = field(factory=GroupNumbers)
    now: GroupState = field(factory=GroupState)
    #: The last change that is committed
    safe: GroupChange | None = None
    #: Changes that are not known to be committed; and what later coordinators did not have of them
    changes: list[GroupChange] = field(factory=list[GroupChange])
    others: list[list[GroupChange]] = field(factory=list[list[GroupChange]])
    #: Heartbeats that changed nothing since the last change
    heard: set[tuple[Json, ...]] = field(factory=set[tuple[Json, ...]])
    states: list[tuple[TracePlace, GroupState, bool]] = field(
        factory=list[tuple[TracePlace, GroupState, bool]]
    )
    no_step: Counter[str] = field(factory=Counter[str])
    inferred: Counter[str] = field(factory=Counter[str])
    ended: str = ""
    now_ms: int = 0

    def __attrs_post_init__(self) -> None:
        self.trace = SubjectTrace("ConsumerCoordinator", self.name, {})

    def legend(self) -> str:
        """The numbers' meanings."""
        members = ", ".join(f"member {n} is {one}" for one, n in self.numbers.members.items())
        named = (self._named(one) for one in self.numbers.partitions)
        parts = ", ".join(f"{n} is {one}" for n, one in enumerate(named, start=1))
        return f"{members}; partition {parts}" if parts else members

    def _named(self, partition: str) -> str:
        topic, _, number = partition.rpartition(":")
        return f"{self.topics.names.get(topic, topic)}-{number}"

    @property
    def size(self) -> tuple[int, int, int]:
        """So many members, partitions and epochs."""
        numbers = self.numbers
        epochs = [state.epoch for _, state, _ in self.states]
        return len(numbers.members), len(numbers.partitions), max(epochs, default=1) + 1

    def settle(self, members: int, partitions: int) -> None:
        """Nothing follows: so many members and partitions has the spec."""
        for place, state, offsets in self.states:
            place.changes = state.as_json(members, partitions)
            if offsets:
                place.changes["committed"] = state.offsets(partitions)
        for place in self.trace.steps:
            owns = place.params.get("owns")
            if owns == as_set(_ANYTHING):
                everything = as_set(range(partitions + 1))
                place.params = {**place.params, "owns": everything}
            target = place.params.get("newTarget")
            if isinstance(target, dict):
                owner = {int(p): n for p, n in target.items()}
                whole: list[Json] = [owner.get(p, 0) for p in range(1, partitions + 1)]
                place.params = {**place.params, "newTarget": whole}

    # Words

    def _add(self, action: str, **params: Json) -> TracePlace:
        self.trace.add(self.now_ms, action, params)
        return self.trace.steps[-1]

    def _leaves(self, action: str, params: Mapping[str, Json]) -> None:
        """A step, with the variables of the group after it."""
        offsets = action in ("TakeCommit", "Load")
        self.states.append((self._add(action, **params), self.now, offsets))

    def _end(self, why: str) -> None:
        self.ended = why

    def happens_at(self, line: Line) -> None:
        """The time of the steps that follow."""
        self.now_ms = (line["t"] - self.began_ns) // _NANOS

    # Operations

    def take(self, line: Line, epoch: int) -> None:
        """An operation whose records are in the log, or that has none."""
        if self.ended:
            return
        self.happens_at(line)
        before, steps = self.now, len(self.trace.steps)
        if line["classic"]:
            self._end("it becomes a classic group")
        elif line["gone"]:
            self._end("it is deleted")
        elif not (why := _has_no_words(line)):
            self._operation(line)
        else:
            self._end(why)
        if line["records"] and not self.ended:
            changed = self._changes_since(before, steps)
            self.changes.append(GroupChange(line["off"], epoch, changed, self.now))

    def _changes_since(self, before: GroupState, steps: int) -> int:
        """The steps of an operation that are changes in the spec's log."""
        taken = self.trace.steps[steps:]
        if not taken or taken[-1].action not in ("Heartbeat", "Rejoin"):
            return len(taken)
        return len(taken) - (before.members == self.now.members)

    def _operation(self, line: Line) -> None:
        before = self.now
        after = self._after(line)
        match line["op"]:
            case "heartbeat" if line["e"] <= LEAVES:
                self._one_goes("Leave", line["m"], after)
            case "fence" if len(line["members"]) > 1:
                self._end("several members are removed at once")
            case "fence":
                self._one_goes("Fence", line["members"][0], after)
            case "heartbeat":
                self._heartbeat(line, after)
            case "commit":
                self._commit(line, after)
            case _ if after.members != before.members:
                self._end("members change by no request of theirs")
            case _:
                self._other(line, after)

    def _after(self, line: Line) -> GroupState:
        """The group's state after the operation."""
        if "ge" not in line:
            raise ContradictingLinesError(f"{line['at']}: an operation of no group")
        numbers, members = self.numbers, dict(self.now.members)
        target = dict(self.now.target)
        for one in line.get("targets", ()):
            who = numbers.member(one["m"])
            target = {p: owner for p, owner in target.items() if owner != who}
        target.update(numbers.target(line.get("targets", ())))
        target_epoch = numbers.epoch(line["te"])
        for one in line.get("now", ()):
            who = numbers.member(one["m"])
            if one["known"]:
                members[who] = numbers.state(one, members.get(who, UNKNOWN), target_epoch)
            else:
                members.pop(who, None)
        epoch = numbers.epoch(line["ge"])
        return evolve(
            self.now, epoch=epoch, target_epoch=target_epoch, target=target, members=members
        )

    def _one_goes(self, action: str, who: str, after: GroupState) -> None:
        self._changed(after)
        self._leaves(action, {"m": self.numbers.member(who)})

    def _changed(self, after: GroupState) -> None:
        if after != self.now:
            self.heard.clear()
        self.now = after

    def _heartbeat(self, line: Line, after: GroupState) -> None:
        named = line["m"] or next((one["m"] for one in line.get("now", ())), "")
        who, before = self.numbers.member(named), self.now
        if who in after.members and who not in before.members:
            self._joins(line, who, after)
        elif why := self._reconciles_otherwise(line, who, after):
            self._end(why)
        else:
            self._comes_again(line, who, after)

    def _joins(self, line: Line, who: int, after: GroupState) -> None:
        before = self.now
        if after.epoch == before.epoch and any(one.get("regex") for one in line["now"]):
            self._end("a member joins and no epoch begins, for its expression is not resolved")
            return
        computed = after.target_epoch != before.target_epoch
        self._changed(after)
        self._leaves("Join", {"m": who, "computed": computed, "newTarget": _by_name(after)})

    def _comes_again(self, line: Line, who: int, after: GroupState) -> None:
        before = self.now
        if after.epoch != before.epoch:
            self._add("ChangeTopics")
        if after.target_epoch != before.target_epoch:
            self._add("ComputeTarget", newTarget=_by_name(after))
        claims = self._claims(line, who)
        key = tuple(str(one) for one in claims.values())
        same = after == before
        self._changed(after)
        if same and key in self.heard:
            self.no_step["a heartbeat that says and changes nothing new"] += 1
            return
        self.heard.add(key)
        if line["e"] == 0:
            self._leaves("Rejoin", {"m": who})
        else:
            self._leaves("Heartbeat", claims)

    def _claims(self, line: Line, who: int) -> dict[str, Json]:
        said = line.get("owns")
        owns = _ANYTHING if said is None else {self.numbers.partition(one) for one in said}
        return {"m": who, "epoch": self.numbers.epoch(line["e"]), "owns": as_set(owns)}

    def _reconciles_otherwise(self, line: Line, who: int, after: GroupState) -> str:
        """The reason for which a version reconciles a member otherwise than the spec, or ""."""
        before, now = self.now.members.get(who, UNKNOWN), after.members.get(who, UNKNOWN)
        target = after.given_to(who)
        if self.version < RECONCILES_ANEW:
            pending = target & before.pending.keys()
            if before.state == "unrevoked" and now != before:
                if now.state == "unrevoked":
                    return "this version raises the epoch of a member that has more to give up"
                if pending - now.assigned.keys():
                    return "this version does not give back at once what was to be given up"
            return ""
        mine = [one for one in line.get("now", ()) if one["m"] == line["m"] and one["known"]]
        if now == before or not mine:
            return ""
        names = {number: name for name, number in self.numbers.partitions.items()}
        held = before.assigned.keys() if before.state == "unrevoked" else frozenset[int]()
        those = [names[p] for p in target | held]
        if all(self.topics.is_in(one, mine[0]["topics"]) for one in those):
            return ""
        return "a member has partitions of a topic that it does not subscribe to"

    def _other(self, line: Line, after: GroupState) -> None:
        """Topics and expressions change without a member's heartbeat, and offsets go."""
        before = self.now
        self._changed(after)
        begins = after.epoch != before.epoch
        if after.target_epoch != before.target_epoch:
            if begins:
                self._add("ChangeTopics")
            self._leaves("ComputeTarget", {"newTarget": _by_name(after)})
        elif begins or after.target != before.target:
            self._leaves("ChangeTopics", {})
        for name, offset in line.get("committed", ()):
            self._not_by_a_member(name, None if offset >= 0 else 0)

    # Offsets

    def _commit(self, line: Line, after: GroupState) -> None:
        who, epoch, asked = line["m"], line["e"], dict(line["named"])
        self.now = after
        for name, offset in line.get("committed", ()):
            by_id = self.topics.by_id(name)
            if epoch < 0 or by_id is None:
                self._not_by_a_member(name, offset)
                continue
            partition = self.numbers.partition(by_id)
            self.now = self.now.commits(partition, offset)
            params: dict[str, Json] = {"m": self.numbers.member(who), "p": partition}
            params |= {"epoch": self.numbers.epoch(epoch), "offset": asked.get(name, offset)}
            self._leaves("TakeCommit", params)

    def _not_by_a_member(self, name: str, offset: int | None) -> None:
        """An offset that the spec does not change: of it is known, or is not, what Kafka has."""
        self.no_step["an offset that no member has committed"] += 1
        by_id = self.topics.by_id(name)
        if by_id is not None:
            partition = self.numbers.partition(by_id)
            elsewhere = {**self.now.elsewhere, partition: offset}
            self.now = evolve(self.now, elsewhere=elsewhere)

    def refused(self, line: Line) -> None:
        """A request that its coordinator has refused."""
        if self.ended:
            return
        self.happens_at(line)
        error, epoch = line["error"], line["e"]
        if line["op"] == "heartbeat" and not line["static"] and epoch > 0 and error in _FENCED:
            self._add("RefuseHeartbeat", **self._claims(line, self.numbers.member(line["m"])))
        elif line["op"] == "commit" and epoch >= 0 and error in _STALE:
            named = [self.topics.by_id(one) for one, _ in line["named"]]
            if not named or None in named:
                self.no_step["a refused commit of topics that nobody has told"] += 1
                return
            those = as_set(self.numbers.partition(one) for one in named if one is not None)
            params: dict[str, Json] = {"m": self.numbers.member(line["m"]), "those": those}
            self._add("RefuseCommit", **params, epoch=self.numbers.epoch(epoch))
        else:
            self.no_step[f"a {line['op']} is refused with {error}"] += 1

    # The log

    def lost(self, why: str) -> None:
        """An operation that has never been."""
        self.no_step[why] += 1

    def committed(self, line: Line, offset: int) -> None:
        """The coordinator's log is committed up to here."""
        done = [one for one in self.changes if one.end <= offset]
        if self.ended or not done:
            return
        self.happens_at(line)
        steps = sum(one.steps for one in done)
        self.safe = done[-1]
        self.others = [one[len(done) :] for one in self.others if one[: len(done)] == done]
        del self.changes[: len(done)]
        if steps:
            self._add("Replicate", n=steps)

    def serves(self, load: Line, found: Line | None) -> None:
        """Another coordinator serves, which has found the group so, or has not found it."""
        if self.ended:
            return
        self.happens_at(load)
        if self.safe is not None and not is_there(load, self.safe.end, self.safe.epoch):
            self._end("its log has lost what was committed")
            return
        if found is not None and (why := _has_no_words(found)):
            self._end(why)
            return
        kept = max((self._kept(load, one) for one in (self.changes, *self.others)), key=len)
        self.others.append(self.changes)
        self.changes = kept
        last = kept[-1] if kept else self.safe
        must = GroupState() if last is None else last.after
        self.now = evolve(must, epoch=1, target_epoch=1, target={}, members={})
        if found is not None:
            self.now = self._loaded(found, must)
        self.heard.clear()
        self._leaves("Load", {"n": sum(one.steps for one in kept)})
        self.now = evolve(self.now, committed=must.committed, elsewhere=must.elsewhere)
        self.committed(load, load["hw"])

    def _loaded(self, found: Line, must: GroupState) -> GroupState:
        """The group that was found where this must be."""
        numbers, target_epoch = self.numbers, self.numbers.epoch(found["te"])
        members: dict[int, GroupMember] = {}
        for one in found["now"]:
            who = numbers.member(one["m"])
            members[who] = numbers.state(one, must.members.get(who, UNKNOWN), target_epoch)
        state = evolve(must, epoch=numbers.epoch(found["ge"]), target_epoch=target_epoch)
        state = evolve(state, target=numbers.target(found["targets"]), members=members)
        return state.loaded_offsets(self._offsets(found))

    def _offsets(self, found: Line) -> dict[int, int]:
        by_id = ((self.topics.by_id(name), offset) for name, offset in found["committed"])
        return {self.numbers.partition(name): at for name, at in by_id if name is not None}

    def _kept(self, load: Line, changes: Sequence[GroupChange]) -> list[GroupChange]:
        """Those of a log's changes that are in the coordinator's log as well."""
        return list(takewhile(lambda one: is_there(load, one.end, one.epoch), changes))


def is_there(load: Line, end: int, epoch: int) -> bool:
    """True if records of this leader epoch up to this end are in a log that was loaded."""
    started: Mapping[int, int] = {at: number for number, at in load["epochs"] if at < end}
    return end <= load["end"] and bool(started) and started[max(started)] == epoch


def _by_name(state: GroupState) -> dict[str, Json]:
    """A target before the partitions are known: each that has an owner, by its number as text."""
    return {str(partition): owner for partition, owner in state.target.items()}


def _has_no_words(line: Line) -> str:
    """The reason for which the spec has no words for the members of a line, or ""."""
    members = line.get("now", ())
    if line.get("static") or any(one.get("static") for one in members):
        return "a static member"
    if any(one.get("classic") for one in members):
        return "a member of the classic protocol"
    return ""


def alike(groups: Sequence[KafkaGroup]) -> Iterator[dict[str, Json]]:
    """The constants of each group: the same for all, so that TLC judges them in one go."""
    sizes = [max(1, *those) for those in zip(*(one.size for one in groups), strict=True)]
    for _ in groups:
        yield {
            **dict(zip(("M", "P", "MaxEpoch"), sizes, strict=True)),
            **dict.fromkeys(("MaxOffset", "MaxLog"), BEYOND),
            **dict.fromkeys(("WaitUntilFree", "WaitUntilRevoked", "Subset"), True),
            "CommitBy": "assignment",
        }
