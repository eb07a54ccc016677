"""Draws a plan from a seed: swarm testing, each seed with a subset of faults and settings.

Each kind of fault has a stream of random numbers of its own. So leaving one kind out leaves the
others as they are.
"""

from collections.abc import Collection, Iterator
from random import Random

from attrs import evolve

from chaos.real.campaign.plan import (
    AGAIN,
    BROKERS,
    CONFIGURED,
    GROWN,
    KEPT,
    KEYED,
    MOVED,
    ORDERS,
    ClientsPlan,
    GroupPlan,
    Plan,
    Step,
    TopicPlan,
)
from chaos.real.campaign.vocabulary import KINDS, OF_CLIENTS, OF_MEMBERS, REQUESTS, Kind

CHANCE = 0.5
"""That a seed has a kind of fault."""
CALM_MS, LAST_MS = 4_000, 8_000
"""Without faults at the beginning, and at the end."""
FEWEST = 3
"""Kinds of a seed, at least."""
#: Their rules meet nothing but at a leader.
OF_LEADERS = ("cut", "slow", "isr")
LIBRARIES = ("confluent", "aiokafka", "kafka-python")
#: Topics that a kind of fault needs.
TOPIC_OF = {
    "reassign": MOVED,
    "recreate": AGAIN,
    "add_partition": GROWN,
    "delete_records": KEPT,
    "configure": CONFIGURED,
}


def draw(
    seed: int,
    minutes: float,
    target: str,
    without: Collection[str] = (),
    only: Collection[str] = (),
) -> Plan:
    """The plan of a seed; a pure function of its arguments."""
    rng = Random(f"{seed}/cluster")
    brokers = _brokers(rng)
    clients = _clients(Random(f"{seed}/clients"))
    kinds = _kinds(Random(f"{seed}/kinds"), target, clients, only)
    topics = _topics(Random(f"{seed}/topics"), kinds)
    # An application without a partition of its own would commit nothing.
    applications = min(clients.applications, topics[ORDERS].partitions)
    clients = evolve(clients, applications=applications)
    gap_ms = rng.uniform(1_500, 6_000)
    plan = Plan(seed, minutes, target, brokers, topics, clients, ())
    steps = [step for kind in kinds for step in _steps(plan, kind, kinds, gap_ms)]
    order = tuple(sorted(steps, key=lambda step: (step.at_ms, step.kind)))
    return evolve(plan, steps=order).without(*without)


def _brokers(rng: Random) -> dict[str, str]:
    session_ms = rng.choice((3_000, 5_000, 9_000))
    return {
        "broker.session.timeout.ms": str(session_ms),
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": str(rng.choice((2_000, 4_000, 10_000))),
        "replica.fetch.wait.max.ms": str(rng.choice((100, 500))),
        "replica.socket.timeout.ms": "3000",
        "controller.socket.timeout.ms": str(rng.choice((3_000, 30_000))),
        "auto.leader.rebalance.enable": "false",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.backoff.ms": "500",
        "log.retention.check.interval.ms": "1000",
        "log.segment.delete.delay.ms": "1000",
    }


def _clients(rng: Random) -> ClientsPlan:
    producers = [name for name in ("plain", "idempotent") if rng.random() < 0.75] or ["plain"]
    producers += ["acks-1"] * (rng.random() < 0.15)
    protocols = [name for name in ("classic", "consumer") if rng.random() < 0.6]
    groups = [_group(rng, name) for name in protocols or [rng.choice(("classic", "consumer"))]]
    libraries = [name for name in LIBRARIES if rng.random() < 0.4]
    transactional = libraries if rng.random() < 0.6 else []
    applications = rng.choice((0, 2)) if transactional else 0
    return ClientsPlan(
        producers=tuple(producers),
        groups=tuple(groups),
        transactional=tuple(transactional),
        applications=applications,
        pause_ms=rng.choice((30, 100, 250)),
        linger_ms=rng.choice((0, 0, 20)),
        timeout_ms=rng.choice((1_500, 4_000, 30_000)),
    )


def _group(rng: Random, protocol: str) -> GroupPlan:
    assignor = rng.choice(("range", "cooperative-sticky"))
    return GroupPlan(
        name=f"{protocol}-group",
        protocol=protocol,
        members=rng.choice((1, 2, 3)),
        static=rng.random() < 0.4,
        assignor=assignor if protocol == "classic" else "",
    )


def _kinds(rng: Random, target: str, clients: ClientsPlan, only: Collection[str]) -> list[Kind]:
    chances = {name: rng.random() for name in KINDS}
    possible = {
        name: kind
        for name, kind in KINDS.items()
        if target in kind.targets and (name not in OF_CLIENTS or clients.transactional)
    }
    if only:
        return [kind for name, kind in possible.items() if name in only]
    liked = sorted(possible, key=chances.__getitem__)
    wanted = [name for name in liked if chances[name] < CHANCE] or liked
    chosen = {*liked[:FEWEST], *wanted}
    return [kind for name, kind in possible.items() if name in chosen]


def _topics(rng: Random, kinds: list[Kind]) -> dict[str, TopicPlan]:
    rolls = {"segment.ms": str(rng.choice((5_000, 20_000)))} if rng.random() < 0.5 else {}
    unclean = {"unclean.leader.election.enable": "true"} if rng.random() < 0.15 else {}
    safe = {"min.insync.replicas": "1" if rng.random() < 0.15 else "2", **rolls}
    topics = {ORDERS: TopicPlan(rng.choice((1, 2, 3)), 3, {**safe, **unclean})}
    if rng.random() < 0.4:
        compacts = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        topics[KEYED] = TopicPlan(1, 3, {**safe, **compacts, "segment.ms": "5000"}, keys=True)
    for kind in kinds:
        if (name := TOPIC_OF.get(kind.name)) is not None:
            replicas = 2 if name == MOVED else 3
            least = "1" if name == MOVED else "2"
            configs = {**rolls, "min.insync.replicas": least}
            topics[name] = TopicPlan(1 if name == GROWN else 2, replicas, configs)
    return topics


def _steps(plan: Plan, kind: Kind, kinds: list[Kind], gap_ms: float) -> Iterator[Step]:
    rng = Random(f"{plan.seed}/{kind.name}")
    mean_ms = gap_ms * sum(one.weight for one in kinds) / kind.weight
    end_ms = max(CALM_MS + 1, int(plan.minutes * 60_000) - LAST_MS)
    at, made = CALM_MS + rng.expovariate(1 / mean_ms), 0
    while at < end_ms:
        yield _step(plan, kind, int(at), rng)
        at, made = at + rng.expovariate(1 / mean_ms), made + 1
    if not made:
        yield _step(plan, kind, rng.randrange(CALM_MS, end_ms), rng)


def _step(plan: Plan, kind: Kind, at_ms: int, rng: Random) -> Step:
    who = 0 if kind.name in OF_LEADERS else rng.choice((0, 0, *BROKERS))
    topic = TOPIC_OF.get(kind.name, ORDERS)
    partition = rng.randrange(plan.topics[topic].partitions)
    how = rng.choice(_requests(plan.clients) if kind.name == "requests" else kind.hows)
    for_ms = _duration(plan, kind, how, rng)
    value, group = rng.randrange(1, 4), ""
    if kind.name in OF_MEMBERS:
        group = rng.choice(plan.clients.groups).name
    return Step(at_ms, kind.name, how, who, topic, partition, for_ms, value, group)


def _duration(plan: Plan, kind: Kind, how: str, rng: Random) -> int:
    if how == "short":
        return rng.randrange(100, min(1_500, plan.session_ms // 2))
    if how == "long":
        return plan.session_ms + rng.randrange(1_000, 5_000)
    return rng.randrange(kind.least_ms, kind.most_ms + 1) if kind.most_ms else 0


def _requests(clients: ClientsPlan) -> tuple[str, ...]:
    made = {*REQUESTS["producers"], *REQUESTS["readers"]}
    made |= {one for group in clients.groups for one in REQUESTS[group.protocol]}
    if clients.transactional:
        made |= {*REQUESTS["transactions"]}
    return tuple(sorted(made))
