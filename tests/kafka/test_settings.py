"""Our tables of configurations beside Kafka's own definitions, and what both make of values."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.real.kafka.judge import Judge
from refimpl.configs import (
    BROKER,
    BROKER_NAME,
    CONSUMER,
    GROUP,
    GROUP_NAME,
    PRODUCER,
    QUOTA,
    TOPIC,
    ConfigError,
    Definition,
    Type,
    show,
)
from refimpl.configs.synonyms import CHAIN

# Of Kafka before 4.0; asked of no Kafka that we run.
OF_ZOOKEEPER = "zookeeper."
# Features of Kafka's, which it finalizes without a setting.
FEATURES = ("transaction.version", "share.version")
# Of Kafka's selectors only this one is here.
OURS_ALONE = "replica.selector.class"
# Checks of classes, locales and prefixes that have no effect here.
DESCRIBED_IN_WORDS = ("non-",)
SAMPLES = ("", " ", "0", "-1", "-2", "1", "+7", " 5 ", "08", "1.5", "1e3", "x", "true", "TRUE")
LISTS = ("a", "a,b", "a,a", "delete,compact", "compact , delete", "delete,", "*", "0:1,2:3", "0:x")


@pytest.fixture(scope="module")
def kafka(judge: Judge) -> dict[str, dict[str, Any]]:
    answer = judge.run("Settings")
    assert answer.status == 0, answer.complaints
    return json.loads(answer.out)


def as_kafka_says(one: Definition) -> dict[str, Any]:
    valid = str(one.valid) if type(one.valid).__name__ != "function" else ""
    return {"type": one.type.name, "default": show(one.default), "valid": valid}


def as_we_say(of: dict[str, Any]) -> dict[str, Any]:
    in_words = of["valid"].startswith((*DESCRIBED_IN_WORDS, "[partitionId]"))
    return {key: of[key] for key in ("type", "default")} | {
        "valid": "" if in_words else of["valid"]
    }


def test_the_tables_are_those_of_kafka(kafka: dict[str, dict[str, Any]]) -> None:
    ours = {name: one for name, one in BROKER.items() if not name.startswith(OF_ZOOKEEPER)}
    for name in FEATURES:
        del ours[name]
    theirs = kafka["broker"] | kafka["brokerQuotas"]
    assert ours.pop(OURS_ALONE).default == theirs.pop(OURS_ALONE)["default"]
    assert {n: as_kafka_says(o) for n, o in ours.items()} == {
        n: as_we_say(o) for n, o in theirs.items()
    }
    assert {n: as_kafka_says(o) for n, o in TOPIC.items()} == {
        n: as_we_say(o) for n, o in kafka["topic"].items()
    }
    # Of the reset of share groups Kafka has a check without a description.
    reset = kafka["group"]["share.auto.offset.reset"]
    groups = {**kafka["group"], "share.auto.offset.reset": {**reset, "valid": ""}}
    assert {n: as_kafka_says(o) for n, o in GROUP.items()} == {
        n: as_we_say(o) for n, o in groups.items()
    }
    assert {n: as_kafka_says(o) for n, o in QUOTA.items()} == {
        n: as_we_say(o) for n, o in (kafka["clientQuotas"] | kafka["ipQuotas"]).items()
    }


def test_the_settings_of_a_producer_are_those_of_kafka(kafka: dict[str, dict[str, Any]]) -> None:
    theirs = {n: as_we_say(o) for n, o in kafka["producer"].items() if n in PRODUCER}
    # Required there, and without a default; the reporter of metrics is a class of Java's.
    for name in ("bootstrap.servers", "key.serializer", "value.serializer", "metric.reporters"):
        theirs[name]["default"] = show(PRODUCER[name].default)
    assert {n: as_kafka_says(o) for n, o in PRODUCER.items()} == theirs
    missing = {n for n in kafka["producer"] if n not in PRODUCER}
    assert {n.partition(".")[0] for n in missing} == {
        *("config", "transaction", "transactional"),
    }


def test_the_settings_of_a_consumer_are_those_of_kafka(kafka: dict[str, dict[str, Any]]) -> None:
    theirs = {n: as_we_say(o) for n, o in kafka["consumer"].items() if n in CONSUMER}
    # Required there, and without a default; assignors and the reporter are classes there.
    for name in ("bootstrap.servers", "key.deserializer", "value.deserializer", "metric.reporters"):
        theirs[name]["default"] = show(CONSUMER[name].default)
    assignors = theirs["partition.assignment.strategy"]["default"]
    assert [one.rpartition(".")[2] for one in assignors.split(",")] == [
        *("RangeAssignor", "CooperativeStickyAssignor"),
    ]
    theirs["partition.assignment.strategy"]["default"] = "range,cooperative-sticky"
    # Checks that are functions here, or have no effect.
    theirs["auto.offset.reset"]["valid"] = ""
    theirs["group.instance.id"]["valid"] = ""
    assert {n: as_kafka_says(o) for n, o in CONSUMER.items()} == theirs
    missing = {n for n in kafka["consumer"] if n not in CONSUMER}
    assert {n.partition(".")[0] for n in missing} == {
        *("config", "internal", "share"),
    }


def test_what_may_change_without_a_restart_is_what_may_in_kafka(
    kafka: dict[str, dict[str, Any]],
) -> None:
    ours = {name: one.update for name, one in BROKER.items() if not one.read_only}
    assert ours == kafka["updateModes"]
    internal = {name for name, one in kafka["broker"].items() if one["internal"]}
    assert {name for name, one in BROKER.items() if one.update == "internal"} == {
        *(*internal, *FEATURES)
    }


def test_topics_fall_back_to_the_settings_that_they_do_in_kafka(
    kafka: dict[str, dict[str, Any]],
) -> None:
    ours = {n: list(CHAIN.get(of, (of,))) for n, of in BROKER_NAME.items()}
    assert ours == kafka["synonyms"]
    assert kafka["groupSynonyms"] == GROUP_NAME


def samples(one: Definition) -> Iterator[str]:
    """Values around every bound of a setting, and some that fit no type."""
    yield from SAMPLES
    if one.type is Type.LIST:
        yield from LISTS
    bounds = [getattr(one.valid, side, None) for side in ("low", "high", "default")]
    for bound in (*bounds, 2**15, 2**31, 2**63):
        if bound is not None:
            yield from (str(bound - 1), str(bound), str(bound + 1))
    yield from getattr(one.valid, "texts", ())


def test_both_take_and_refuse_the_same_values_in_the_same_words(
    judge: Judge, kafka: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    asked = [
        (table, one, value)
        for table, ours in (("broker", BROKER), ("topic", TOPIC))
        for one in ours.values()
        if one.name in kafka[table]
        and one.name != OURS_ALONE
        and one.type not in (Type.CLASS, Type.PASSWORD)
        and (one.supported or not kafka[table][one.name]["valid"].startswith(DESCRIBED_IN_WORDS))
        for value in samples(one)
    ]
    file = tmp_path / "values"
    file.write_text("".join(f"{table}\t{one.name}\t{value}\n" for table, one, value in asked))
    answers = json.loads(judge.run("Settings", file).out)
    differing = [
        (one.name, value, answer, ours)
        for (_, one, value), answer in zip(asked, answers, strict=True)
        if (ours := made_of(one, value)) != answer
    ]
    assert len(asked) > 5_000
    assert differing == [], "\n".join(map(str, differing))


def made_of(one: Definition, text: str) -> str:
    try:
        return f"= {show(one.value(text))}"
    except ConfigError as refused:
        return str(refused)
