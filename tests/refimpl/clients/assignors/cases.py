"""Groups for the assignors, each from a seed: what Kafka's own assignors are asked about."""

import string
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from refimpl.clients.assignors import ASSIGNORS, Member, Partition
from refimpl.clients.assignors.protocol import LATEST_VERSION

RACKS = ("r0", "r1", "r2")
Case = Mapping[str, Any]


def case_of(seed: int) -> Case:
    """A group, its topics, and what its members owned before: a case as Java reads it."""
    rng = Random(seed)
    topics = _topics(rng)
    members = _members(rng, list(topics))
    _owned(rng, members, topics)
    return {
        "assignor": rng.choice(list(ASSIGNORS)),
        "topics": {topic: [sorted(racks) for racks in parts] for topic, parts in topics.items()},
        "members": members,
    }


def _topics(rng: Random) -> dict[str, list[set[str]]]:
    with_racks = rng.random() < 0.5
    scattered = rng.random() < 0.7
    same = rng.random() < 0.4
    count = rng.randint(1, 9)
    found: dict[str, list[set[str]]] = {}
    for _ in range(rng.randint(1, rng.choice((3, 6, 20)))):
        name = "".join(rng.choice(string.ascii_letters) for _ in range(rng.randint(1, 6)))
        size = count if same else rng.randint(0, 9)
        found[name] = [set() for _ in range(size)]
        for racks in found[name] if with_racks else ():
            racks |= set(rng.sample(RACKS, rng.randint(0, 2)) if scattered else RACKS)
    return found


def _members(rng: Random, topics: Sequence[str]) -> list[dict[str, Any]]:
    equal = rng.random() < 0.5
    everything = [*topics, "missing"] if rng.random() < 0.2 else list(topics)
    racks = (*RACKS, "r9", None) if rng.random() < 0.6 else (None,)
    static = rng.random() < 0.3
    members: list[dict[str, Any]] = []
    names = rng.sample(range(1000), rng.randint(1, rng.choice((3, 8, 30))))
    for number in names:
        reads = everything if equal else rng.sample(everything, rng.randint(1, len(everything)))
        prefix = rng.choice(("consumer", "c", "größe", "日本"))
        members.append(
            {
                "id": f"{prefix}-{number}-{rng.randbytes(4).hex()}",
                "instance_id": f"i{number}" if static and rng.random() < 0.7 else None,
                "topics": reads,
                "rack": rng.choice(racks),
                "owned": [],
                "generation": -1,
                "version": LATEST_VERSION,
            }
        )
    return members


def _owned(
    rng: Random, members: list[dict[str, Any]], topics: Mapping[str, Sequence[object]]
) -> None:
    """Most groups were balanced once; then members came, went, slept, or claim what others own."""
    mood = rng.choice(("new", "settled", "settled", "stale", "old clients"))
    if mood == "new":
        return
    generation = rng.randint(1, 5)
    skewed = rng.random() < 0.4
    were = [member for member in members if rng.random() < 0.8]
    for member in were:
        member["generation"] = generation - (mood == "stale") * rng.randint(0, 1)
        member["version"] = rng.randint(0, 2) if mood == "old clients" else LATEST_VERSION
    for topic, parts in topics.items():
        for partition in range(len(parts)):
            readers = [member for member in were if topic in member["topics"]]
            claimants = 2 if mood == "stale" and rng.random() < 0.2 else 1
            readers = readers[:2] if skewed else readers
            for owner in rng.sample(readers, min(claimants, len(readers))):
                owner["owned"].append((topic, partition))
    for member in members:
        rng.shuffle(member["owned"])


def members_of(case: Case) -> list[Member]:
    """The members as our leader reads them, from what our clients write."""
    assignor = ASSIGNORS[case["assignor"]]
    return [
        assignor.member(one["id"], written, one["instance_id"])
        for one, written in zip(case["members"], subscriptions_of(case), strict=True)
    ]


def subscriptions_of(case: Case) -> list[bytes]:
    """The subscriptions that our clients write."""
    return [
        ASSIGNORS[case["assignor"]].subscription(
            one["topics"],
            partitions_of(one["owned"]),
            one["generation"],
            one["rack"],
            one["version"],
        )
        for one in case["members"]
    ]


def racks_of(case: Case) -> dict[str, list[frozenset[str]]]:
    """The racks of all partitions."""
    return {
        topic: [frozenset(racks) for racks in partitions]
        for topic, partitions in case["topics"].items()
    }


def partitions_of(listed: Sequence[Sequence[Any]]) -> list[Partition]:
    """Partitions that JSON has as lists."""
    return [(topic, partition) for topic, partition in listed]
