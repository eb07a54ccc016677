"""The process of one broker of `highwater broker --processes`, which starts it."""

import asyncio
import os
import sys

import orjson

from refimpl.edge.commands.broker import run, serve
from refimpl.edge.server.joined_broker import JoinedBroker, Joining


async def _serve(joining: Joining) -> int:
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _orphaned)
    return await serve(JoinedBroker(joining))


def _orphaned() -> None:
    """The parent is gone, and with it the controller: end as by a kill."""
    os._exit(1)


if __name__ == "__main__":
    sys.exit(run(_serve(Joining.of(orjson.loads(sys.stdin.buffer.readline())))))
