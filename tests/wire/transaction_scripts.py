"""A script about transactions: their requests in every version, and refusals."""

from typing import Any

from tests.wire.asking import Ask, create, topic

GROUP = "g"


def transactions(ask: Ask) -> None:
    """Whole transactions in each version of their requests, descriptions, and refusals."""
    create(ask, topic("t", 2))
    for kind in (0, 1):
        ask("FindCoordinator", 4, key_type=kind, coordinator_keys=["v0"])
    for version in range(6):
        for committed in (True, False):
            _transaction(ask, version, committed=committed)
    for version in range(3):
        ask("ListTransactions", version, state_filters=[], producer_id_filters=[])
        ask("ListTransactions", version, state_filters=["Ongoing", "x"], producer_id_filters=[7])
    ask("DescribeTransactions", 0, transactional_ids=["v0", "nobody", ""])
    _refused(ask)


def _init(ask: Ask, version: int, name: str, **more: Any) -> dict[str, Any]:
    asked = {"transactional_id": name, "transaction_timeout": 60_000, **more}
    return ask("InitProducerId", version, **asked)


def _transaction(ask: Ask, version: int, *, committed: bool) -> None:
    """Add partitions and a group, commit an offset, and end, twice."""
    name = f"v{version}"
    of = _init(ask, version, name)
    at = {"producer_id": of["producer_id"], "producer_epoch": of["producer_epoch"]}
    known = {"transactional_id": name, **at}
    _add(ask, min(version, 3), known, 0, 1)
    ask("AddOffsetsToTxn", min(version, 4), **known, group_id=GROUP)
    _commit(ask, version, known)
    for _ in range(2):
        ask("EndTxn", version, **known, committed=committed)


def _add(ask: Ask, version: int, known: dict[str, Any], *partitions: int, of: str = "t") -> None:
    topics = [{"name": of, "partitions": list(partitions)}]
    asked = {**known, "topics": topics}
    ask("AddPartitionsToTxn", version, **{f"v3_and_below_{k}": v for k, v in asked.items()})


def _commit(ask: Ask, version: int, known: dict[str, Any], **more: Any) -> None:
    partition = {"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}
    topics = [{"name": "t", "partitions": [partition]}]
    ask("TxnOffsetCommit", version, **known, group_id=GROUP, topics=topics, **more)


def _refused(ask: Ask) -> None:
    """Each guard, in the versions whose errors differ."""
    for version in range(6):
        for timeout in (0, 10**9):
            _init(ask, version, "late", transaction_timeout=timeout)
        _init(ask, version, "")
    for version in range(3, 6):
        _init(ask, version, "half", producer_id=5, producer_epoch=-1)
    of = _init(ask, 5, "twice")
    known = {"transactional_id": "twice", "producer_id": of["producer_id"], "producer_epoch": 0}
    _init(ask, 5, "twice")
    _init(ask, 5, "twice")
    for version in range(6):
        if version >= 3:
            _init(ask, version, "twice", producer_id=of["producer_id"] + 1, producer_epoch=0)
        for nobody in (known, {**known, "transactional_id": "nobody"}):
            ask("EndTxn", version, **nobody, committed=True)
            ask("AddOffsetsToTxn", min(version, 4), **nobody, group_id=GROUP)
            _add(ask, min(version, 3), nobody, 0)
            _add(ask, min(version, 3), nobody, 0, 7)
            _add(ask, min(version, 3), nobody, 0, of="missing")


def transactions_of_brokers(ask: Ask) -> None:
    """Requests between brokers (verification, markers) and those of tools to leaders."""
    create(ask, topic("t", 2))
    ask("FindCoordinator", 4, key_type=1, coordinator_keys=["b4"])
    for version in (4, 5):
        name = f"b{version}"
        of = _init(ask, 5, name)
        known = {"transactional_id": name, "producer_epoch": of["producer_epoch"]}
        known |= {"producer_id": of["producer_id"]}
        _verified(ask, version, known, verify=True)
        _verified(ask, version, known, verify=False)
        _verified(ask, version, known, verify=True)
        _verified(ask, version, known, verify=True, of="t", partitions=(1,))
        _verified(ask, version, known, verify=False, of="missing")
        _verified(ask, version, {**known, "producer_epoch": 7}, verify=True)
        _verified(ask, version, {**known, "transactional_id": "nobody"}, verify=True)
        ask("EndTxn", 5, **known, committed=False)
        _verified(ask, version, known, verify=True)
    for version in (1, 2):
        for topics in ({"t": (0, 1)}, {"missing": (0,)}, {"t": (0, 9), "missing": (0,)}):
            _marked(ask, version, topics)
        ask("WriteTxnMarkers", version, markers=[])
    for topics in ({"t": (0, 1)}, {"t": (9,)}, {"missing": (0,)}):
        named = [{"name": one, "partition_indexes": list(of)} for one, of in topics.items()]
        ask("DescribeProducers", 0, topics=named)


def _verified(
    ask: Ask,
    version: int,
    known: dict[str, Any],
    *,
    verify: bool,
    of: str = "t",
    partitions: tuple[int, ...] = (0,),
) -> None:
    """One transaction in a batch, as a partition's leader asks about it."""
    topics = [{"name": of, "partitions": list(partitions)}]
    ask(
        "AddPartitionsToTxn",
        version,
        transactions=[{**known, "verify_only": verify, "topics": topics}],
    )


def _marked(ask: Ask, version: int, topics: dict[str, tuple[int, ...]]) -> None:
    """The marker of a producer that has written nothing there: an abort by a tool."""
    marker = {
        "producer_id": 4000,
        "producer_epoch": 3,
        "transaction_result": False,
        "topics": [{"name": one, "partition_indexes": list(of)} for one, of in topics.items()],
        "coordinator_epoch": 5,
    }
    if version >= 2:
        marker["transaction_version"] = 0
    ask("WriteTxnMarkers", version, markers=[marker])
