"""Senders to the topics of a run besides the recorded processes, as far as they are known."""

from collections.abc import Mapping

import numpy as np

from traces.ingest.evidence import Evidence, few
from traces.model.columns import Bools, IntColumns, calls
from traces.model.context import Senders
from traces.model.meta import Meta, Topic
from traces.model.names import Names
from traces.model.schema import NONE, Op

SOME = "meta.json says that not all who send to {} were recorded (senders)"
NOBODY = "nobody who sends to {} was recorded"
RUNNING = (
    "meta.json says neither that all who send to {} were recorded (senders) nor that the run is "
    "complete"
)


def senders_of(meta: Meta, names: Names, digest: IntColumns) -> dict[int, Senders]:
    """For each topic that is sent to or read, the senders that may not have been recorded.

    meta.json decides. If it has no entry, a topic that no recorded process sends to has
    unrecorded senders. A run that is not complete may have some that still run.
    """
    sent = _topics(digest, calls(digest, Op.SEND))
    return {
        topic: _who(meta, names.topics.name(topic), topic in sent)
        for topic in sent | _topics(digest, calls(digest, Op.POLL, Op.SCAN))
    }


def _topics(digest: IntColumns, rows: Bools) -> set[int]:
    return set(np.unique(digest["topic"][rows]).tolist()) - {NONE}


def _said(meta: Meta, topic: str) -> str | None:
    return meta.topics.get(topic, Topic()).senders or meta.senders


def _who(meta: Meta, topic: str, sent: bool) -> Senders:
    said = _said(meta, topic)
    if said is not None:
        return Senders.ALL if said == "all" else Senders.ANYBODY
    return Senders.ALL if sent and meta.complete else Senders.STRANGERS


def look_for_senders(
    evidence: Evidence, meta: Meta, names: Names, digest: IntColumns, who: Mapping[int, Senders]
) -> None:
    """Put into words why findings that another sender may explain are undecided."""
    sent = _topics(digest, calls(digest, Op.SEND))
    reasons: dict[str, list[str]] = {}
    for topic, senders in who.items():
        if senders != Senders.ALL:
            name = names.topics.name(topic)
            said = SOME if _said(meta, name) else RUNNING if topic in sent else NOBODY
            reasons.setdefault(said, []).append(name)
    if reasons:
        evidence.missing["senders"] = "; ".join(
            said.format(few(sorted(topics))) for said, topics in sorted(reasons.items())
        )
