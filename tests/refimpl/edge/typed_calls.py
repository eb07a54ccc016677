# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""Calls of a cluster as pyright sees them: `make lint` fails where one of these is no error."""

from collections.abc import Sequence
from typing import Any, assert_type

from refimpl.edge import BlockingCluster, Cluster, Rule


def blocking(c: BlockingCluster) -> None:
    """Correct calls have their types, and wrong ones are errors."""
    assert_type(c.leader("orders", 0), int | None)
    assert_type(c.isr("orders", 0), frozenset[int])
    assert_type(c.log("orders", 0, 1), Sequence[Any])
    assert_type(c.create_topic("orders", configs={"min.insync.replicas": 2}), None)
    assert_type(c.hold("Produce", client_id="slow", count=1), Rule)
    assert_type(c.bootstrap, str)
    with c as entered:
        assert_type(entered, BlockingCluster)
    c.kil(1)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    c.kill("1")  # pyright: ignore[reportArgumentType]
    c.hold("Produce", clinet_id="slow")  # pyright: ignore[reportCallIssue]
    c.fail("Produce")  # pyright: ignore[reportCallIssue]
    c.bootstrap = "localhost:9092"  # pyright: ignore[reportAttributeAccessIssue]
    BlockingCluster(broker=3)  # pyright: ignore[reportCallIssue]
    BlockingCluster(configs={"min.insync.replicas": [2]})  # pyright: ignore[reportArgumentType]


async def awaited(c: Cluster) -> None:
    """The same of the cluster for an event loop."""
    assert_type(await c.move_leader("orders", 0, 1), None)
    c.kil(1)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    c.hold("Produce", clinet_id="slow")  # pyright: ignore[reportCallIssue]
    c.create_topic("orders")  # pyright: ignore[reportUnusedCoroutine]
