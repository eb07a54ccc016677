"""A coordinator's state is a replay of its log: after every operation, every prefix, every
compaction, and every record that is cut off."""

from collections.abc import Sequence
from random import Random
from typing import Any

from attrs import define, field
from hypothesis import example, given
from hypothesis import strategies as st

from refimpl.coordinator.operation import Answer, Performed, SetTimer, TimerKey
from refimpl.groups.shard import EXPIRE, GroupCoordinator
from refimpl.messages import group as m
from refimpl.messages.broker import TopicPartition
from tests.refimpl.groups.coordinating import HOUR_MS, IDS, METADATA, Log, loaded, refusal

GROUPS = ("g", "h")


def written(coordinator: GroupCoordinator, *, committed: bool = False) -> dict[Any, Any]:
    """The groups of a coordinator as they are written to the log, without soft state."""
    store = coordinator.shard.store
    groups = store.groups.committed_keys() if committed else store.groups.current
    found: dict[Any, Any] = {}
    for group_id in groups:
        group = store.groups.committed(group_id) if committed else store.groups.get(group_id)
        logic = store.logic_of(group)
        found[group_id] = logic.group_type, durable(group)
    for group_id in list(store.partitions):
        found |= {
            (group_id, name): value
            for name, value in store.offsets_of(group_id, committed=committed)
        }
    return found


def durable(group: Any) -> Any:
    """A classic group between generations has more than its last record says."""
    if hasattr(group, "unsynced"):
        steady = group.state in ("Stable", "Empty") and not group.pending
        members = {one.id: one.assignment for one in group.members.values()}
        return (group.state, group.generation, members) if steady else None
    return group


@define(eq=False)
class Life:
    """A coordinator, and clients that ask it this and that."""

    rng: Random
    log: Log = field(factory=Log)
    now: int = 10**12
    token: int = 0
    answers: dict[int, Any] = field(factory=dict[int, Any])
    timers: dict[TimerKey, int] = field(factory=dict[TimerKey, int])
    #: By classic group its members; and of members of the other one epoch and what they own
    members: dict[str, list[str]] = field(factory=lambda: {"g": list[str](), "h": list[str]()})
    heard: dict[str, tuple[int, Any]] = field(factory=dict[str, tuple[int, Any]])
    coordinator: GroupCoordinator = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.coordinator = loaded(self.log, self.now)

    def take(self, outputs: Sequence[Any]) -> None:
        for output in outputs:
            match output:
                case Answer(token, body):
                    assert token not in self.answers, "answered twice"
                    self.answers[token] = body
                case SetTimer(key, None):
                    self.timers.pop(key, None)
                case SetTimer(key, int(at_ms)):
                    self.timers[key] = at_ms
                case Performed():
                    pass
                case _:
                    raise AssertionError(output)

    def ask(self, request: Any) -> Any:
        self.token += 1
        self.take(self.coordinator.handle(self.now, self.token, request))
        return self.answers.get(self.token)

    def replicate(self, count: int) -> None:
        """So many batches more are at all followers."""
        ends = [sum(map(len, self.log.batches[: at + 1])) for at in range(len(self.log.batches))]
        new = next((end for end in reversed(ends) if end <= self.log.high_watermark), 0)
        for end in [end for end in ends if end > new][:count]:
            new = end
        if new > self.log.high_watermark:
            self.log.high_watermark = new
            self.take(self.coordinator.committed(new))

    def step(self) -> None:
        group = self.rng.choice(GROUPS)
        known = self.members[group]
        member = self.rng.choice([*known, ""])
        value = self.coordinator.shard.store.groups.get(group)
        generation = getattr(value, "generation", -1)
        match self.rng.randrange(13):
            case 0 | 1:
                name = TopicPartition(self.rng.choice("tu"), self.rng.randrange(2))
                one = m.CommittedPartition(name, self.token, topic_id=IDS[name.topic])
                current = generation if member else -1
                self.ask(m.OffsetCommitRequest(group, member, current, None, [one]))
            case 2 | 3:
                self.join(group, member)
            case 4:
                assignments = [(one, b"a" + one.encode()) for one in known]
                self.ask(m.SyncGroupRequest(group, generation, member, assignments=assignments))
            case 5:
                self.ask(m.LeaveGroupRequest(group, [m.LeavingMember(member)]))
            case 6:
                self.replicate(self.rng.randrange(4))
            case 7:
                self.pass_time(self.rng.choice([1000, 20_000, 2 * HOUR_MS]))
            case 8:
                request = self.rng.choice([m.DeleteGroupRequest, m.DescribeGroupRequest])
                self.ask(request(group))
            case 9:
                name = TopicPartition(self.rng.choice("tu"), 0)
                self.ask(m.OffsetDeleteRequest(group, [name]))
            case _:
                self.heartbeat(self.rng.choice("abc"))

    def join(self, group: str, member: str) -> None:
        protocols = (("range", METADATA),)
        request = m.JoinGroupRequest(
            *(group, 10_000, 10_000, member, None, "consumer", protocols),
            requires_known_member_id=False,
        )
        self.ask(request)
        value = self.coordinator.shard.store.groups.get(group)
        self.members[group] = list(getattr(value, "members", ()))

    def heartbeat(self, member: str) -> None:
        """A member of the consumer group joins, goes on with what it was told, or leaves."""
        epoch, owned = self.heard.get(member, (0, ()))
        if epoch and self.rng.random() < 0.2:
            epoch = -1
        names = (
            tuple(self.rng.choice(["t", "tu"])) if epoch == 0 or self.rng.random() < 0.2 else None
        )
        answer = self.ask(
            m.ConsumerGroupHeartbeatRequest(
                *("k", member, epoch, None, None, 60_000 if epoch == 0 else -1, names),
                topic_partitions=() if epoch == 0 else owned,
            )
        )
        if answer is None:
            return
        if answer.error is not None or epoch < 0:
            self.heard.pop(member, None)
        else:
            now_owned = owned if answer.assignment is None else answer.assignment
            self.heard[member] = answer.member_epoch, now_owned

    def pass_time(self, by_ms: int) -> None:
        self.now += by_ms
        for key, at_ms in sorted(self.timers.items(), key=lambda one: one[1]):
            if at_ms <= self.now and self.timers.get(key) == at_ms:
                del self.timers[key]
                self.take(self.coordinator.due(self.now, key))

    def same(self, live: dict[Any, Any], other: dict[Any, Any]) -> bool:
        """Equal, where nothing is soft; `since` of a group may be later than its record."""
        soft = [key for key, value in live.items() if key in GROUPS and value[1] is None]
        return {k: v for k, v in live.items() if k not in soft} == {
            k: v for k, v in other.items() if k not in soft
        }


seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 40))
def test_a_replay_of_the_log_is_the_live_state_after_every_operation(seed: int, steps: int) -> None:
    life = Life(Random(seed))
    for _ in range(steps):
        life.step()
        assert life.same(written(life.coordinator), written(loaded(life.log, life.now)))


@given(seeds, st.integers(1, 40))
def test_what_is_read_as_committed_is_a_replay_up_to_the_high_watermark(
    seed: int, steps: int
) -> None:
    life = Life(Random(seed))
    for _ in range(steps):
        life.step()
    pairs = [pair for batch in life.log.batches for pair in batch]
    prefix = Log([pairs[: life.log.high_watermark]], life.log.high_watermark)
    read = written(life.coordinator, committed=True)
    for key, value in written(loaded(prefix)).items():
        if key not in GROUPS:
            assert read[key] == value


@given(seeds, st.integers(1, 30))
def test_reverting_to_an_offset_is_the_state_before_its_record(seed: int, steps: int) -> None:
    life = Life(Random(seed))
    for _ in range(steps):
        life.step()
    store, high_watermark = life.coordinator.shard.store, life.log.high_watermark
    before = written(life.coordinator, committed=True)
    store.revert(high_watermark)
    assert {k: v for k, v in written(life.coordinator).items() if k not in GROUPS} == {
        k: v for k, v in before.items() if k not in GROUPS
    }


@given(seeds, st.integers(1, 25))
def test_what_the_log_refuses_has_changed_nothing(seed: int, steps: int) -> None:
    life = Life(Random(seed))
    for _ in range(steps):
        life.step()
    life.log.refuses = refusal("KAFKA_STORAGE_ERROR")
    before, end = written(life.coordinator), life.log.end
    name = TopicPartition("t", 0)
    commit = m.OffsetCommitRequest("new", "", -1, None, [m.CommittedPartition(name, 7)])
    answer = life.ask(commit)
    assert answer.partitions == [(name, "NOT_COORDINATOR")]
    life.pass_time(2 * HOUR_MS)
    life.take(life.coordinator.due(life.now, EXPIRE))
    offsets = {k: v for k, v in written(life.coordinator).items() if k not in GROUPS}
    assert offsets == {k: v for k, v in before.items() if k not in GROUPS}
    assert life.log.end == end


def compacted(batches: list[list[tuple[bytes, bytes | None]]], rng: Random) -> Log:
    """A log as the cleaner leaves it: of the oldest batches all that has a newer record of its key
    is gone, and all tombstones; of the others some records that have a newer one."""
    pairs = [(at, pair) for at, batch in enumerate(batches) for pair in batch]
    last = {key: at for at, (_, (key, _)) in enumerate(pairs)}
    clean = rng.randrange(len(batches) + 1)
    kept = [
        pair
        for at, (batch, pair) in enumerate(pairs)
        if (last[pair[0]] == at and not (pair[1] is None and batch < clean))
        or (last[pair[0]] != at and batch >= clean and rng.random() < 0.4)
    ]
    return Log([kept], len(kept))


@given(seeds, st.integers(1, 40))
@example(0, 40)
@example(32574, 32)
def test_every_compaction_of_every_prefix_loads_to_the_same_state(seed: int, steps: int) -> None:
    life = Life(Random(seed))
    for _ in range(steps):
        life.step()
    for count in range(1, len(life.log.batches) + 1):
        batches = life.log.batches[:count]
        whole = written(loaded(Log(batches, sum(map(len, batches)))))
        assert written(loaded(compacted(batches, life.rng))) == whole


@given(seeds, st.integers(1, 40))
def test_nobody_waits_for_ever(seed: int, steps: int) -> None:
    """Once all is replicated, or time is over, or another one leads, all are answered."""
    life = Life(Random(seed))
    for _ in range(steps):
        life.step()
    life.replicate(10**6)
    life.pass_time(2 * HOUR_MS)
    life.replicate(10**6)
    life.take(life.coordinator.resign())
    assert life.answers.keys() == set(range(1, life.token + 1))
    assert not life.coordinator.waiting
