"""`recorded`: the one line that a user puts around a client."""

import atexit
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

from traces.record.ids import IdOf
from traces.record.journal import SUFFIX
from traces.record.process import Process, open_process
from traces.record.settling import EXIT, settle
from traces.record.versions import version
from traces.record.wrapper import ClientOptions

COMMIT_ORDERS = ("process_then_commit", "commit_then_process", "transaction", "auto", "none")
#: Clients of this package are made here, of a class and its settings.
MADE_HERE = "confluent-kafka"
#: Every name that a process of the run has taken, whatever became of its file since.
TAKEN = (SUFFIX, ".ndjson", ".ndjson.gz", ".parquet")


class NotAClientError(TypeError):
    """The recorder does not know this kind of client."""

    def __init__(self, client: Any) -> None:
        kind = client if isinstance(client, type) else type(client)
        super().__init__(
            f"expected a Producer or Consumer of confluent-kafka, kafka-python or aiokafka, "
            f"found {kind.__module__}.{kind.__qualname__}"
        )


def recorded(
    client: Any,
    run: str | Path,
    conf: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    id: IdOf | None = None,
    commit_order: str | None = None,
    hashes: bool = False,
) -> Any:
    """The client, recorded: what it does and sees becomes a process file in the folder `run`.

    `conf` is its configuration. Clients of confluent-kafka do not tell theirs; and where `client`
    is their class instead of an instance, it is made here, of `conf`, and then the answers to
    asynchronous and automatic commits are seen as well.

    `name` is the client's name in the trace. `id` tells the application's own id of a message, from
    its topic, key, value and headers; without it every message sent is given one in a header.
    `commit_order` is the application's habit: `process_then_commit`, `commit_then_process`, or
    `transaction` where its offsets go with the outputs of a transaction.
    With `hashes` every record also tells a hash of its key, value and headers.
    """
    adapter = _adapter(client)
    _refuse_mistakes(client, conf, adapter, commit_order)
    folder = Path(run)
    folder.mkdir(parents=True, exist_ok=True)
    role, configured = adapter.describe(client, conf)
    if commit_order is not None and role == "consumer":
        configured["commit_order"] = commit_order
    client_version = _client_version(adapter.PACKAGE)
    head = {"role": role, "client": client_version, "configured": configured}
    if id is not None:
        head["ids"] = None  # the application's own
    if hashes:
        head["hashes"] = True
    process = open_process(folder, name or role, head, TAKEN, settle)
    _open.append(process)
    return adapter.wrap(client, conf, ClientOptions(process, id, configured, hashes))


def _refuse_mistakes(
    client: Any, conf: Mapping[str, Any] | None, adapter: Any, commit_order: str | None
) -> None:
    if commit_order not in (None, *COMMIT_ORDERS):
        orders = ", ".join(COMMIT_ORDERS)
        raise ValueError(f"commit_order: expected one of {orders}, found {commit_order!r}")
    if isinstance(client, type) and adapter.PACKAGE != MADE_HERE:
        raise TypeError(
            f"expected a client of {adapter.PACKAGE}, found the class {client.__name__}"
        )
    if isinstance(client, type) and conf is None:
        raise TypeError(f"expected the settings of a client beside its class {client.__name__}")


def _adapter(client: Any) -> Any:
    """The module that knows this kind of client; none of them imports the library itself."""
    from traces.record import aio, confluent, kafka_python

    kind: type = client if isinstance(client, type) else type(client)
    for base in kind.__mro__:
        for adapter in (confluent, kafka_python, aio):
            if base.__name__ in adapter.CLIENTS and base.__module__.startswith(adapter.MODULES):
                return adapter
    raise NotAClientError(client)


def _client_version(package: str) -> str:
    try:
        return f"{package} {version(package)}, Python {sys.version_info[0]}.{sys.version_info[1]}"
    except PackageNotFoundError:
        return package


_open: list[Process] = []


@atexit.register
def _end_all() -> None:
    """The program ends: what it has not closed by now, it never will.

    A client that some exception took along crashed. Where the program came to its end, settling
    decides: a producer that has flushed and is in no transaction has nothing left to close.
    """
    how = "crash" if getattr(sys, "last_value", None) is not None else EXIT
    for process in _open:
        process.end(how)
