"""Our answers to the cases, in the shape of Java's, and the stored sample of Java's answers."""

import json
from pathlib import Path
from typing import Any

from refimpl.clients.assignors import ASSIGNORS, write_assignment
from tests.refimpl.clients.assignors.cases import Case, members_of, racks_of, subscriptions_of

SAMPLE = Path(__file__).parent / "kafka_answers.ndjson"


def answer_of(case: Case) -> Any:
    """The answer of our assignor."""
    assigned = ASSIGNORS[case["assignor"]].assign(members_of(case), racks_of(case))
    written = zip(case["members"], subscriptions_of(case), strict=True)
    return {
        "subscriptions": {one["id"]: metadata.hex() for one, metadata in written},
        "assigned": {member: [list(p) for p in parts] for member, parts in assigned.items()},
        "assignments": {m: write_assignment(parts).hex() for m, parts in assigned.items()},
    }


def stored() -> list[tuple[Case, Any]]:
    """Cases with the answers of Kafka 4.3.1."""
    lines = map(json.loads, SAMPLE.read_text().splitlines())
    return [(line["case"], line["answer"]) for line in lines]
