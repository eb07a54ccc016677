"""Groups for the coordinator's assignors, each from a seed, and a sample of Kafka's answers."""

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from refimpl.groups.assignors import ASSIGNORS, MemberSpec
from refimpl.java_hash import HashSet, uuid_hash
from refimpl.records.schema import Uuid

SAMPLE = Path(__file__).parent / "kafka_assignments.ndjson"
Case = Mapping[str, Any]


def case_of(seed: int) -> Case:
    """A group as Java reads it: its members, what they had before, and the topics."""
    rng = Random(seed)
    sizes = (rng.randint(0, 9), 9, rng.choice((9, 40)))
    topics = {
        rng.randbytes(16).hex(): rng.randint(0, rng.choice(sizes))
        for _ in range(rng.randint(1, rng.choice((2, 5, 20))))
    }
    homogeneous = rng.random() < 0.5
    names = rng.sample(range(1000), rng.randint(1, rng.choice((3, 8, 30))))
    members = [_member(rng, number, list(topics), homogeneous) for number in names]
    _had(rng, members, topics, homogeneous)
    assignor = rng.choice(("uniform", "uniform", "uniform", "range"))
    return {
        **{"assignor": assignor, "homogeneous": homogeneous},
        **{"topics": topics, "members": members},
    }


def _member(rng: Random, number: int, topics: list[str], homogeneous: bool) -> dict[str, Any]:
    name = f"{rng.choice(('c', 'consumer', 'größe'))}-{number}-{rng.randbytes(4).hex()}"
    reads = topics if homogeneous else rng.sample(topics, rng.randint(0, len(topics)))
    instance = f"i{number}" if rng.random() < 0.2 else None
    return {"id": name, "instance_id": instance, "topics": reads, "target": {}}


def _had(
    rng: Random, members: list[dict[str, Any]], topics: Mapping[str, int], homogeneous: bool
) -> None:
    """Give some members a target, also with topics that they do not subscribe to any more."""
    left, few = rng.random() < 0.2, rng.sample(members, rng.randint(1, len(members)))
    for topic, size in topics.items():
        readers = [one for one in few if topic in one["topics"] or left]
        for number in range(size):
            if readers and rng.random() < 0.8:
                target = rng.choice(readers)["target"]
                target.setdefault(topic, []).append(number)
    if homogeneous and left:
        gone = rng.randbytes(16).hex()
        few[0]["target"][gone] = [0, 1]


def answer_of(case: Case) -> Any:
    """The answer of our assignor."""
    members = {
        one["id"]: MemberSpec(
            list(HashSet(uuid_hash, map(_id, one["topics"]))),
            {_id(topic): numbers for topic, numbers in one["target"].items()},
            one["instance_id"],
        )
        for one in case["members"]
    }
    partitions = {_id(topic): size for topic, size in case["topics"].items()}
    found = ASSIGNORS[case["assignor"]](members, partitions, case["homogeneous"])
    return {
        member: {topic.hex(): sorted(numbers) for topic, numbers in topics.items()}
        for member, topics in found.items()
    }


def _id(text: str) -> Uuid:
    return Uuid(bytes.fromhex(text))


def stored() -> list[tuple[Case, Any]]:
    """Cases with the answers of Kafka 4.3.1."""
    lines = map(json.loads, SAMPLE.read_text().splitlines())
    return [(line["case"], line["answer"]) for line in lines]
