"""Operations on consumer groups and by their members."""

import time
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import TopicPartition

from tests.kafka.everyday.administrator import GROUPS, NOTHING, Administrator
from tests.kafka.everyday.catalogue import operation
from tests.kafka.everyday.clients import Clients, ask, first, read, send
from tests.kafka.everyday.waiting import until

PROTOCOLS = ("classic", "consumer")


@operation("consumer group renamed")
def group_renamed(admin: Administrator, clients: Clients) -> str:
    """A member of the old group reads and commits half; the same client comes back under another
    group, begins at the earliest offset, and reads all."""
    topic = "group-renamed"
    admin.create(topic)
    producer = clients.producer()
    send(producer, topic, 20)
    with clients.consumer("billing", topic) as member:
        read(member, 10)
    with clients.consumer("billing-eu", topic) as member:
        got = read(member, 20)
        assert ask(member) == [20]
    assert got[0].offset() == 0
    send(producer, topic, 5, 20)
    producer.close()
    return f"billing at {admin.committed('billing', topic)}, billing-eu read from 0"


@operation("consumer group deleted and made again", allowed="G9")
def group_deleted(admin: Administrator, clients: Clients) -> str:
    """kafka-consumer-groups --delete, once the group is empty; then a member comes back, in both
    protocols."""
    topic = "group-deleted"
    admin.create(topic)
    producer = clients.producer()
    send(producer, topic, 10)
    for protocol in PROTOCOLS:
        group, more = f"{topic}-{protocol}", {"group_protocol": protocol}
        for _ in range(2):
            with clients.consumer(group, topic, name=protocol, **more) as member:
                got = read(member, 10)
                assert got[0].offset() == 0
                assert ask(member) == [10]
            admin.empty(group)
            admin.out(GROUPS, "--delete", "--group", group)
            assert admin.committed(group, topic) == NOTHING
    producer.close()
    return "deleted twice in each protocol; each time it had no offset, and all was read again"


@operation("offsets reset while the group is down, backwards", allowed="G9", undecided="G7")
def offsets_reset_back(admin: Administrator, clients: Clients) -> str:
    """kafka-consumer-groups --reset-offsets --shift-by -6, between two members, in both
    protocols."""
    topic = "offsets-reset-back"
    admin.create(topic)
    producer = clients.producer()
    send(producer, topic, 20)
    for protocol in PROTOCOLS:
        group, more = f"{topic}-{protocol}", {"group_protocol": protocol}
        with clients.consumer(group, topic, name=protocol, **more) as member:
            read(member, 20)
        admin.reset(group, topic, "--shift-by", "-6")
        assert admin.committed(group, topic) == 14
        with clients.consumer(group, topic, name=protocol, **more) as member:
            got = read(member, 6, commit=False)
            assert ask(member) == [14]
            member.commit(asynchronous=False)
        assert got[0].offset() == 14
    producer.close()
    return "offsets 14 to 19 were read twice by both groups"


@operation("offsets reset while the group is down, to the latest", undecided="G7 G8 G10")
def offsets_reset_latest(admin: Administrator, clients: Clients) -> str:
    """A group commits 5 of 20; kafka-consumer-groups --reset-offsets --to-latest; the next member
    is asked what is committed, and reads what comes then. In both protocols."""
    topic = "offsets-reset-latest"
    admin.create(topic)
    producer = clients.producer()
    sent = 0
    for protocol in PROTOCOLS:
        send(producer, topic, 20, sent)
        sent += 20
        group, more = f"{topic}-{protocol}", {"group_protocol": protocol}
        with clients.consumer(group, topic, name=protocol, **more) as member:
            read(member, 5, commit=False)
            member.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
        admin.reset(group, topic, "--to-latest")
        assert admin.committed(group, topic) == sent
        send(producer, topic, 5, sent)
        with clients.consumer(group, topic, name=protocol, **more) as member:
            last = read(member, 5, commit=False)
            assert ask(member) == [sent]
            member.commit(asynchronous=False)
        assert last[0].offset() == sent
        sent += 5
    producer.close()
    return "each group went from 5 to the end"


@operation("offsets reset to a time, while the group is down", allowed="G9")
def offsets_reset_datetime(admin: Administrator, clients: Clients) -> str:
    """kafka-consumer-groups --reset-offsets --to-datetime, a time between two bursts."""
    topic = "offsets-reset-datetime"
    admin.create(topic)
    producer = clients.producer()
    send(producer, topic, 10)
    time.sleep(1.1)
    between = time.time() - 0.5
    send(producer, topic, 10, 10)
    with clients.consumer(topic, topic) as member:
        read(member, 20)
    when = datetime.fromtimestamp(between, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    admin.reset(topic, topic, "--to-datetime", when)
    assert admin.committed(topic, topic) == 10
    with clients.consumer(topic, topic) as member:
        again = read(member, 10)
    producer.close()
    return f"reset to {when}: read again from {again[0].offset()}"


@operation("offsets deleted", allowed="G9", undecided="G7")
def offsets_deleted(admin: Administrator, clients: Clients) -> str:
    """kafka-consumer-groups --delete-offsets of an empty group; the next member begins anew."""
    topic = "offsets-deleted"
    admin.create(topic, 2)
    producer = clients.producer()
    send(producer, topic, 20)
    for protocol in PROTOCOLS:
        group, more = f"{topic}-{protocol}", {"group_protocol": protocol}
        with clients.consumer(group, topic, name=protocol, **more) as member:
            read(member, 20)
        admin.empty(group)
        admin.out(GROUPS, "--delete-offsets", "--group", group, "--topic", topic)
        assert admin.committed(group, topic) == NOTHING
        with clients.consumer(group, topic, name=protocol, **more) as member:
            message = first(member)
            ask(member)
            member.processed(message)
            read(member, 19)
    producer.close()
    return "no offset was committed; all 20 were read again by both groups"


@operation("a consumer seeks past a poison record")
def poison_record(admin: Administrator, clients: Clients) -> str:
    """The application cannot process offset 5: it seeks to 6, goes on, and commits."""
    topic = "poison-record"
    admin.create(topic)
    producer = clients.producer()
    send(producer, topic, 20)
    for protocol in PROTOCOLS:
        group, more = f"{topic}-{protocol}", {"group_protocol": protocol}
        with clients.consumer(group, topic, name=protocol, **more) as member:
            done: list[int] = []
            while len(done) < 19:
                message = member.poll(0.3)
                if message is None or message.error():
                    continue
                if message.offset() == 5:
                    member.seek(TopicPartition(topic, 0, 6))
                    continue
                with member.process(message):
                    done.append(message.offset())
            assert 5 not in done
            member.commit(asynchronous=False)
    producer.close()
    return "offset 5 was never processed, and 20 committed"


@operation("a poison record is passed without a seek")
def poison_skipped(admin: Administrator, clients: Clients) -> str:
    """The application sends the record to a dead-letter topic, and commits its offset."""
    topic, dead = "poison-skipped", "poison-skipped-dead"
    admin.create(topic)
    admin.create(dead)
    producer = clients.producer()
    send(producer, topic, 10)
    with clients.consumer(topic, topic) as member:
        seen = 0
        while seen < 10:
            message = member.poll(0.3)
            if message is None or message.error():
                continue
            seen += 1
            if message.offset() == 5:
                producer.produce(dead, message.value(), headers=message.headers())
                assert producer.flush(30) == 0
                member.processed(message)
                continue
            with member.process(message):
                pass
        member.commit(asynchronous=False)
    producer.close()
    return f"the dead-letter topic ends at {admin.watermarks(dead)[1]}"


@operation("a static member restarts")
def static_member(admin: Administrator, clients: Clients) -> str:
    """Two members with group.instance.id; one closes and comes back within its session, in both
    protocols; then the client of a machine that is gone, whose successor takes its place."""
    topic = "static-member"
    admin.create(topic, 4)
    producer = clients.producer()
    sent = 0
    for protocol in PROTOCOLS:
        group, more = f"{topic}-{protocol}", {"group_protocol": protocol}
        send(producer, topic, 40, sent)
        one = clients.consumer(group, topic, name=f"{protocol}-a", group_instance_id="a", **more)
        two = clients.consumer(group, topic, name=f"{protocol}-b", group_instance_id="b", **more)
        _share([one, two], sent + 40, group, admin, topic, 4)
        before = sorted(p.partition for p in one.assignment())
        one.close()
        sent += 40
        send(producer, topic, 40, sent)
        one = clients.consumer(group, topic, name=f"{protocol}-a", group_instance_id="a", **more)
        _share([one, two], sent + 40, group, admin, topic, 4)
        assert sorted(p.partition for p in one.assignment()) == before
        sent += 40
        one.close()
        two.close()
    producer.close()
    return "the member came back to the partitions that it had"


@operation("an application is rolled from the classic protocol to KIP-848", undecided="G3 G4")
def rolled_to_kip848(admin: Administrator, clients: Clients) -> str:
    """Two classic members; one, then the other, stops and comes back with group.protocol=consumer,
    while records come in; then back again."""
    topic = "rolled-to-kip848"
    admin.create(topic, 4)
    producer = clients.producer()
    told: list[str] = []
    members = {n: clients.consumer(topic, topic, name=n) for n in "ab"}
    sent = 0
    for protocol in ("classic", "consumer", "classic"):
        for name in "ab":
            if told:
                members[name].close()
                more = {"group_protocol": protocol}
                members[name] = clients.consumer(topic, topic, name=name, **more)
            send(producer, topic, 20, sent)
            sent += 20
            _share([*members.values()], sent, topic, admin, topic, 4)
        told.append(admin.protocol(topic))
    for member in members.values():
        member.close()
    producer.close()
    assert told == ["CLASSIC", "CONSUMER", "CLASSIC"], told
    return f"the group was {', then '.join(told).lower()}"


@operation("the assignor is changed, member by member")
def assignor_changed(admin: Administrator, clients: Clients) -> str:
    """Two members with range, rolled to range and cooperative-sticky offered... in two bounces, as
    KIP-429 tells."""
    topic = "assignor-changed"
    admin.create(topic, 4)
    producer = clients.producer()
    steps = ("range", "roundrobin,range", "roundrobin")
    members: dict[str, Any] = {}
    sent = 0
    for step in steps:
        for name in "ab":
            if name in members:
                members[name].close()
            more = {"partition_assignment_strategy": step}
            members[name] = clients.consumer(topic, topic, name=name, **more)
        send(producer, topic, 20, sent)
        sent += 20
        _share([*members.values()], sent, topic, admin, topic, 4)
    for member in members.values():
        member.close()
    producer.close()
    return f"range to roundrobin in {len(steps) - 1} bounces"


@operation("a client that is not recorded, beside recorded ones", undecided="G7")
def unrecorded_client(admin: Administrator, clients: Clients) -> str:
    """A producer that nobody records writes into the topic, and a member that nobody records joins
    the group, reads and commits half of it, in both protocols."""
    topic = "unrecorded-client"
    admin.create(topic, 2)
    producer, other = clients.producer(), admin.quiet_producer()
    sent = 0
    for protocol in PROTOCOLS:
        group = f"{topic}-{protocol}"
        members = [
            clients.consumer(group, topic, name=protocol, group_protocol=protocol),
            admin.quiet_consumer(group, group_protocol=protocol),
        ]
        members[1].subscribe([topic])
        for _ in range(2):
            send(producer, topic, 20, sent)
            send(other, topic, 20, sent + 20)
            sent += 40
            _share(members, sent, group, admin, topic, 2)
        members[0].close()
        send(other, topic, 20, sent)
        sent += 20
        _share(members[1:], sent, group, admin, topic, 2)
        members[1].close()
        with clients.consumer(group, topic, name=protocol, group_protocol=protocol) as member:
            send(producer, topic, 20, sent)
            sent += 20
            read(member, 20, commit=False)
            ask(member)
            member.commit(asynchronous=False)
    producer.close()
    return f"{sent} records, half of them and half of the commits by nobody who is recorded"


def _share(
    members: list[Any], total: int, group: str, admin: Administrator, topic: str, partitions: int
) -> None:
    """The members read and commit, until everything is committed and each owns something."""

    def done() -> bool:
        for member in members:
            messages = [m for m in member.consume(50, 0.2) if m.error() is None]
            if messages:
                if hasattr(member, "recorded_as"):
                    with member.process(*messages):
                        pass
                member.commit(asynchronous=False)
        if not all(member.assignment() for member in members):
            return False
        offsets = [admin.committed(group, topic, number) for number in range(partitions)]
        return sum(max(0, offset) for offset in offsets) == total

    until("all to be committed", done)


@operation("a member is away for longer than max.poll.interval.ms", allowed="G9")
def slow_member(admin: Administrator, clients: Clients) -> str:
    """A member sleeps while it processes; the other takes its partitions; it comes back."""
    topic = "slow-member"
    admin.create(topic, 2)
    producer = clients.producer()
    more = {"max_poll_interval_ms": 6000, "session_timeout_ms": 6000}
    one = clients.consumer(topic, topic, name="a", **more)
    two = clients.consumer(topic, topic, name="b", **more)
    until("both to own", lambda: all([_owned(one) == 1, _owned(two) == 1]))
    send(producer, topic, 40)
    message = first(one)
    refused: list[str] = []
    with one.process(message):
        until("the other to own both", lambda: _goes_on(two) == 2)
    try:
        one.commit(message, asynchronous=False)
    except Exception as refusal:
        refused.append(refusal.args[0].name())
    send(producer, topic, 20, 40)
    members = (one, two)

    def done() -> bool:
        for member in members:
            messages = [m for m in member.consume(50, 0.2) if m.error() is None]
            if messages:
                with member.process(*messages):
                    pass
                try:
                    member.commit(asynchronous=False)
                except Exception as refusal:
                    refused.append(refusal.args[0].name())
        if not all(member.assignment() for member in members):
            return False
        offsets = [admin.committed(topic, topic, number) for number in range(2)]
        return sum(max(0, offset) for offset in offsets) == 60

    until("all to be committed", done)
    one.close()
    two.close()
    producer.close()
    assert refused
    return f"its commit was refused: {refused[0]}"


def _goes_on(member: Any) -> int:
    """Read and process; how many partitions the member has."""
    messages = [m for m in member.consume(50, 0.2) if m.error() is None]
    if messages:
        with member.process(*messages):
            pass
    return len(member.assignment())


def _owned(member: Any) -> int:
    """The number of partitions of a member that reads nothing."""
    message = member.poll(0.2)
    assert message is None
    return len(member.assignment())
