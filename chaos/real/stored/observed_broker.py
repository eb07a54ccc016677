"""A broker process that writes its steps down.

`python -m chaos.real.stored.observed_broker TOPIC,TOPIC FILE` and arguments of `highwater broker`;
the file may be a pipe.
"""

import argparse
import asyncio
import os
import sys
from functools import partial
from pathlib import Path

from chaos.real.stored.observed_host import ObservedHost
from refimpl.edge.commands.broker import serve
from refimpl.edge.server.stored_broker import StoredBroker


def main() -> None:
    """Serve until SIGTERM, as `highwater broker` does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topics", type=lambda names: frozenset(names.split(",")))
    parser.add_argument("file", type=Path)
    parser.add_argument("--id", type=int, required=True)
    parser.add_argument("--zookeeper", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    file = os.open(given.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    configs = dict(one.split("=", 1) for one in given.set)
    cluster = StoredBroker(
        given.id,
        given.zookeeper,
        given.port,
        "127.0.0.1",
        given.data,
        configs,
        host_type=partial(ObservedHost, topics=given.topics, file=file),
    )
    sys.exit(asyncio.run(serve(cluster)))


if __name__ == "__main__":
    main()
