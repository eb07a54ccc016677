"""Lines of agents about topics that are made again, and about changes that no line tells of."""

from itertools import count
from typing import Any

import pytest

from chaos.recorders.kafka_recorder import KafkaRecorder

CONTROLLER, BROKERS = 100, (1, 2, 3)
_times = count(1)


def taken(recorder: KafkaRecorder, node: int, event: str, **fields: Any) -> None:
    """The recorder takes one line."""
    line = {"t": next(_times) * 1_000_000, "node": node, "ev": event, "at": "x:1", **fields}
    recorder.take(line)


def begun() -> KafkaRecorder:
    """All nodes have started."""
    recorder = KafkaRecorder()
    for node in (CONTROLLER, *BROKERS):
        taken(recorder, node, "start", counts=True)
    return recorder


def created(recorder: KafkaRecorder, topic_id: str) -> None:
    """The controller makes the partition, or reads of it again."""
    told: dict[str, Any] = {"lead": 1, "epoch": 0, "pe": 0, "isr": [1, 2, 3]}
    taken(recorder, CONTROLLER, "created", p="t-0", id=topic_id, replicas=[1, 2, 3], **told)


def loaded(recorder: KafkaRecorder, node: int) -> None:
    taken(recorder, node, "loaded", p="t-0", hw=0, end=0)


def written(recorder: KafkaRecorder, old: int, end: int) -> None:
    taken(recorder, 1, "write", p="t-0", epoch=0, old=old, end=end)


def removed(recorder: KafkaRecorder, topic_id: str) -> None:
    taken(recorder, CONTROLLER, "removed", topic="t", id=topic_id)


#: A fetch of broker 2, from the beginning
READ: dict[str, Any] = {"f": 2, "be": 7, "epoch": 0, "off": 0, "counts": True, "div": False}


def led() -> KafkaRecorder:
    """Broker 1 leads and has written two records, the others follow."""
    recorder = begun()
    created(recorder, "A")
    for node in BROKERS:
        loaded(recorder, node)
        told: dict[str, Any] = {"epoch": 0, "pe": 0, "isr": [1, 2, 3], "lead": 1, "hw": 0, "end": 0}
        role = "leader" if node == 1 else "follower"
        taken(recorder, node, role, p="t-0", pending=False, was=False, **told)
    written(recorder, 0, 2)
    return recorder


def test_a_broker_that_does_not_know_of_the_new_topic_yet_speaks_of_the_old_one() -> None:
    recorder = begun()
    created(recorder, "A")
    loaded(recorder, 1)
    written(recorder, 0, 64)
    removed(recorder, "A")
    created(recorder, "B")
    written(recorder, 64, 70)  # its metadata come later: this is the first topic's log
    loaded(recorder, 1)
    written(recorder, 0, 2)
    first, second = recorder.all
    assert [one.trace.subject for one in recorder.all] == ["t:0", "t:0#2"]
    assert len(list(first.trace.events("x"))) == 64
    assert len(list(second.trace.events("x"))) == 2
    assert second.no_step["of the topic's earlier life"] == 1


def test_a_controller_that_starts_again_reads_of_earlier_lives_and_ends_none() -> None:
    recorder = begun()
    created(recorder, "A")
    removed(recorder, "A")
    created(recorder, "B")
    loaded(recorder, 1)
    changed: dict[str, Any] = {"lead": 2, "epoch": 1, "pe": 1, "isr": [2, 3], "elr": []}
    taken(recorder, CONTROLLER, "start", counts=True)
    created(recorder, "A")
    taken(recorder, CONTROLLER, "changed", p="t-0", id="A", replicas=[1, 2, 3], **changed)
    removed(recorder, "A")
    created(recorder, "B")
    written(recorder, 0, 2)
    _, second = recorder.all
    assert [event.action for event in second.trace.events("x")] == ["Write", "Write"]
    assert recorder.unjudged == {}


def test_a_partition_epoch_that_no_line_tells_of_may_have_cleared_the_elr() -> None:
    for elr, inferred in (([2], 1), ([], 0)):
        recorder = begun()
        created(recorder, "A")
        loaded(recorder, 1)
        change: dict[str, Any] = {"lead": 1, "epoch": 0, "pe": 1, "isr": [1], "elr": elr}
        taken(recorder, CONTROLLER, "changed", p="t-0", id="A", replicas=[1, 2, 3], **change)
        told: dict[str, Any] = {"epoch": 0, "pe": 2, "isr": [1], "lead": 1}
        more: dict[str, Any] = {"pending": False, "was": False, "hw": 0, "end": 0}
        taken(recorder, 1, "leader", p="t-0", **told, **more)
        (one,) = recorder.all
        assert one.inferred["a partition epoch whose change cleared the ELR"] == inferred
        actions = [event.action for event in one.trace.events("x")]
        assert actions == ["Fence", "Fence", *["ChangeOther"] * inferred, "Told"]


def test_a_fetch_that_a_killed_follower_appended_has_set_its_high_watermark_as_well() -> None:
    recorder = led()
    taken(recorder, 1, "read", p="t-0", hw=1, end=2, **READ)
    taken(recorder, 2, "start", counts=True)
    taken(recorder, 2, "loaded", p="t-0", hw=0, end=2)  # it was killed before its line
    (one,) = recorder.all
    fetch = next(event for event in one.trace.events("x") if event.action == "Fetch")
    assert (fetch.params["n"], fetch.after["highWatermark"]) == (2, [0, 1, 0])
    assert one.inferred["a fetch that a killed follower appended"] == 1


def test_a_killed_process_is_the_one_that_counts_until_the_next_has_loaded_its_log() -> None:
    recorder = led()
    taken(recorder, CONTROLLER, "registered", b=2, be=7, inc="i")
    taken(recorder, 2, "start", counts=True)
    # The leader was paused, and reads now for what the killed process has asked.
    taken(recorder, 1, "read", p="t-0", hw=0, end=2, **READ)
    taken(recorder, 2, "loaded", p="t-0", hw=0, end=0)
    taken(recorder, 1, "read", p="t-0", hw=0, end=2, **READ)
    (one,) = recorder.all
    actions = [event.action for event in one.trace.events("x")]
    assert actions == ["Write", "Write", "FetchLost", "Restart", "LateFetch"]


@pytest.mark.parametrize(("kept", "before"), [(2, None), (1, 3)])
def test_promises_are_asked_up_to_the_loss_of_a_log(kept: int, before: int | None) -> None:
    recorder = led()
    taken(recorder, 1, "read", p="t-0", hw=0, end=2, **READ)
    taken(recorder, 1, "start", counts=True)
    taken(recorder, 1, "loaded", p="t-0", hw=0, end=kept)
    (one,) = recorder.all
    actions = [event.action for event in one.trace.events("x")]
    assert actions == ["Write", "Write", "FetchLost", "Restart"]
    assert one.before_loss() == before


@pytest.mark.parametrize("beside", ["heard", "write", "read"])
def test_a_high_watermark_that_moves_before_a_fetch_is_heard_moves_on_when_it_is(
    beside: str,
) -> None:
    """Two threads of the leader: one has read a fetch, the other one moves the high watermark."""
    recorder = led()
    taken(recorder, 1, "read", p="t-0", hw=0, end=2, **{**READ, "off": 2})
    taken(recorder, 1, "hw", p="t-0", old=0, hw=1, end=2)
    if beside == "write":
        written(recorder, 2, 3)
    elif beside == "read":
        taken(recorder, 1, "read", p="t-0", hw=1, end=2, **{**READ, "f": 3})
    for follower in (2, 3):
        taken(recorder, 1, "heard", p="t-0", f=follower, epoch=0, now=0)
    taken(recorder, 1, "hw", p="t-0", old=1, hw=2, end=2)
    taken(recorder, 1, "hw", p="t-0", old=2, hw=3, end=3)
    (one,) = recorder.all
    moves = [event for event in one.trace.events("x") if event.action == "AdvanceHighWatermark"]
    marks = [event.after["highWatermark"] for event in moves]
    assert marks == [[mark, 0, 0] for mark in ((1, 2, 3) if beside == "read" else (2, 3))]
    merged = one.inferred["a high watermark that moved before a fetch was heard"]
    assert merged == (beside != "read")


@pytest.mark.parametrize(("end", "asked", "waits"), [(1, 0, True), (1, 1, False), (2, 0, False)])
def test_a_high_watermark_waits_for_a_follower_that_is_not_asked_in(
    end: int, asked: bool, waits: bool
) -> None:
    """Broker 3 is out of the ISR, and the high watermark stops at its end before broker 2's."""
    recorder = led()
    smaller: dict[str, Any] = {"epoch": 0, "pe": 1, "isr": [1, 2], "lead": 1}
    taken(recorder, 1, "leader", p="t-0", hw=0, end=2, pending=False, was=False, **smaller)
    for follower, at in ((2, 2), (3, end)):
        read = {**READ, "f": follower, "off": at}
        taken(recorder, 1, "read", p="t-0", hw=0, end=2, **read)
    if asked:
        members = [[broker, 7] for broker in BROKERS]
        taken(recorder, 1, "asked", p="t-0", epoch=0, pe=1, members=members)
    taken(recorder, 1, "hw", p="t-0", old=0, hw=1, end=2)
    (one,) = recorder.all
    assert [*one.trace.events("x")][-1].action == (
        "WaitToJoin" if waits else "AdvanceHighWatermark"
    )


@pytest.mark.parametrize("beside", [False, True])
def test_a_high_watermark_may_be_computed_before_another_write(beside: bool) -> None:
    """Two threads write while nobody else is in the ISR: the first one's mark comes last."""
    recorder = led()
    alone: dict[str, Any] = {"epoch": 0, "pe": 1, "isr": [1], "lead": 1}
    taken(recorder, 1, "leader", p="t-0", hw=0, end=2, pending=False, was=False, **alone)
    written(recorder, 2, 3)
    if beside:
        taken(recorder, 1, "read", p="t-0", hw=0, end=3, **READ)
    taken(recorder, 1, "hw", p="t-0", old=0, hw=2, end=3)
    (one,) = recorder.all
    actions = [event.action for event in one.trace.events("x")]
    moves = ["Write", "FetchLost"] if beside else []
    assert actions[3:] == [*moves, "AdvanceHighWatermark", *["Write"] * (not beside)]
