"""Operations of an administrator: elections, moves, partitions, topics, records, settings and
features."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

from chaos.real.campaign.effects import Effect
from chaos.real.campaign.plan import AGAIN, BROKERS, CONFIGURED, GROWN, KEPT, MOVED, Step, TopicPlan
from chaos.real.campaign.stage import ASKED_S, Stage
from chaos.real.campaign.transactions import EARLIEST, listed
from chaos.real.kafka.asking import ask

DELETE_RECORDS, ELECT_LEADERS, REASSIGN, UPDATE_FEATURES = 21, 43, 45, 57
UPGRADE, SAFE_DOWNGRADE = 1, 2
PREFERRED, HIGH_WATERMARK = 0, -1
CALL_S = 10
PATIENCE_S = 30.0
IDLE_S = 20.0
CONFIGURATIONS: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "min_isr": ("min.insync.replicas", ("1", "3", "1"), "2"),
    "retention": ("retention.ms", ("1000",), "604800000"),
    "cleanup": ("cleanup.policy", ("compact",), "delete"),
    "unclean": ("unclean.leader.election.enable", ("true",), "false"),
}
#: A feature's levels for a while, and the one before and after.
FEATURES: Mapping[str, tuple[tuple[int, ...], int]] = {
    "transaction.version": ((1, 0), 2),
    "eligible.leader.replicas.version": ((0,), 1),
}


def elect(stage: Stage, step: Step) -> Effect:
    """Preferred replicas lead again, wherever they are in sync and do not."""
    if not stage.until(IDLE_S, lambda: bool(_unpreferred(stage))):
        return Effect.none("preferred replicas led everywhere, or were not in sync")
    chosen = _unpreferred(stage)
    topics = [
        {"topic": topic, "partitions": [number for t, number in chosen if t == topic]}
        for topic in sorted({topic for topic, _ in chosen})
    ]
    asked = {"election_type": PREFERRED, "topic_partitions": topics, "timeout": 5_000}
    if (answer := _asked(stage, ELECT_LEADERS, 1, asked)) is None:
        return Effect.none("no broker answered")
    results = [one for topic in answer.replica_election_results for one in topic.partition_result]
    moved = sum(not one.error_code for one in results)
    codes = (answer.error_code, *(one.error_code for one in results))
    refused = sorted({code.name for code in codes if code})
    return Effect(moved, f"refused: {', '.join(refused)}" * (not moved))


def reassign(stage: Stage, step: Step) -> Effect:
    """One of two replicas moves to the broker that has none."""
    if (before := stage.replicas(MOVED).get(step.partition)) is None:
        return Effect.none("no broker answered")
    (new,) = [one for one in BROKERS if one not in before.replicas][:1] or [0]
    if not new or len(before.replicas) != 2:
        return Effect.none("another move is under way")
    wanted = [new, before.replicas[step.value % 2]]
    partition = {"partition_index": step.partition, "replicas": wanted}
    asked = {"timeout": 5_000, "topics": [{"name": MOVED, "partitions": [partition]}]}
    if (answer := _asked(stage, REASSIGN, 0, asked)) is None:
        return Effect.none("no broker answered")
    (result,) = [one for topic in answer.responses for one in topic.partitions]
    if result.error_code:
        return Effect.none(f"refused: {result.error_code.name}")
    there = stage.until(PATIENCE_S, lambda: _is(stage, step.partition, wanted))
    late = f"not moved within {PATIENCE_S:.0f} s"
    return Effect(int(there), late * (not there), f"{MOVED}:{step.partition} to {wanted}")


def add_partition(stage: Stage, step: Step) -> Effect:
    """One partition more."""
    count = len(stage.replicas(GROWN))
    if not count:
        return Effect.none("no broker answered")
    kind: Any = import_module("confluent_kafka.admin").NewPartitions
    refused = _call(lambda: stage.admin.create_partitions([kind(GROWN, count + 1)])[GROWN])
    there = stage.until(PATIENCE_S, lambda: len(stage.replicas(GROWN)) > count)
    return Effect(int(there), refused or "not there", f"{GROWN} has {count + there}")


def recreate(stage: Stage, step: Step) -> Effect:
    """A topic is written to and deleted; another one has its name."""
    there = stage.clients.writes_once(AGAIN, f"again-{step.at_ms}")
    refused = _call(lambda: stage.unrecorded.delete_topics([AGAIN])[AGAIN])
    if not stage.until(PATIENCE_S, lambda: not stage.replicas(AGAIN)):
        return Effect.none(refused or "it was not deleted")
    again = stage.until(PATIENCE_S, lambda: made(stage, AGAIN, stage.plan.topics[AGAIN]))
    return Effect(1, "" if again else "it was not made again", f"{there} records were in it")


def delete_records(stage: Stage, step: Step) -> Effect:
    """Delete all that is below the high watermark now."""
    leader = stage.replicas(KEPT).get(step.partition)
    if leader is None or leader.leader not in BROKERS:
        return Effect.none("nobody led it")
    port = stage.target.ports[leader.leader]
    below = [{"partition_index": step.partition, "offset": HIGH_WATERMARK}]
    topics = [{"name": KEPT, "partitions": below}]
    try:
        start = listed(port, KEPT, step.partition, EARLIEST)
        done = ask(port, DELETE_RECORDS, 1, {"timeout": 5_000, "topics": topics}, CALL_S)
    except OSError as gone:
        return Effect.none(f"its leader did not answer: {gone}")
    (result,) = [one for topic in done.topics for one in topic.partitions]
    if result.error_code:
        return Effect.none(f"refused: {result.error_code.name}")
    deleted = max(0, result.low_watermark - start)
    return Effect(deleted, "there was none" * (not deleted), f"below {result.low_watermark}")


def configure(stage: Stage, step: Step) -> Effect:
    """A setting of a topic changes for a while."""
    name, values, usual = CONFIGURATIONS[step.how]
    value = values[step.value % len(values)]
    return _for_a_while(stage, step, (name, value, usual), lambda to: _configured(stage, name, to))


def feature(stage: Stage, step: Step) -> Effect:
    """A feature is downgraded for a while, as kafka-features.sh does."""
    name, (lower, usual) = step.how, FEATURES[step.how]
    level = lower[step.value % len(lower)]
    return _for_a_while(stage, step, (name, level, usual), lambda to: _leveled(stage, name, to))


V = TypeVar("V", int, str)


def _for_a_while(
    stage: Stage, step: Step, change: tuple[str, V, V], ask_for: Callable[[V], str]
) -> Effect:
    """Something has another value for a while, and then its usual one again.

    `ask_for` asks for a value, and answers why it is refused; it is asked until it is not.
    """
    name, value, usual = change

    def asked_for(wanted: V) -> str:
        refused = ["not asked"]

        def ask() -> bool:
            refused[0] = ask_for(wanted)
            return not refused[0]

        stage.until(PATIENCE_S, ask)
        return refused[0]

    refused = asked_for(value)
    try:
        stage.wait(step.for_ms)
    finally:
        again = asked_for(usual)
    about = f"{name}={value}, then {usual}"
    return Effect(int(not refused), refused, f"{about}{f'; not set back: {again}' * bool(again)}")


def made(stage: Stage, name: str, topic: TopicPlan) -> bool:
    """Make a topic, unless it is there."""
    if stage.replicas(name):
        return True
    kind: Any = import_module("confluent_kafka.admin").NewTopic
    new = kind(name, topic.partitions, topic.replicas, config=dict(topic.configs))
    admin = stage.unrecorded if name == AGAIN else stage.admin
    _call(lambda: admin.create_topics([new], request_timeout=CALL_S)[name])
    return bool(stage.replicas(name))


def _configured(stage: Stage, name: str, value: str) -> str:
    """Set it once; why it is refused, or nothing."""
    library: Any = import_module("confluent_kafka.admin")
    how = library.AlterConfigOpType.SET
    entry = library.ConfigEntry(name, value, incremental_operation=how)
    kind = library.ResourceType.TOPIC
    resource = library.ConfigResource(kind, CONFIGURED, incremental_configs=[entry])
    return _call(lambda: stage.admin.incremental_alter_configs([resource])[resource])


def _leveled(stage: Stage, name: str, level: int) -> str:
    """Set a feature's level once; why it is refused, or nothing."""
    kind = UPGRADE if level == FEATURES[name][1] else SAFE_DOWNGRADE
    update = {"feature": name, "max_version_level": level, "upgrade_type": kind}
    asked = {"timeout": 5_000, "feature_updates": [update], "validate_only": False}
    if (answer := _asked(stage, UPDATE_FEATURES, 1, asked)) is None:
        return "no broker answered"
    codes = (answer.error_code, *(one.error_code for one in answer.results))
    return ", ".join(sorted({code.name for code in codes if code}))


def _call(ask_for: Any) -> str:
    """The reason why an administrator's call failed; empty if it did not."""
    library: Any = import_module("confluent_kafka")
    try:
        ask_for().result(CALL_S)
    except (library.KafkaException, TimeoutError) as failure:
        return str(failure) or "no answer"
    return ""


def _asked(stage: Stage, key: int, version: int, values: Mapping[str, Any]) -> Any:
    """The answer of the first broker that gives one; None if none does."""
    for node in BROKERS:
        if stage.target.running(node) and stage.target.ports:
            try:
                ask(stage.target.ports[node], 18, 0, {}, ASKED_S)  # a paused one is passed over
                return ask(stage.target.ports[node], key, version, values, CALL_S)
            except OSError:
                continue
    return None


def _unpreferred(stage: Stage) -> list[tuple[str, int]]:
    return [
        (topic, number)
        for topic in stage.plan.topics
        for number, one in stage.replicas(topic).items()
        if one.leader not in (-1, one.replicas[0]) and one.replicas[0] in one.isr
    ]


def _is(stage: Stage, partition: int, wanted: list[int]) -> bool:
    found = stage.replicas(MOVED).get(partition)
    return found is not None and sorted(found.replicas) == sorted(wanted)
