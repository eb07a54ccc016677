"""The settings in meta.json of each producer, consumer and group, by the numbers of its rows."""

from collections.abc import Collection, Mapping

from traces.model.context import Order, Setting, setting
from traces.model.meta import Meta
from traces.model.names import Names
from traces.model.partitioners import number as partitioner_number

_WEAK = {"all": False, "-1": False, "0": True, "1": True}
_PROTOCOLS = {"classic": True, "consumer": False}
# By a duration (KIP-1106) a group begins anywhere, and without a policy where it is sought.
_FROM_END = {"earliest": False, "latest": True}


def of_processes(meta: Meta, names: Names) -> Mapping[str, Setting]:
    """The settings of producers and consumers, by their fields in `Context`."""
    producers = [meta.producer(name) for name in names.processes.names]
    consumers = [meta.consumer(name) for name in names.processes.names]
    settings = {
        "weak_acks": [_WEAK.get(p.acks or "") for p in producers],
        "idempotent": [p.idempotence for p in producers],
        "in_flight": [p.max_in_flight for p in producers],
        "retries": [p.retries for p in producers],
        "partitioner": [partitioner_number(p.partitioner) for p in producers],
        "txn_timeout": [p.transaction_timeout_ms for p in producers],
        "racked": [_racked(c.rack) for c in consumers],
        "committed_only": [_committed_only(c.isolation) for c in consumers],
        "session_timeout": [c.session_timeout_ms for c in consumers],
        "late_requests": [c.late_requests for c in consumers],
    }
    return {name: setting(names.processes.numbers, values) for name, values in settings.items()}


def of_groups(meta: Meta, names: Names, processing: Collection[int]) -> Mapping[str, Setting]:
    """The settings of groups, by their fields in `Context`; `processing` tell what they process."""
    groups = [_group_settings(meta, name) for name in names.groups.names]
    share_groups = [meta.share_groups.get(name) for name in names.groups.names]
    settings = {
        "order": [order for order, _, _ in groups],
        "reset_latest": [latest for _, latest, _ in groups],
        "classic": [classic for _, _, classic in groups],
        "processes": [number in processing for number in names.groups.numbers],
        "lock": [g and g.lock_ms for g in share_groups],
        "delivery_limit": [g and g.delivery_limit for g in share_groups],
        "share_committed_only": [g and _committed_only(g.isolation) for g in share_groups],
        "stuck": [g and g.stuck_ms for g in share_groups],
        "others": [meta.committers_of(name) == "some" for name in names.groups.names],
    }
    return {name: setting(names.groups.numbers, values) for name, values in settings.items()}


def _committed_only(isolation: str | None) -> bool | None:
    return None if isolation is None else isolation == "read_committed"


def _racked(rack: str | None) -> bool | None:
    return None if rack is None else rack != ""


def _group_settings(meta: Meta, group: str) -> tuple[int, bool | None, bool | None]:
    """The commit order of a group, its reset policy, and true if its protocol is the classic one.

    What its configured members do not agree on is not known.
    """
    members = [c for c in meta.consumers.values() if c.group == group]
    orders = {_order(c.commit_order, c.auto_commit) for c in members}
    resets = {_FROM_END.get((c.auto_offset_reset or "").lower()) for c in members}
    order = orders.pop() if len(orders) == 1 else Order.UNKNOWN
    reset = resets.pop() if len(resets) == 1 else None
    protocols = {_PROTOCOLS.get((c.group_protocol or "").lower()) for c in members}
    classic = protocols.pop() if len(protocols) == 1 else None
    return order, reset, classic


def _order(commit_order: str | None, auto_commit: bool | None) -> Order:
    if auto_commit:
        return Order.AUTO
    try:
        return Order[(commit_order or "unknown").upper()]
    except KeyError:
        return Order.UNKNOWN
