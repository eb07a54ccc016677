"""Turns the lines of Kafka's own processes into steps of the spec Replication.

Most lines are a step. A fetch has two ends, at its leader and at its follower, as in a simulated
run. A decision of the controller is the difference between two registrations of the partition.
The spec counts from 1 where Kafka counts from 0, and its replica 1 is the first leader.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field

from chaos.recorders.kafka_lines import Line
from chaos.recorders.protocol_events import SubjectTrace, TracePlace
from refimpl.events import Json, as_set

NONE = 0
INELIGIBLE_REPLICA = 107
NOBODY = -1
_NANOS = 1_000_000
#: How far a fetch's reading may lie before the line that tells of it, in moves of a leader
_MOVES_BACK = 10
_OF_CONTROLLERS = frozenset(("alter", "changed"))


@define(eq=False)
class KafkaReplica:
    """A broker's replica, as its own lines tell, in Kafka's numbers."""

    process: int
    #: The process that ran when the partition was created: the spec's incarnation 0
    first: int = field(init=False)
    #: The newest process that has loaded the log: before it has, the one before counts
    loaded: int = field(init=False)
    #: The broker has told it a role since its process started
    up: bool = True
    epoch: int = 0
    partition_epoch: int = 0
    leads: bool = False
    isr: frozenset[int] = frozenset()
    high_watermark: int = 0
    end: int = 0
    told: bool = False
    #: Its newest fetch that has no answer yet, that fetch's offset, and the leader's high watermark
    place: TracePlace | None = None
    asked_from: int = NOBODY
    read_mark: int = 0
    #: It leads by the decision of before its start, unregistered: nobody is served by it
    unregistered_leader: bool = False
    #: Its last moves of the high watermark, and where to
    moves: list[tuple[int, TracePlace]] = field(factory=list[tuple[int, TracePlace]])
    #: As a leader: followers whose fetch it has read, and not taken into account yet
    unheard: set[int] = field(factory=set[int])
    #: As a leader: the ends of its followers, by the fetches that it has read
    ends: dict[int, int] = field(factory=dict[int, int])
    #: As a leader: the ISR that it has asked for
    wanted: frozenset[int] = frozenset()
    #: Its last move came meanwhile; another one may follow that takes the fetch into account
    early: bool = False

    def __attrs_post_init__(self) -> None:
        self.first = self.loaded = self.process

    @property
    def maximal_isr(self) -> frozenset[int]:
        """The ISR, and the members that the leader has asked in (KIP-497)."""
        return self.isr | self.wanted


@define(eq=False)
class Decision:
    """The controller's registration of a partition."""

    leader: int
    epoch: int
    partition_epoch: int
    isr: frozenset[int]


@define(eq=False)
class KafkaPartition:
    """The steps of one partition, from its creation on."""

    trace: SubjectTrace
    #: The spec's number of each broker
    numbers: dict[int, int]
    replicas: dict[int, KafkaReplica]
    decision: Decision
    began_ns: int
    #: The process of each broker epoch
    processes: Mapping[tuple[int, int], int]
    alive: frozenset[int] = field(init=False)
    registered: dict[int, int] = field(factory=dict[int, int])
    late: set[tuple[int, int, int]] = field(factory=set[tuple[int, int, int]])
    #: The partition epoch of the last accepted AlterPartition, whose record follows
    answered: int = NOBODY
    #: Offline, the spec's ISR keeps its last member
    last_isr: int = NOBODY
    #: The ELR of the last decision
    elr: frozenset[int] = frozenset()
    #: Lines that are no step, and why; and what was inferred
    no_step: Counter[str] = field(factory=Counter[str])
    inferred: Counter[str] = field(factory=Counter[str])
    #: Of a topic that was made again: brokers whose lines are still those of its earlier life
    earlier: set[int] = field(factory=set[int])
    #: The first start with a log that is shorter than it was: its disk is another one
    loss: TracePlace | None = None
    #: Why the recording of the partition ends here, "" if it does not
    ended: str = ""
    now_ms: int = 0

    def __attrs_post_init__(self) -> None:
        self.alive = frozenset(self.numbers)

    def legend(self) -> str:
        """The numbers' meanings."""
        named = (f"{number} is broker {broker}" for broker, number in self.numbers.items())
        return f"replica {', '.join(named)}"

    def before_loss(self) -> int | None:
        """The number of steps before a replica has lost a part of its log; None if none has."""
        return None if self.loss is None else self.trace.known.index(self.loss)

    def happens_at(self, time_ns: int) -> None:
        """Set the time of the steps that follow, by the clock of the lines."""
        self.now_ms = (time_ns - self.began_ns) // _NANOS

    def take(self, line: Line) -> None:
        """Take one line about this partition, or about a broker."""
        if self.ended:
            return
        self.happens_at(line["t"])
        kind, who = line["ev"], line["node"]
        unknown = who not in self.replicas
        if kind not in _OF_CONTROLLERS and (
            unknown or self._is_earlier(who, line) or self._unserved(who, line)
        ):
            return
        if kind in ("leader", "follower"):
            self._cleared(line)
        steps: dict[str, Callable[[int, Line], None]] = {
            **{"loaded": self._loaded, "follower": self._follower, "leader": self._leader},
            **{"write": self._write, "hw": self._mark, "truncated": self._truncated},
            **{"begun": self._begun, "read": self._read, "heard": self._heard},
            **{"taken": self._taken, "asked": self._asked, "answer": self._answer},
            **{"refused": self._refused, "alter": self._alter, "changed": self._changed},
        }
        steps[kind](who, line)

    def _is_earlier(self, who: int, line: Line) -> bool:
        """True if the broker has not heard yet that the topic was deleted and made again.

        It begins with a log of the new topic.
        """
        if who in self.earlier and line["ev"] == "loaded":
            self.earlier.discard(who)
        if who in self.earlier:
            self.no_step["of the topic's earlier life"] += 1
        return who in self.earlier

    def _unserved(self, who: int, line: Line) -> bool:
        """True if the broker leads by its last process's decision.

        It is not registered, so it serves nobody, and the controller refuses what it asks. Until
        it is told of a newer epoch its lines are no steps.
        """
        replica = self.replicas[who]
        news = line["ev"] in ("leader", "follower") and line["epoch"] > replica.epoch
        if line["ev"] == "loaded" or news:
            replica.unregistered_leader = False
        if not replica.unregistered_leader:
            return False
        self.no_step["of a leader that is not registered"] += 1
        return True

    # Words

    def _add(self, action: str, params: Mapping[str, Json], **changes: Any) -> None:
        self.trace.add(self.now_ms, action, params, **changes)

    def _those(self, brokers: Iterable[int]) -> frozenset[int]:
        return frozenset(self.numbers[one] for one in brokers)

    def _left(self, who: int, *names: str) -> dict[str, Any]:
        """The variables of a replica after its step."""
        one = self.replicas[who]
        every = {
            "highWatermark": one.high_watermark,
            "epoch": one.epoch + 1,
            "isr": self._those(one.isr) if one.leads else frozenset[int](),
            "partitionEpoch": one.partition_epoch + 1 if one.leads else 0,
        }
        return {name: (self.numbers[who], every[name]) for name in names}

    def _in_force(self) -> dict[str, Any]:
        now = self.decision
        if not now.isr or now.leader == NOBODY:
            return {}
        state = {
            "leader": self.numbers[now.leader],
            "epoch": now.epoch + 1,
            "partitionEpoch": now.partition_epoch + 1,
            "isr": as_set(self._those(now.isr)),
        }
        return {"state": state}

    # Processes

    def started(self, who: int) -> None:
        """Another process of a broker starts."""
        if who in self.replicas:
            self.replicas[who].process += 1

    def broker_registered(self, who: int, process: int) -> None:
        """The controller knows of a process."""
        if self.ended or who not in self.replicas:
            return
        number = process - self.replicas[who].first
        if number > self.registered.get(who, 0):
            self.registered[who] = number
            self._add("Register", {"r": self.numbers[who], "i": number})

    def _loaded(self, who: int, line: Line) -> None:
        one = self.replicas[who]
        if one.process == one.first:
            if line["end"]:
                self.ended = "its log is older than the recording"
            return
        lost = line["end"] < one.end
        self._infer(who, line["end"] - one.end)
        one.loaded = one.process
        one.high_watermark, one.end, one.up, one.leads = line["hw"], line["end"], False, False
        one.isr, one.partition_epoch, one.place, one.told = frozenset(), 0, None, True
        params = {"r": self.numbers[who], "checkpoint": line["hw"], "kept": line["end"]}
        left = self._left(who, "highWatermark", "isr", "partitionEpoch")
        self._add("Restart", params, **left)
        if lost and self.loss is None:
            self.loss = self.trace.steps[-1]

    def _infer(self, who: int, more: int) -> None:
        """A process was killed after an append, before the line of it."""
        one = self.replicas[who]
        if more <= 0:
            return
        if one.leads:
            for _ in range(more):
                self._add("Write", {"l": self.numbers[who]})
            self.inferred["records that a killed leader appended"] += more
        elif one.place is not None:
            mark = min(one.read_mark, one.end + more)
            left = {"highWatermark": (self.numbers[who], mark)}
            one.place.becomes("Fetch", left, n=more)
            self.inferred["a fetch that a killed follower appended"] += 1

    # Roles

    def _follower(self, who: int, line: Line) -> None:
        one = self.replicas[who]
        one.told = True
        if line["lead"] == NOBODY:
            self.no_step["told that nobody leads"] += 1
            return
        known = line["epoch"] == one.epoch and one.up
        one.high_watermark, one.end = line["hw"], line["end"]
        if known:
            return
        one.epoch, one.partition_epoch, one.leads = line["epoch"], line["pe"], False
        one.isr, one.up, one.place = frozenset(), True, None
        params = {"r": self.numbers[who], "e": one.epoch + 1}
        left = self._left(who, "epoch", "isr", "highWatermark", "partitionEpoch")
        self._add("BecomeFollower", params, **left)

    def _leader(self, who: int, line: Line) -> None:
        one = self.replicas[who]
        first, one.told = not one.told and line["epoch"] == 0, True
        if line["epoch"] == one.epoch and not one.up:
            one.unregistered_leader = True
            self.no_step["leads again in its old epoch before it is registered"] += 1
            return
        newer = line["epoch"] > one.epoch
        settles = line["pe"] > one.partition_epoch or (line["was"] and not line["pending"])
        one.epoch, one.partition_epoch, one.leads = line["epoch"], line["pe"], True
        one.isr, one.up, one.place = frozenset(line["isr"]), True, None
        if newer or settles:
            one.wanted = frozenset()
        if newer:
            one.moves.clear()
            one.unheard.clear()
            one.ends.clear()
            params = {"r": self.numbers[who], "e": one.epoch + 1}
            left = self._left(who, "epoch", "isr", "highWatermark", "partitionEpoch")
            self._add("BecomeLeader", params, **left)
        elif settles:
            params = {"l": self.numbers[who], "e": one.partition_epoch + 1}
            self._add("Told", params, **self._left(who, "isr", "partitionEpoch"))
        elif not first:
            self.no_step["told what it knows"] += 1

    # Logs

    def _write(self, who: int, line: Line) -> None:
        self._must_end_at(who, line["old"], line)
        for _ in range(line["old"], line["end"]):
            self._add("Write", {"l": self.numbers[who]})
        self.replicas[who].end = line["end"]

    def _must_end_at(self, who: int, end: int, line: Line) -> None:
        if end != self.replicas[who].end:
            known = self.replicas[who].end
            said = f"{line['at']}: the log of broker {who} ended at {known}, and not at {end}"
            raise ContradictingLinesError(said)

    def _mark(self, who: int, line: Line) -> None:
        one, steps = self.replicas[who], self.trace.steps
        if one.early and one.moves and _last_but_writes(steps) is one.moves[-1][1]:
            steps.remove(one.moves.pop()[1])
            self.inferred["a high watermark that moved before a fetch was heard"] += 1
        one.high_watermark = line["hw"]
        left = self._left(who, "highWatermark")
        below = self._below_isr(who, line)
        waits = below and line["hw"] in self._outside(who)
        action = "WaitToJoin" if waits else "AdvanceHighWatermark"
        self._add(action, {"l": self.numbers[who]}, **left)
        place = steps[-1]
        since = line["end"] - line["hw"]
        if below and not waits and all(step.action == "Write" for step in steps[-1 - since : -1]):
            steps.insert(len(steps) - 1 - since, steps.pop())
            self.inferred["a high watermark that was computed before another write"] += 1
        one.moves = [*one.moves[1 - _MOVES_BACK :], (line["hw"], place)]
        one.early = bool(one.unheard)

    def _below_isr(self, who: int, line: Line) -> bool:
        """True if it is below the ends of all in the maximal ISR."""
        one = self.replicas[who]
        others = one.maximal_isr - {who}
        return line["hw"] < min([line["end"], *(one.ends.get(broker, NOBODY) for broker in others)])

    def _outside(self, who: int) -> Collection[int]:
        """The ends of followers that are not in the ISR, and that nobody has asked in."""
        one = self.replicas[who]
        return {end for broker, end in one.ends.items() if broker not in one.maximal_isr}

    def _truncated(self, who: int, line: Line) -> None:
        one = self.replicas[who]
        # Who led an epoch without a write names that epoch in its fetch, and is answered that it
        # diverges. It cuts nothing then, and the leader has not counted the fetch.
        cut_nothing = (line["end"], line["hw"]) == (one.end, one.high_watermark)
        if one.place is None or cut_nothing:
            self.no_step["nothing to cut" if line["end"] == one.end else "cut at its start"] += 1
            one.end, one.place = line["end"], None
            return
        one.high_watermark, one.end = line["hw"], line["end"]
        one.place.becomes("Truncate", self._left(who, "highWatermark"))
        one.place = None

    def _begun(self, who: int, line: Line) -> None:
        self.ended = f"broker {who} begins its log anew at {line['to']}, and the spec has no start"

    # Fetches

    def _read(self, who: int, line: Line) -> None:
        follower = line["f"]
        if follower not in self.replicas:
            return
        if line["end"] > self.replicas[who].end:
            self._must_end_at(who, line["end"], line)
        one, params = self.replicas[follower], self._fetch(follower, who)
        process = self.processes.get((follower, line["be"]), one.process)
        counts = line["counts"] and not line["div"]
        if process == one.loaded != one.process and line["epoch"] == one.epoch and one.up:
            if counts:
                self._add("FetchLost", params)
            return
        if process != one.process or line["epoch"] != one.epoch or not one.up:
            key = follower, process, line["epoch"]
            if counts and key not in self.late:  # a second one changes nothing
                self.late.add(key)
                self._add("LateFetch", params)
            return
        otherwise = "FetchLost" if counts else None
        one.place = self.trace.reserve(self.now_ms, params, otherwise)
        one.asked_from, one.read_mark = line["off"], line["hw"]
        if counts:
            self.replicas[who].unheard.add(follower)
            self.replicas[who].ends[follower] = line["off"]
        moves = self.replicas[who].moves
        passed = [place for mark, place in moves if mark > line["hw"]]
        if passed:
            steps = self.trace.steps
            steps.insert(steps.index(passed[0]), steps.pop())
            self.inferred["a fetch that was read before the high watermark moved"] += 1

    def _fetch(self, follower: int, leader: int) -> dict[str, Json]:
        return {"f": self.numbers[follower], "l": self.numbers[leader]}

    def _heard(self, who: int, line: Line) -> None:
        self.replicas[who].unheard.discard(line["f"])
        if line["now"] != line["epoch"]:
            self.no_step["heard in another epoch than it was read in"] += 1

    def _taken(self, who: int, line: Line) -> None:
        one = self.replicas[who]
        if one.place is None or one.asked_from != line["off"]:
            self.no_step["an answer without its fetch"] += 1
            one.high_watermark, one.end = line["hw"], line["end"]
            return
        one.high_watermark, one.end = line["hw"], line["end"]
        more = line["end"] - line["off"]
        one.place.becomes("Fetch", self._left(who, "highWatermark"), n=more)
        one.place = None

    # The ISR

    def _asked(self, who: int, line: Line) -> None:
        isr, wanted = self.replicas[who].isr, frozenset(broker for broker, _ in line["members"])
        self.replicas[who].wanted = wanted
        leader, gone = self.numbers[who], sorted(isr - wanted)
        for one in sorted(wanted - isr):
            self._add("ExpandIsr", {"l": leader, "f": self.numbers[one]})
        if len(gone) > 1:
            those = as_set(self._those(gone))
            self._add("ShrinkIsrBySeveral", {"l": leader, "those": those})
        elif gone:
            self._add("ShrinkIsr", {"l": leader, "f": self.numbers[gone[0]]})

    def _answer(self, who: int, line: Line) -> None:
        one = self.replicas[who]
        one.isr, one.partition_epoch = frozenset(line["isr"]), line["pe"]
        self._settled(who, "TakeIsrAnswer")

    def _refused(self, who: int, line: Line) -> None:
        if line["pending"]:
            self.no_step[f"in doubt after {line['error']}"] += 1
        elif line["error"] == "OPERATION_NOT_ATTEMPTED":
            self._settled(who, "NotAttempted")
        else:
            self._settled(who, "TakeIsrAnswer")

    def _settled(self, who: int, action: str) -> None:
        self.replicas[who].wanted = frozenset()
        left = self._left(who, "isr", "partitionEpoch")
        self._add(action, {"l": self.numbers[who]}, **left)

    # The controller

    def _alter(self, _: int, line: Line) -> None:
        if line["error"] not in (NONE, INELIGIBLE_REPLICA):
            self.no_step[f"AlterPartition is refused with {line['error']}"] += 1
            return
        active = frozenset(line["active"])
        if active != self.alive:
            self.alive = active
            self._add("Alive", {"those": as_set(self._those(active))})
        if line["error"] == NONE:
            self.answered = line["newPe"]
            members = frozenset[int](line["isr"])
            self.decision = Decision(line["lead"], line["newEpoch"], line["newPe"], members)
        params = {"l": self.numbers[line["by"]], "e": line["pe"] + 1}
        self._add("AlterPartition", params, **self._in_force())

    def _cleared(self, line: Line) -> None:
        """A broker knows of a partition epoch for which no change is written down.

        ClearElrRecord makes it, where min.insync.replicas of a topic is set: nothing else changes.
        """
        now = self.decision
        if self.elr and (line["epoch"], line["pe"]) == (now.epoch, now.partition_epoch + 1):
            self.decision = Decision(now.leader, now.epoch, line["pe"], now.isr)
            self.elr = frozenset()
            self.inferred["a partition epoch whose change cleared the ELR"] += 1
            self._add("ChangeOther", {}, **self._in_force())

    def _changed(self, _: int, line: Line) -> None:
        if line["pe"] >= self.decision.partition_epoch:
            self.elr = frozenset(line.get("elr", ()))
        if line["pe"] == self.answered or line["pe"] <= self.decision.partition_epoch:
            return  # the record of an answer, or one that another controller reads
        if set(line["replicas"]) != self.numbers.keys():
            self.ended = "its replicas change"
            return
        old = self.decision
        isr = frozenset[int](line["isr"])
        new = self.decision = Decision(line["lead"], line["epoch"], line["pe"], isr)
        was = old.isr or frozenset([self.last_isr])
        if new.leader == NOBODY:
            self._nobody_leads(old, was)
        elif new.leader not in was:
            if old.leader != NOBODY:
                self.inferred["an election from the ELR, as an unclean one"] += 1
            self._add("ElectUnclean", {"r": self.numbers[new.leader]}, **self._in_force())
        elif old.leader == NOBODY:
            self._add("Elect", {"r": self.numbers[new.leader]}, **self._in_force())
        else:
            self._leads_on(old, new)

    def _nobody_leads(self, old: Decision, was: frozenset[int]) -> None:
        if old.leader == NOBODY:
            self._add("ChangeOther", {})
            return
        leader = self.numbers[old.leader]
        for gone in sorted(was - {old.leader}):
            self._add("Fence", {"b": self.numbers[gone], "r": leader})
        self.last_isr = old.leader
        self._add("GoOffline", {"b": leader})

    def _leads_on(self, old: Decision, new: Decision) -> None:
        leader = self.numbers[new.leader]
        if new.leader != old.leader and old.leader not in new.isr:
            self._add("Fence", {"b": self.numbers[old.leader], "r": leader}, **self._in_force())
        elif new.leader != old.leader or new.epoch != old.epoch:
            self._add("Elect", {"r": leader}, **self._in_force())
        elif new.isr != old.isr:
            for gone in sorted(old.isr - new.isr):
                params = {"b": self.numbers[gone], "r": leader}
                self._add("Fence", params, **self._in_force())
        else:
            self._add("ChangeOther", {}, **self._in_force())


def _last_but_writes(steps: Sequence[TracePlace]) -> TracePlace | None:
    return next((step for step in reversed(steps) if step.action != "Write"), None)


class ContradictingLinesError(ValueError):
    """Two lines cannot both be true: the sentence names them."""
