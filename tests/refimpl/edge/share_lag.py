"""The lag of a share group by the log and the answers to its members, beside what is described."""

import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from refimpl.edge.commands.configs import configs
from refimpl.edge.commands.groups import groups_
from tests.refimpl.edge.asking import rows, told

ck: Any = import_module("confluent_kafka")
GROUP, RECORDS, AT_MOST = "share readers", 120, 12
#: Fewer than the limit of deliveries, at which a record would be given up.
RELEASES = 3
SECONDS = 60


def lag_follows_the_log(bootstrap: str, topic: str, file: Path, seed: int) -> None:
    """A member accepts, rejects and releases at random; after each answer the lag that is described
    is the number of records in the log with which nobody is done."""
    rng, released, done = Random(seed), Counter[int](), set[int]()
    earliest = ("--group", GROUP, "--add-config", "share.auto.offset.reset=earliest")
    told(configs, bootstrap, "--alter", *earliest)
    producer = ck.Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    written = 0
    member = ck.ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": AT_MOST,
        }
    )
    member.subscribe([topic])
    kinds, until, checked = ck.AcknowledgeType, time.monotonic() + SECONDS, 0
    while len(done) < RECORDS:
        assert time.monotonic() < until, (seed, sorted(done))
        for _ in range(min(rng.randrange(20), RECORDS - written)):
            producer.produce(topic, str(written), partition=0)
            written += 1
        assert producer.flush(SECONDS) == 0
        given = [one for one in member.poll(timeout=1) if one.error() is None]
        if not given:
            continue
        for one in given:
            offset = one.offset()
            again = released[offset] < RELEASES and rng.random() < 0.4
            kind = kinds.RELEASE if again else rng.choice((kinds.ACCEPT, kinds.REJECT))
            member.acknowledge(one, kind)
            released[offset] += again
            done |= set() if again else {offset}
        assert set(member.commit_sync(SECONDS).values()) == {None}
        waiting = [offset for offset in range(written) if offset not in done]
        (found,) = rows(groups_, bootstrap, file, "--describe", "--group", GROUP)
        # A write tells the start from before it, so the one that is described may lag behind.
        assert found["start_offset"] <= min(waiting, default=written), (seed, found)
        assert found["lag"] == len(waiting), (seed, found, len(waiting))
        checked += 1
    member.close()
    assert checked > RECORDS // AT_MOST, "it was asked on the way"
