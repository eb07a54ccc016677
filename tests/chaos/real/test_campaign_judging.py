"""Both judges of a campaign, and the duplicates that a client wrote itself."""

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from chaos.real.campaign import judging
from chaos.real.campaign.judging import Find, judge
from chaos.real.campaign.plan import Step
from chaos.real.campaign.rewritten import NAME, by_the_client
from chaos.real.campaign.running import Played
from refimpl.storage.format.batch import encode_batch
from refimpl.storage.format.record import Record
from tests.chaos.real.played_stage import planned

PRODUCER = 7
NOBODY = -1


def stored(folder: Path, *copies: tuple[int, int]) -> tuple[Path, Path]:
    """A run in which one record is stored so often, each by a producer id and an epoch."""
    log = folder / "cluster" / "node-1" / "data" / "orders-0" / f"{0:020}.log"
    log.parent.mkdir(parents=True)
    several = [
        encode_batch([Record(at, 0, None, b"a")], producer_id=id, producer_epoch=epoch)
        for at, (id, epoch) in enumerate(copies)
    ]
    log.write_bytes(b"".join(several))
    run = folder / "run"
    run.mkdir()
    where = {"topic": "orders", "partition": 0, "id": 5}
    records = [{**where, "offset": offset} for offset in range(len(copies))]
    (run / "scan-ru#0.ndjson").write_bytes(orjson.dumps({"op": "scan", "records": records}))
    return run, folder / "cluster"


@pytest.mark.parametrize(
    ("copies", "mine"),
    [
        (((PRODUCER, 0), (PRODUCER, 1)), True),
        (((PRODUCER, 0), (PRODUCER, 2), (PRODUCER, 5)), True),
        (((PRODUCER, 1), (PRODUCER, 1)), False),  # a broker must have known it
        (((PRODUCER, 0), (PRODUCER, 1), (PRODUCER, 1)), False),
        (((PRODUCER, 0), (8, 1)), False),
        (((NOBODY, NOBODY), (NOBODY, NOBODY)), False),
        (((PRODUCER, 0),), False),
    ],
)
def test_copies_of_one_producer_in_other_epochs_are_its_own(
    tmp_path: Path, copies: tuple[tuple[int, int], ...], mine: bool
) -> None:
    assert by_the_client(*stored(tmp_path, *copies)) is mine


def verbs(folder: Path, incidents: list[dict[str, Any]], partitions: list[Any]) -> Any:
    """A stand-in for our verbs, which says this of a run."""

    def verb(name: str, *_: object) -> tuple[int, str]:
        checks = {"L4": {"verdict": "holds"}}
        told = {"runs": [{"checks": checks, "incidents": incidents, "incomplete": []}]}
        file, content = ("check.json", told) if name == "check" else ("steps.json", partitions)
        (folder / file).write_bytes(orjson.dumps(content))
        return 0, f"{name} has spoken"

    return verb


def test_finds_of_both_judges_are_named_and_the_known_ones_accuse_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path, (PRODUCER, 0), (PRODUCER, 1))
    incidents = [
        {"verdict": "violated", "checks": ["L2"], "title": "1 record is stored twice"},
        {"verdict": "violated", "checks": ["L1", "L4"], "title": "1 record is lost"},
        {"verdict": "allowed", "checks": ["L1"], "title": "may be"},
    ]
    explained = [{"name": "missed-epoch", "step": 3, "at_ns": 9}]
    unexplained = {"step": 5, "at_ns": 10, "why": "the guard of Told is false"}
    partition = {"subject": "orders:0", "steps": 8, "ended": "", "explained": explained}
    partitions = [{**partition, "unexplained": unexplained}]
    monkeypatch.setattr(judging, "_verb", verbs(tmp_path, incidents, partitions))
    played = Played(planned(Step(0, "pause")), [], [], [], Counter(), 0, complete=True)
    found = judge(played, tmp_path)
    assert found.finds == [
        Find("check", "L2: 1 record is stored twice", NAME),
        Find("check", "L1, L4: 1 record is lost"),
        Find("validate", "orders:0: missed-epoch at step 3", "missed-epoch", 9),
        Find("validate", "orders:0: step 5: the guard of Told is false", "", 10),
    ]
    assert (found.exit_code, found.unjudged) == (1, [])
    assert found.texts == {
        name: f"{name.split()[0]} has spoken" for name in ("check", "validate --kafka")
    }
