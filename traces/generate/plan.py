"""The plan of a generated trace of any size: clients, topics, times, configuration.

Four topics of sixteen partitions, one partition with a ninth of the traffic. 32 producers, eight of
them transactional. Two groups of four consumers: `billing` processes and then commits, `audit`
commits and then processes. The run is a series of generations of both groups. A generation is a
chunk, and one chunk at a time is held in memory.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import define, field, frozen

from traces.model.configured import Known, context
from traces.model.context import Context, Ints
from traces.model.lives import GroupLives
from traces.model.meta import Consumer, Meta, Producer, ShareGroup, Topic
from traces.model.names import Names
from traces.model.sizes import Sizes

TOPICS, PARTITIONS = 4, 16  # of each topic
TOPIC_PARTITIONS = TOPICS * PARTITIONS
PRODUCERS, TRANSACTIONAL = 32, 8
MEMBERS = 4  # of each group
SCANNERS = 8
TICK = 10_000  # ns from one message to the next
START = 1_700_000_000_000_000_000
LEADER = 1  # the broker that leads all partitions, in epoch after epoch
LARGEST = 500_000  # messages of a chunk
FEWEST = 6  # chunks
ROWS_PER_MESSAGE = 4.0
BATCH = 50  # messages of a transaction
HOT = 0.135  # of what is not transactional goes to the first partition
GROUPS = ("billing", "audit", "copy", "transformers")
PROCESSING = (0, 1, 3)  # those of them that tell what they processed
_HASHES: Ints = np.random.default_rng(1_024).integers(0, 1 << 32, 1_024)  # as wide as a CRC


@frozen
class Plan:
    """The sizes of one trace."""

    messages: int
    seed: int
    anomalies: Mapping[str, int]  # how many of each kind, by name
    scenarios: bool  # topics of their own, where rare things are done

    @property
    def chunks(self) -> int:
        """The number of generations."""
        return max(FEWEST, -(-self.messages // LARGEST))

    @property
    def size(self) -> int:
        """Messages of one chunk."""
        return -(-self.messages // self.chunks)

    @property
    def window(self) -> int:
        """Nanoseconds from one poll of a consumer to its next."""
        return min(2_000, max(200, self.size // 20)) * TICK

    @property
    def windows(self) -> int:
        """Polls of a consumer in a chunk; in the last it has everything and gives up."""
        return self.size * TICK // self.window + 4

    @property
    def span(self) -> int:
        """Nanoseconds from the beginning of one chunk to that of the next."""
        return (self.windows + 4) * self.window

    @property
    def end(self) -> int:
        """When every client has stopped, and the final scan begins."""
        return START + self.chunks * self.span


@define
class Clients:
    """The names of all processes, and their configuration."""

    names: Names = field(factory=Names.counted)
    producers: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]])
    consumers: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]])
    topics: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]])
    share_groups: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]])

    def __attrs_post_init__(self) -> None:
        for topic in range(TOPICS):
            self.topic(f"topic-{topic}", PARTITIONS)
        for group in GROUPS:
            self.names.groups.number(group)
        self.names.clocks.number("host")
        for n in range(PRODUCERS):
            self.producer(f"p{n}#0")
            if n < TRANSACTIONAL:
                self.names.transactional_ids.number(f"p{n}")
        for group in GROUPS[:2]:
            for member in range(MEMBERS):
                self.consumer(f"{group}-{member}#0", group)
        for n in range(SCANNERS):
            self.names.processes.number(f"scan-{n}#0")

    def topic(self, name: str, partitions: int, **settings: Any) -> int:
        """A topic that loses nothing."""
        safe = {"min_insync_replicas": 2, "unclean_leader_election": False}
        more = {"replication_factor": 3, "cleanup_policy": "delete"}
        self.topics[name] = {"partitions": partitions} | safe | more | settings
        return self.names.topics.number(name)

    def producer(self, name: str) -> int:
        """A process that sends, with all promises that Kafka makes."""
        safe = {"acks": "all", "idempotence": True, "max_in_flight": 5, "retries": 10}
        self.producers[name.partition("#")[0]] = safe
        return self.names.processes.number(name)

    def consumer(self, name: str, group: str) -> int:
        """A member of a group."""
        orders = {"audit": "commit_then_process", "transformers": "transaction"}
        self.consumers[name.partition("#")[0]] = {
            "group": group,
            "isolation": "read_committed",
            "rack": "",
            "auto_commit": False,
            "auto_offset_reset": "earliest",
            "group_protocol": "classic",
            "commit_order": orders.get(group, "process_then_commit"),
        }
        self.names.members.number(name)
        return self.names.processes.number(name)

    def reader(self, name: str) -> int:
        """A process that only asks or reads."""
        return self.names.processes.number(name)

    def meta(self) -> dict[str, Any]:
        """`meta.json`."""
        return {
            "format": 1,
            "run": "generated",
            "source": "highwater generate",
            "complete": True,
            "topics": self.topics,
            "internal_topics": {
                "__consumer_offsets": {"min_insync_replicas": 2, "unclean_leader_election": False}
            },
            "producers": self.producers,
            "consumers": self.consumers,
            "share_groups": self.share_groups,
            "processes": self.names.processes.names,
        }


def context_of(meta: dict[str, Any], names: Names, lives: GroupLives, sizes: Sizes) -> Context:
    """The kernels' context of a generated run."""
    configured = Meta(
        complete=True,
        topics={n: Topic(**t) for n, t in meta["topics"].items()},
        internal_topics={n: Topic(**t) for n, t in meta["internal_topics"].items()},
        producers={n: Producer(**p) for n, p in meta["producers"].items()},
        consumers={n: Consumer(**c) for n, c in meta["consumers"].items()},
        share_groups={n: ShareGroup(**g) for n, g in meta["share_groups"].items()},
    )
    known = Known(senders=True, readers=True, consumers_whole=True, starts=True)
    return context(configured, names, PROCESSING, known, lives=lives, sizes=sizes)


def owners(generation: int) -> Ints:
    """The process that owns each topic-partition in a generation: all move on by one member."""
    tp = np.arange(TOPIC_PARTITIONS)
    group = (tp >= TOPIC_PARTITIONS // 2).astype(np.int64)
    return PRODUCERS + group * MEMBERS + (tp + generation) % MEMBERS


def epochs(generation: int) -> Ints:
    """The leader epoch of each topic-partition in a generation."""
    return (generation + np.arange(TOPIC_PARTITIONS) % 3) // 3 + 1


def topic_partition(tp: Any) -> dict[str, Any]:
    """Topic and partition of a topic-partition's number."""
    return {"topic": tp // PARTITIONS, "partition": tp % PARTITIONS}


def payload(id: Any) -> Any:
    """The hash of a record's payload: an application writes the same few again and again."""
    return _HASHES[id % len(_HASHES)]


def key_name(key: int) -> str:
    """A record's key as clients write it down."""
    return f"k{key}"
