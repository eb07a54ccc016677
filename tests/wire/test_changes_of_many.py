"""Requests that change many things: each is changed, and answered, as if it were alone.

Every run has a topic, group and transactional id of its own, so that runs can be compared.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, count
from typing import Any

import pytest
from attrs import frozen

from properties.mutants.edits import compiled, edited, function_at, patched, tree_of
from refimpl.edge.testing.blocking import BlockingCluster
from tests.wire.asking import TIMEOUT, Ask, batch, create, topic
from tests.wire.client import Client
from tests.wire.group_scripts import ids_of
from tests.wire.recording import NOT_YET
from tests.wire.share_scripts import ACCEPT, FIRST, LAST, earliest, heartbeat, share_fetch

#: Partitions of the topic of a run, each with as many records as its number and one; 7 is missing
PARTITIONS, MISSING = (0, 1, 2), 7
NUMBERS = (*PARTITIONS, MISSING)
NAMES = (f"run{number}" for number in count())
#: The answer about each partition; and of each partition, or thing of that number, what it is then
Seen = tuple[list[Any], list[Any]]


@frozen
class Change:
    """A request about some partitions: the answer for each of them, and the state behind it."""

    name: str
    made: Callable[[Ask, str, Sequence[int]], Seen]
    #: The partitions; a transaction with one that is missing takes none, as in Kafka
    numbers: Sequence[int] = NUMBERS
    #: True if nothing is done, as in Kafka, about what is named twice
    refuses_twice: bool = False

    def seen(self, ask: Ask, numbers: Sequence[int]) -> Seen:
        """The answers and states of a run, without its name."""
        name = next(NAMES)
        answers, states = self.made(ask, name, numbers)
        return sorted(str(one).replace(name, "run") for one in answers), states


def errors(answer: Any) -> set[str]:
    """All names of errors in an answer."""
    match answer:
        case {"error_code": str(error), **rest}:
            return {error} | errors(list[Any](rest.values()))
        case {**rest}:
            return errors(list[Any](rest.values()))
        case [*rest]:
            return set[str]().union(*map(errors, rest))
        case _:
            return set()


def ready(asked: Callable[[], Any]) -> Any:
    """The first answer in which nothing is loading, and no transaction is ending."""
    while errors(answer := asked()) & {*NOT_YET, "UNSTABLE_OFFSET_COMMIT"}:
        pass
    return answer


def filled(ask: Ask, name: str) -> None:
    """The topic of a run; partition n has n + 1 records."""
    create(ask, topic(name, len(PARTITIONS)))
    answer = write(ask, name, PARTITIONS)
    assert errors(answer) == {"NONE"}


def write(ask: Ask, name: str, numbers: Sequence[int]) -> Any:
    data = [{"index": number, "records": batch(number + 1)} for number in numbers]
    topics = [{"name": name, "partition_data": data}]
    return ask("Produce", 9, topic_data=topics, acks=-1, timeout=TIMEOUT)


def ends(ask: Ask, name: str, timestamp: int = -1) -> list[Any]:
    """The last offsets of the topic's partitions, or the first ones."""
    one = {"current_leader_epoch": -1, "timestamp": timestamp}
    partitions = [{"partition_index": number, **one} for number in PARTITIONS]
    topics = [{"name": name, "partitions": partitions}]
    (found,) = ask("ListOffsets", 7, topics=topics, replica_id=-1)["topics"]
    return [part["offset"] for part in found["partitions"]]


def produced(ask: Ask, name: str, numbers: Sequence[int]) -> Seen:
    create(ask, topic(name, len(PARTITIONS)))
    (answer,) = write(ask, name, numbers)["responses"]
    return answer["partition_responses"], ends(ask, name)


def deleted(ask: Ask, name: str, numbers: Sequence[int]) -> Seen:
    filled(ask, name)
    partitions = [{"partition_index": number, "offset": number + 1} for number in numbers]
    topics = [{"name": name, "partitions": partitions}]
    (answer,) = ask("DeleteRecords", 2, topics=topics, timeout=TIMEOUT)["topics"]
    return answer["partitions"], ends(ask, name, -2)


def fetched(ask: Ask, name: str, numbers: Sequence[int]) -> Seen:
    filled(ask, name)
    one = {"current_leader_epoch": -1, "fetch_offset": 0, "log_start_offset": -1}
    most = {"partition_max_bytes": 1 << 20}
    partitions = [{"partition": number, **one, **most} for number in numbers]
    answer = ask(
        *("Fetch", 12),
        replica_id=-1,
        max_wait=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": name, "partitions": partitions}],
        forgotten_topics_data=[],
        rack_id="",
    )
    (found,) = answer["responses"]
    return found["partitions"], []


def offsets(ask: Ask, group: str, name: str) -> list[Any]:
    """The group's offsets in the topic, once none waits for the end of a transaction."""
    wanted = [{"name": name, "partition_indexes": PARTITIONS}]
    groups = [{"group_id": group, "topics": wanted}]
    (found,) = ready(lambda: ask("OffsetFetch", 8, groups=groups, require_stable=True))["groups"]
    (of,) = found["topics"]
    return [(part["committed_offset"], part["metadata"]) for part in of["partitions"]]


def to_commit(name: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
    one = {"committed_leader_epoch": -1}
    partitions = [
        {"partition_index": n, "committed_offset": n + 5, "committed_metadata": f"m{n}", **one}
        for n in numbers
    ]
    return [{"name": name, "partitions": partitions}]


def commit(ask: Ask, name: str, numbers: Sequence[int], group: str | None = None) -> list[Any]:
    """Commit offsets of a group, which has the topic's name if it has no other."""

    def asked() -> Any:
        ask("FindCoordinator", 4, key_type=0, coordinator_keys=[group or name])
        topics = to_commit(name, numbers)
        nobody = {"generation_id_or_member_epoch": -1, "member_id": ""}
        return ask("OffsetCommit", 8, group_id=group or name, **nobody, topics=topics)

    (answer,) = ready(asked)["topics"]
    return answer["partitions"]


def committed(ask: Ask, name: str, numbers: Sequence[int]) -> Seen:
    create(ask, topic(name, len(PARTITIONS)))
    return commit(ask, name, numbers), offsets(ask, name, name)


def offsets_deleted(ask: Ask, name: str, numbers: Sequence[int]) -> Seen:
    create(ask, topic(name, len(PARTITIONS)))
    commit(ask, name, PARTITIONS)
    topics = [{"name": name, "partitions": [{"partition_index": n} for n in numbers]}]
    (answer,) = ask("OffsetDelete", 0, group_id=name, topics=topics)["topics"]
    return answer["partitions"], offsets(ask, name, name)


def begun(ask: Ask, name: str) -> dict[str, Any]:
    """A producer with a transactional id."""

    def asked() -> Any:
        ask("FindCoordinator", 4, key_type=1, coordinator_keys=[name])
        return ask("InitProducerId", 4, transactional_id=name, transaction_timeout=60_000)

    of = ready(asked)
    at = {"producer_id": of["producer_id"], "producer_epoch": of["producer_epoch"]}
    return {"transactional_id": name, **at}


def offsets_in_transaction(ask: Ask, name: str, numbers: Sequence[int]) -> Seen:
    create(ask, topic(name, len(PARTITIONS)))
    commit(ask, name, (MISSING,))  # the coordinator of the group has loaded
    known = begun(ask, name)
    ready(lambda: ask("AddOffsetsToTxn", 3, **known, group_id=name))
    topics = to_commit(name, numbers)
    (answer,) = ready(lambda: ask("TxnOffsetCommit", 3, **known, group_id=name, topics=topics))[
        "topics"
    ]
    ready(lambda: ask("EndTxn", 3, **known, committed=True))
    return answer["partitions"], offsets(ask, name, name)


def added(ask: Ask, name: str, numbers: Sequence[int]) -> Seen:
    create(ask, topic(name, len(PARTITIONS)))
    known = begun(ask, name)
    asked = {**known, "topics": [{"name": name, "partitions": list(numbers)}]}
    of = {f"v3_and_below_{key}": value for key, value in asked.items()}
    answer = ready(lambda: ask("AddPartitionsToTxn", 3, **of))
    (found,) = answer["results_by_topic_v3_and_below"]
    (state,) = ask("DescribeTransactions", 0, transactional_ids=[name])["transaction_states"]
    parts = [number for one in state["topics"] for number in one["partitions"]]
    return found["results_by_partition"], [number in parts for number in PARTITIONS]


def share_offsets(ask: Ask, name: str) -> list[Any]:
    topics = [{"topic_name": name, "partitions": PARTITIONS}]
    groups = [{"group_id": name, "topics": topics}]
    (found,) = ready(lambda: ask("DescribeShareGroupOffsets", 0, groups=groups))["groups"]
    return [part["start_offset"] for of in found["topics"] for part in of["partitions"]]


def share_offsets_altered(ask: Ask, name: str, numbers: Sequence[int]) -> Seen:
    filled(ask, name)
    partitions = [{"partition_index": n, "start_offset": n + 1} for n in numbers]
    topics = [{"topic_name": name, "partitions": partitions}]

    def asked() -> Any:
        ask("FindCoordinator", 4, key_type=0, coordinator_keys=[name])
        return ask("AlterShareGroupOffsets", 0, group_id=name, topics=topics)

    (answer,) = ready(asked)["responses"]
    return answer["partitions"], share_offsets(ask, name)


def of_topic(ask: Ask, name: str, numbers: Sequence[int], *batches: Any) -> list[dict[str, Any]]:
    partitions = [{"partition_index": n, "acknowledgement_batches": batches} for n in numbers]
    return [{"topic_id": ids_of(ask, name)[name], "partitions": partitions}]


def acquired(ask: Ask, name: str, numbers: Sequence[int], wanted: set[int]) -> dict[int, Any]:
    """The records that a new session of the member gets, once all wanted partitions have some."""
    most = {"max_records": 100, "batch_size": 100, "max_wait": 500, "min_bytes": 1}
    found = dict[int, Any]()
    for epoch in count(FIRST):
        answer = share_fetch(ask, 1, epoch, of_topic(ask, name, numbers), group_id=name, **most)
        for part in (one for of in answer["responses"] for one in of["partitions"]):
            found[part["partition_index"]] = part["error_code"], part["acquired_records"]
        if wanted <= {number for number, (_, records) in found.items() if records}:
            return found
    raise AssertionError


def acknowledged(ask: Ask, name: str, numbers: Sequence[int], *batches: Any) -> dict[int, Any]:
    """End the session with this acknowledgement for each of the partitions."""
    told = {"group_id": name, "member_id": "me", "share_session_epoch": LAST}
    topics = of_topic(ask, name, numbers, *batches)
    answer = ask("ShareAcknowledge", 1, **told, topics=topics)
    parts = [part for of in answer["responses"] for part in of["partitions"]]
    return {part["partition_index"]: part["error_code"] for part in parts}


def shared(ask: Ask, name: str, numbers: Sequence[int]) -> Seen:
    """The records that a share group is given, the end of each first one, and those given then."""
    filled(ask, name)
    earliest(ask, name)
    ask("FindCoordinator", 4, key_type=0, coordinator_keys=[name])
    joined = ready(lambda: heartbeat(ask, name, subscribed_topic_names=[name]))
    while not joined["assignment"] or not joined["assignment"]["topic_partitions"]:
        joined = heartbeat(ask, name, epoch=joined["member_epoch"])
    there = set(numbers) & set(PARTITIONS)
    given = acquired(ask, name, numbers, there)
    accept = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [ACCEPT]}
    done = acknowledged(ask, name, numbers, accept)
    again = acquired(ask, name, numbers, there - {0})
    acknowledged(ask, name, ())
    left: list[Any] = [again[number][1] if number in again else [] for number in PARTITIONS]
    return [(number, given.get(number), done.get(number)) for number in numbers], left


def transactions_added(ask: Ask, name: str, numbers: Sequence[int]) -> Seen:
    """Several transactions in one request, as between brokers."""
    create(ask, topic(name, len(PARTITIONS)))
    known = {number: begun(ask, f"{name}-{number}") for number in PARTITIONS}
    more = {"verify_only": False}
    transactions = [
        {**known[number], **more, "topics": [{"name": name, "partitions": [number]}]}
        for number in numbers
    ]
    answer = ready(lambda: ask("AddPartitionsToTxn", 4, transactions=transactions))
    found = answer["results_by_transaction"]
    names = [f"{name}-{number}" for number in set(numbers)]
    states = ask("DescribeTransactions", 0, transactional_ids=names)["transaction_states"]
    parts = [number for one in states for of in one["topics"] for number in of["partitions"]]
    return [one["topic_results"] for one in found], [number in parts for number in PARTITIONS]


def described(ask: Ask, name: str) -> list[Any]:
    """The number of partitions of each topic of the run."""
    topics = [{"name": f"{name}-{number}"} for number in NUMBERS]
    answer = ask("Metadata", 9, topics=topics, allow_auto_topic_creation=False)
    counts = {one["name"]: len(one["partitions"]) for one in answer["topics"]}
    return [counts[one["name"]] for one in topics]


def topics_created(ask: Ask, name: str, numbers: Sequence[int]) -> Seen:
    of = [topic(f"{name}-{number}", number + 1) for number in numbers]
    return errors_of(create(ask, *of)["topics"], "name"), described(ask, name)


def topics_deleted(ask: Ask, name: str, numbers: Sequence[int]) -> Seen:
    topics_created(ask, name, PARTITIONS)
    topics = [{"name": f"{name}-{number}"} for number in numbers]
    answer = ask("DeleteTopics", 6, topics=topics, timeout=TIMEOUT)
    return errors_of(answer["responses"], "name"), described(ask, name)


def partitions_created(ask: Ask, name: str, numbers: Sequence[int]) -> Seen:
    topics_created(ask, name, PARTITIONS)
    topics = [{"name": f"{name}-{n}", "count": n + 3, "assignments": None} for n in numbers]
    more = {"timeout": TIMEOUT, "validate_only": False}
    answer = ask("CreatePartitions", 3, topics=topics, **more)
    return errors_of(answer["results"], "name"), described(ask, name)


def configured(ask: Ask, name: str, numbers: Sequence[int]) -> Seen:
    topics_created(ask, name, PARTITIONS)
    one = {"name": "retention.ms", "config_operation": 0}
    resources = [
        {
            "resource_type": 2,
            "resource_name": f"{name}-{number}",
            "configs": [{**one, "value": str(1000 + number)}],
        }
        for number in numbers
    ]
    asked = {"resources": resources, "validate_only": False}
    answer = ask("IncrementalAlterConfigs", 1, **asked)
    keys = [
        {
            "resource_type": 2,
            "resource_name": f"{name}-{number}",
            "configuration_keys": ["retention.ms"],
        }
        for number in PARTITIONS
    ]
    of = {"include_synonyms": False, "include_documentation": False}
    found = ask("DescribeConfigs", 4, resources=keys, **of)["results"]
    values = [one["value"] for of in found for one in of["configs"]]
    return errors_of(answer["responses"], "resource_name"), values


def groups_deleted(ask: Ask, name: str, numbers: Sequence[int]) -> Seen:
    create(ask, topic(name, len(PARTITIONS)))
    groups = {number: f"{name}-{number}" for number in NUMBERS}
    for number in PARTITIONS:
        assert errors(commit(ask, name, (0,), groups[number])) == {"NONE"}
    answer = ask("DeleteGroups", 2, groups_names=[groups[number] for number in numbers])
    left = [offsets(ask, groups[number], name)[0] for number in PARTITIONS]
    return errors_of(answer["results"], "group_id"), left


def errors_of(rows: list[Any], key: str) -> list[Any]:
    """The number at the end of each row's name, with its error."""
    return [(row[key].rpartition("-")[2], row["error_code"]) for row in rows]


CHANGES = [
    Change("Produce", produced),
    Change("Fetch", fetched),
    Change("DeleteRecords", deleted),
    Change("OffsetCommit", committed),
    Change("OffsetDelete", offsets_deleted),
    Change("TxnOffsetCommit", offsets_in_transaction),
    Change("AddPartitionsToTxn", added, PARTITIONS),
    Change("AddPartitionsToTxn of brokers", transactions_added, PARTITIONS),
    Change("AlterShareGroupOffsets", share_offsets_altered),
    Change("ShareFetch and ShareAcknowledge", shared),
    Change("CreateTopics", topics_created, refuses_twice=True),
    Change("DeleteTopics", topics_deleted, refuses_twice=True),
    Change("CreatePartitions", partitions_created, refuses_twice=True),
    Change("IncrementalAlterConfigs", configured, refuses_twice=True),
    Change("DeleteGroups", groups_deleted),
]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """One broker, whose share groups are assigned at once."""
    configs = {"group.share.assignment.interval.ms": "0"}
    with BlockingCluster(brokers=1, configs=configs) as cluster:
        first, _, _ = cluster.bootstrap.partition(",")
        with Client.connect(int(first.rpartition(":")[2])) as client:

            def asking(api: str, version: int, **values: Any) -> dict[str, Any]:
                return client.ask(api, version, values)

            yield asking


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_each_of_many_is_changed_as_if_it_were_alone(change: Change, ask: Ask) -> None:
    alone = {number: change.seen(ask, [number]) for number in change.numbers}
    pairs = combinations(change.numbers, 2)
    for chosen in (*pairs, change.numbers, change.numbers[::-1]):
        answers, states = change.seen(ask, chosen)
        assert answers == sorted(one for number in chosen for one in alone[number][0])
        assert states == states_of(alone, chosen)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_one_that_is_named_twice_is_changed_once_or_refused(change: Change, ask: Ask) -> None:
    alone = {number: change.seen(ask, [number]) for number in change.numbers}
    first, *others = change.numbers[1:]
    answers, states = change.seen(ask, [first, first, *others])
    expected = {one for number in others for one in alone[number][0]}
    assert expected <= set(answers)
    twice = [one for one in answers if one not in expected]
    if change.refuses_twice:
        assert all("INVALID_REQUEST" in one for one in twice)
        assert states == states_of(alone, others)
    else:
        assert twice in (alone[first][0], alone[first][0] * 2)
        assert states == states_of(alone, [first, *others])


def states_of(alone: Mapping[int, Seen], chosen: Sequence[int]) -> list[Any]:
    """The states behind a request about many: each is that behind a request about it, if any."""
    of = [alone[number][1] for number in alone]
    return [
        (of[at] if number in chosen else of[at - 1])[at]
        for at, number in enumerate(NUMBERS[: len(of[0])])
    ]


#: Bugs by which of many only the last counts, or the first, or the rest fares as the first does
BUGS = {
    "OffsetCommit": (
        "refimpl.groups.offsets:Offsets._records",
        "records.append(_record(now, request.group_id, one, retention_ms))",
        "records[:] = [_record(now, request.group_id, one, retention_ms)]",
    ),
    "TxnOffsetCommit": (
        "refimpl.groups.offsets:Offsets.commit_in_transaction",
        "[InTransaction(one, request.producer_id) for one in records]",
        "[InTransaction(one, request.producer_id) for one in records[:1]]",
    ),
    "ShareFetch and ShareAcknowledge": (
        "refimpl.api.shares:acknowledgements",
        "partitions.items()",
        "[*partitions.items()][-1:]",
    ),
    "CreatePartitions": (
        "refimpl.controller.administration:Administration.create_partitions",
        "self._create_partitions(wanted, quota, validate_only=body.validate_only)",
        "self._create_partitions(body.topics[0], quota, validate_only=body.validate_only)",
    ),
    "DeleteRecords": (
        "refimpl.api.delete_records:handle",
        "list(wanted.items())",
        "list(wanted.items())[-1:]",
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_about_many_is_seen(name: str, ask: Ask) -> None:
    path, old, new = BUGS[name]
    (change,) = [one for one in CHANGES if one.name == name]
    numbers = (1, 2)
    alone = {number: change.seen(ask, [number]) for number in change.numbers}
    function = function_at(path)
    with patched({function: compiled(function, edited(tree_of(function), old, new))}):
        answers, states = change.seen(ask, numbers)
    expected = sorted(one for number in numbers for one in alone[number][0])
    assert (answers, states) != (expected, states_of(alone, numbers))
