"""Several of a thing: partitions of one broker, partitions of one commit, lives of one member."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from attrs import define, field

from refimpl.clients.consumer.commits import Commits
from refimpl.clients.consumer.config import ConsumerConfig
from refimpl.clients.consumer.position import OffsetAndEpoch
from refimpl.clients.consumer.reconciling import ReconcilingMembership
from refimpl.clients.consumer.sessions import ConsumerFetchSession
from refimpl.messages import group as g
from refimpl.messages.broker import FetchPartition, FetchResponse, TopicPartition
from tests.refimpl.clients.consumer.scripts import Ours

A, B, C = (TopicPartition("orders", number) for number in range(3))


def test_records_of_a_paused_partition_keep_no_other_one_of_its_broker_waiting() -> None:
    ours = Ours({"partitions": 2, "nodes": 1, "reset": "none", "most": 1})
    for partition in range(2):
        ours.play(["seek", partition, 5, -1])
    (fetch,) = ours.play(["poll"])["sent"]
    ours.play(["pause", 0])
    rows: dict[str, Any] = {
        str(one): {"error": "", "records": [], "replica": -1} for one in range(2)
    }
    rows["0"]["records"] = [[5, 0]]
    ours.play(["answer", fetch["id"], rows])
    assert [one["api"] for one in ours.play(["poll"])["sent"]] == ["Fetch"]
    assert ours.play(["poll"])["positions"]["0"] == ["fetching", 5, -1]


def test_a_partition_of_which_records_are_left_at_the_limit_goes_on_first() -> None:
    """As Kafka's nextInLineFetch does; only one that was paused lets others before it."""
    ours = Ours({"partitions": 2, "nodes": 1, "reset": "none", "most": 1})
    for partition in range(2):
        ours.play(["seek", partition, 5, -1])
    (fetch,) = ours.play(["poll"])["sent"]
    rows = {str(one): {"error": "", "records": [[5, 0], [6, 0]], "replica": -1} for one in range(2)}
    ours.play(["answer", fetch["id"], rows])
    returned = [ours.play(["poll"])["records"] for _ in range(4)]
    assert returned == [{"0": [5]}, {"0": [6]}, {"1": [5]}, {"1": [6]}]


@define
class Asked:
    """A coordinator that is ready; its answers come when a test gives them."""

    key: str = "g"
    failed: int = 0
    error: str | None = None
    waiting: list[tuple[Any, Callable[[int, Any], None]]] = field(factory=list[Any])
    network: Any = field(
        factory=lambda: SimpleNamespace(backoff=SimpleNamespace(wait_ms=lambda failures: 100))  # pyright: ignore
    )

    def is_ready(self, now: int) -> bool:
        return True

    def ask(self, now: int, body: Any, then: Callable[[int, Any], None]) -> None:
        self.waiting.append((body, then))

    def is_trouble(self, now: int, error: str | None) -> bool:
        return error in (None, "NOT_COORDINATOR")

    def answer(self, now: int, answer: Any) -> Any:
        """Answer the request that waits for longest; return it."""
        body, then = self.waiting.pop(0)
        then(now, answer)
        return body


def commit(*errors: str | None, until_ms: int = 0) -> tuple[Asked, Commits, list[str | None]]:
    """A commit of as many partitions, answered with these errors."""
    coordinator, told = Asked(), list[str | None]()
    asked: Any = coordinator
    commits = Commits(asked)
    names = (A, B, C)[: len(errors)]
    offsets = {name: (OffsetAndEpoch(5), "") for name in names}
    commits.commit(offsets, lambda now, error: told.append(error), until_ms)
    commits.run(1)
    answer = g.OffsetCommitResponse([*zip(names, errors, strict=True)])
    body = coordinator.answer(2, answer)
    assert [one.partition for one in body.partitions] == [*names]
    return coordinator, commits, told


def test_a_commit_fails_with_the_error_of_any_of_its_partitions() -> None:
    assert commit(None, None)[2] == [None]
    for errors in (("OFFSET_METADATA_TOO_LARGE", None), (None, None, "OFFSET_METADATA_TOO_LARGE")):
        assert commit(*errors)[2] == ["OFFSET_METADATA_TOO_LARGE"]


def test_a_commit_is_sent_again_as_a_whole_whichever_partition_is_in_trouble() -> None:
    coordinator, commits, told = commit(None, "NOT_COORDINATOR", until_ms=1000)
    assert told == []
    commits.run(101)
    assert coordinator.waiting == []
    commits.run(102)
    body = coordinator.answer(103, g.OffsetCommitResponse(((A, None), (B, None))))
    assert [one.partition for one in body.partitions] == [A, B]
    assert told == [None]


@define
class Owner:
    """A consumer that is told what it has lost."""

    metadata: Any = field(
        factory=lambda: SimpleNamespace(topic_ids=dict[str, Any](), wanted=False)  # pyright: ignore
    )
    is_settled: bool = True
    losses: int = 0

    def lose(self, now: int, partitions: Any, then: Any) -> None:
        self.losses += 1


def member_of(coordinator: Any, owner: Any) -> ReconcilingMembership:
    config = ConsumerConfig.of({"bootstrap.servers": "h:1", "group.id": "g"})
    return ReconcilingMembership(config, coordinator, owner, frozenset(("orders",)), "m")


def test_an_answer_to_an_earlier_life_of_a_member_is_not_taken() -> None:
    """It has joined again since: the epoch of before would be refused, or fence it."""
    coordinator, owner = Asked(), Owner()
    member = member_of(coordinator, owner)
    member.run(0, polling=True)
    coordinator.answer(1, g.ConsumerGroupHeartbeatResponse(None, None, "m", 3, 10))
    member.run(11, polling=True)
    member.lost(12, "FENCED_MEMBER_EPOCH")
    member.run(200, polling=True)
    old, new = (body for body, _ in coordinator.waiting)
    assert (old.member_epoch, new.member_epoch) == (3, 0)
    coordinator.answer(201, g.ConsumerGroupHeartbeatResponse(None, None, "m", 3, 10))
    assert (member.is_member, member.asking) == (False, True)
    coordinator.answer(202, g.ConsumerGroupHeartbeatResponse(None, None, "m", 7, 10))
    assert (member.group_generation, member.asking) == (7, False)
    assert owner.losses == 1


def test_a_refusal_of_an_earlier_life_does_not_end_the_next_one() -> None:
    coordinator, owner = Asked(), Owner()
    member = member_of(coordinator, owner)
    member.run(0, polling=True)
    member.lost(1, "UNKNOWN_MEMBER_ID")
    member.run(200, polling=True)
    coordinator.answer(201, g.ConsumerGroupHeartbeatResponse("GROUP_AUTHORIZATION_FAILED"))
    assert (member.ended, member.error, member.asking) == (False, None, True)


def test_a_session_is_told_of_every_partition_that_goes() -> None:
    session = ConsumerFetchSession()
    all_of_them = {name: FetchPartition(name, 0) for name in (A, B, C)}
    assert session.named(all_of_them) == ([*all_of_them.values()], ())
    session.answered(FetchResponse((), 7))
    assert session.named({B: all_of_them[B]}) == ([], [A, C])
