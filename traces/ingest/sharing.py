"""Find out how well a run tells whether its share groups were stuck: from its digest."""

import numpy as np

from traces.ingest.evidence import Evidence, few
from traces.ingest.locations import Locations
from traces.model.meta import Meta, ShareGroup
from traces.model.names import Names
from traces.model.schema import NONE, Op


def look_for_share_groups(
    evidence: Evidence, locations: Locations, meta: Meta, names: Names
) -> None:
    """Note limits of share groups that nobody tells, and members of which too little is told."""
    columns = locations.digest
    acting = columns["group"][columns["op"] == Op.ACQUIRE].tolist()
    waiting = set(columns["group"][columns["op"] == Op.WAITED].tolist()) - {NONE}
    sharing = {*acting, *waiting} - {NONE}
    if not sharing:
        return
    missing = evidence.missing
    for field, groups in (
        ("delivery_limit", sharing),
        ("stuck_ms", waiting),
        ("lock_ms", waiting),
    ):
        named = map(names.groups.name, sorted(groups))
        unset = [n for n in named if getattr(meta.share_groups.get(n, ShareGroup()), field) is None]
        if unset:
            missing[f"share_groups.{field}"] = (
                f"meta.json does not tell the {field} of {few(unset)}"
            )
    if not waiting:
        missing["share_groups.polls"] = (
            "no poll of a share group's member that gave nothing is told"
        )
        return
    mine = np.isin(columns["group"], list(waiting))
    polling = np.isin(columns["op"], (Op.SUBSCRIBE, Op.ACQUIRE, Op.ACKNOWLEDGE, Op.WAITED))
    members = set(columns["process"][mine & polling].tolist())
    joined = mine & (columns["op"] == Op.SUBSCRIBE) & (columns["partition"] != NONE)
    vague = members - set(columns["process"][joined].tolist())
    crashed = members & set(columns["process"][columns["op"] == Op.CRASH].tolist())
    for processes, words in (
        (crashed, "crashed, and its partitions may have been nobody's until its session ended"),
        (vague, "does not tell of which partitions it became a member"),
    ):
        if processes:
            who = few(map(names.processes.name, sorted(processes)))
            missing["share_groups.members"] = f"{who} {words}"
