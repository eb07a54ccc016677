"""Our broker's answers to requests that are generated, beside those of Kafka 4.3.1, field by field.

It is a gate, not a promise that all answers are Kafka's. Whatever differs has a row with its reason
in `generated_differences`, or is pinned in `recorded/generated/open.json` with both values. What is
pinned is not mended yet, and nobody has decided to leave it so. A difference that is not there
fails, and so does one there that has gone away: it has to be taken out. `HIGHWATER_RECORD=1` writes
the file anew.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from refimpl.api.table import APIS
from refimpl.edge.testing.blocking import BlockingCluster
from tests.wire.bases import BASES
from tests.wire.generated import BROKER, Answers, chunks, kept, warm
from tests.wire.generated_differences import (
    ROWS,
    Pin,
    Row,
    keep_open,
    pinned,
    still_open,
    unexplained,
)
from tests.wire.test_recorded import CONFIGS

pytestmark = [
    pytest.mark.filterwarnings("ignore::refimpl.edge.NoEffectWarning"),
    pytest.mark.xdist_group("generated"),
]

NAMES = [api.name for api in APIS.values()]


@pytest.fixture(scope="module")
def answered() -> Iterator[dict[str, dict[str, Answers]]]:
    """All our answers, by API and chunk."""
    settings: dict[str, Any] = {"configs": {**CONFIGS, **BROKER}, "client_telemetry": id}
    with BlockingCluster(brokers=1, **settings) as cluster:
        port = int(cluster.bootstrap.rpartition(":")[2])
        warm(port)
        yield {name: {one.id: one.answers() for one in chunks(port, name)} for name in NAMES}


def test_every_api_is_asked() -> None:
    assert set(BASES) == set(NAMES)


def test_what_differs_has_a_reason_or_is_pinned(
    answered: dict[str, dict[str, Answers]],
) -> None:
    used: set[Row] = set()
    found: dict[str, list[Pin]] = {}
    for name in NAMES:
        differing = unexplained(name, kept(name), answered[name], used)
        pins = sorted({pinned(*difference[1:]) for difference in differing})
        if pins:
            found[name] = pins
    if os.environ.get("HIGHWATER_RECORD"):
        keep_open(found)
    known = still_open()
    new = [
        (name, *one)
        for name, pins in found.items()
        for one in pins
        if one not in known.get(name, ())
    ]
    assert new == [], "\n".join(map(str, new[:40]))
    gone = [
        (name, *one)
        for name, pins in known.items()
        for one in pins
        if one not in found.get(name, ())
    ]
    assert gone == [], "take them out of open.json:\n" + "\n".join(map(str, gone[:40]))
    assert [row.reason for row in ROWS if row not in used] == []
