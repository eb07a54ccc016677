"""Our broker's answers to requests that are generated, beside those of Kafka, field by field.

`HIGHWATER_RECORD=1` writes the list of what is not mended yet; it may only get shorter.
"""

import os
from collections.abc import Iterator

import pytest

from refimpl.api.table import APIS
from refimpl.edge.testing.blocking import BlockingCluster
from tests.wire.bases import BASES
from tests.wire.generated import BROKER, Answers, chunks, kept, warm
from tests.wire.generated_differences import ROWS, Row, keep_open, still_open, unexplained
from tests.wire.test_recorded import CONFIGS

pytestmark = [
    pytest.mark.filterwarnings("ignore::refimpl.edge.NoEffectWarning"),
    pytest.mark.xdist_group("generated"),
]

NAMES = [api.name for api in APIS.values()]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with BlockingCluster(brokers=1, configs={**CONFIGS, **BROKER}) as cluster:
        found = int(cluster.bootstrap.rpartition(":")[2])
        warm(found)
        yield found


@pytest.fixture(scope="module")
def answered(port: int) -> dict[str, dict[str, Answers]]:
    """All our answers, by API and chunk."""
    return {name: {one.id: one.answers() for one in chunks(port, name)} for name in NAMES}


def test_every_api_is_asked() -> None:
    assert set(BASES) == set(NAMES)


def test_what_differs_is_explained_or_on_the_list_of_what_is_not_mended(
    answered: dict[str, dict[str, Answers]],
) -> None:
    used: set[Row] = set()
    found = {name: list(unexplained(name, kept(name), answered[name], used)) for name in NAMES}
    labels = {name: sorted({label for _, label, *_ in of}) for name, of in found.items() if of}
    if os.environ.get("HIGHWATER_RECORD"):
        keep_open(labels)
    known = still_open()
    new = [one for name, of in found.items() for one in of if one[1] not in known.get(name, [])]
    assert new == [], "\n".join(map(str, new[:40]))
    assert labels == known, "shorten the list of what is not mended"
    assert [row.reason for row in ROWS if row not in used] == []
